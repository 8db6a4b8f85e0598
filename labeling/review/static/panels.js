// The lists beside the video: categories, edits, and tabs where there is room for one list only.

import { $, el, icon, plural, sentence } from "./dom.js";

export function showCategories(app) {
  const focused = document.activeElement?.closest?.("#kinds") ? document.activeElement.dataset.key : null;
  const listed = app.store.categories.filter((kind) => kind.tracks || !kind.kept);
  $("kinds").replaceChildren(...listed.map((kind) => category(app, kind)));
  $("all-kinds").hidden = !app.kinds.size;
  if (focused) $("kinds").querySelector(`[data-key="${focused}"]`)?.focus();
}

function category(app, kind) {
  const only = app.kinds.has(kind.id);
  const merges = kind.id < 0 || app.store.categories.length > 2; // one is that of tracks without a category
  const filter = {
    type: "button",
    class: "kind",
    "aria-pressed": String(only),
    "data-key": `only ${kind.id}`,
    title: only ? "Show all categories" : "Show only this category",
    onclick: () => app.toggleKind(kind.id),
  };
  return el(
    "li",
    { class: [!kind.kept && "dropped", only && "only"].filter(Boolean).join(" "), style: { "--c": kind.colour } },
    el(
      "button",
      filter,
      el("i", { class: "swatch" }),
      el("span", { class: "name" }, kind.name),
      el("span", { class: "soft count" }, kind.kept ? String(kind.tracks) : "dropped"),
    ),
    el(
      "span",
      { class: "buttons" },
      kind.id >= 0 ? change(app, kind, "rename", "Rename", "edit") : null,
      merges ? change(app, kind, "merge", "Merge", "merge") : null,
      kind.kept ? change(app, kind, "drop", "Drop", "drop") : change(app, kind, "keep", "Keep", "keep"),
    ),
  );
}

function change(app, kind, what, label, name) {
  const properties = {
    type: "button",
    class: "small",
    title: label,
    "aria-label": `${label} ${kind.name}`,
    "data-key": `${what} ${kind.id}`,
    onclick: () => app.category(what, kind),
  };
  return el("button", properties, icon(name));
}

export function showHistory(app) {
  const { history, edits, misfits } = app.store;
  $("edit-count").textContent = edits ? plural(edits, "edit") : "";
  const none = el("li", { class: "soft none" }, "Nothing is changed yet. The labels are as they were found.");
  $("log").replaceChildren(...(history.length ? history.map((line) => entry(app, line)) : [none]));
  $("misfits").replaceChildren(...(misfits.length ? [listOfMisfits(misfits)] : []));
}

// A line of the log; a click leads to the video and frame that it is about.
function entry(app, line) {
  const when = new Date(line.at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const text = [
    el("span", {}, sentence(line.words).replace(/\.$/, "")),
    el("span", { class: "soft" }, [line.video, line.by, when].filter(Boolean).join(" · ")),
  ];
  if (!app.store.videos.some((video) => video.id === line.video)) {
    return el("li", {}, el("span", { class: "line" }, ...text));
  }
  const go = () => app.open(line.video, line.frame ?? undefined);
  return el("li", {}, el("button", { type: "button", class: "line", onclick: go }, ...text));
}

function listOfMisfits(misfits) {
  const title = `${plural(misfits.length, "edit")} no longer fit${misfits.length === 1 ? "s" : ""} the labels`;
  const rows = misfits.map((text) => el("li", {}, text));
  return el("details", { class: "misfits" }, el("summary", {}, title), el("ul", {}, ...rows));
}

// On narrow screens the lists share a place.
export function wireTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const show = (chosen) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      $(tab.getAttribute("aria-controls")).classList.toggle("chosen", tab === chosen);
    }
  };
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(place + step + tabs.length) % tabs.length];
      show(next);
      next.focus();
      event.preventDefault();
      event.stopPropagation();
    });
  });
  show(tabs[0]);
}
