// Small helpers for elements. Text is only ever set as text, never as markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const PATHS = {
  play: "M7 4.5v15l12-7.5z",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z",
  previous: "M15.5 5.5 9 12l6.5 6.5M7 5.5v13",
  next: "M8.5 5.5 15 12l-6.5 6.5M17 5.5v13",
  undo: "M9 7 4.5 11.5 9 16M5 11.5h9a5 5 0 0 1 0 10h-2",
  redo: "M15 7l4.5 4.5L15 16M19 11.5h-9a5 5 0 0 0 0 10h2",
  keys: "M3.5 6.5h17v11h-17zM7 10h.01M10.3 10h.01M13.7 10h.01M17 10h.01M8 14h8",
  check: "M5 12.5 10 17.5 19.5 7",
  edit: "M4.5 19.5h4L19 9l-4-4L4.5 15.5zM13 7l4 4",
  merge: "M6 4v4c0 4 6 4 6 8v4M18 4v4c0 4-6 4-6 8M9 17l3 3 3-3",
  split: "M12 20v-4c0-4-6-4-6-8V4M12 16c0-4 6-4 6-8V4M3 7l3-3 3 3M15 7l3-3 3 3",
  swap: "M4 8h13M13 4l4 4-4 4M20 16H7M11 12l-4 4 4 4",
  drop: "M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7M10.5 10.5v6M13.5 10.5v6",
  keep: "M4 12a8 8 0 1 1 2.5 5.8M4 12V7M4 12h5",
  kind: "M4 12.5V5a1 1 0 0 1 1-1h7.5L20 11.5 12 20zM8 8h.01",
  only: "M4 12c3-5 6-7 8-7s5 2 8 7c-3 5-6 7-8 7s-5-2-8-7zM12 9.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z",
  close: "M6 6l12 12M18 6 6 18",
};
const FILLED = new Set(["play", "pause"]);

export function drawIcon(svg, name) {
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("focusable", "false");
  svg.classList.add("icon");
  svg.classList.toggle("filled", FILLED.has(name));
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.replaceChildren(path);
  return svg;
}

export const icon = (name) => drawIcon(document.createElementNS("http://www.w3.org/2000/svg", "svg"), name);

export function plural(count, word) {
  const many = word.endsWith("x") ? `${word}es` : `${word}s`;
  return `${count.toLocaleString("en")} ${count === 1 ? word : many}`;
}

export function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "";
}

export function clock(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${(seconds - 60 * minutes).toFixed(2).padStart(5, "0")}`;
}

let toastTimer = 0;

// One message at a time; `action` is {text, run}.
export function toast(text, { bad = false, action = null, seconds = 6 } = {}) {
  clearTimeout(toastTimer);
  const close = () => $("toasts").replaceChildren();
  const button = action && el("button", { type: "button", onclick: () => { close(); action.run(); } }, action.text);
  const shut = el("button", { type: "button", class: "shut", "aria-label": "Close", onclick: close }, icon("close"));
  $("toasts").replaceChildren(el("div", { class: bad ? "toast bad" : "toast" }, el("p", {}, text), button, shut));
  toastTimer = setTimeout(close, (bad ? 2 : 1) * 1000 * seconds);
}
