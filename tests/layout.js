// Run in a page by tests/layout.py: what is wrong with its layout, and which text is too faint to read.

const named = (element, text) =>
  `${text.trim().slice(0, 40)} <${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}">`;

const hidden = (element, ignored) =>
  !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
  || (ignored && element.closest(ignored) !== null)
  || element.closest("script, style, title, option") !== null;

function* texts(ignored) {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.data.trim() && !hidden(node.parentElement, ignored)) yield node;
  }
}

// The part of a rectangle that the ancestors of an element show. What they show by scrolling, or end in an ellipsis, is
// excused: nothing of it is lost.
function shown(element, rect) {
  let { left, right, top, bottom } = rect, excused = false;
  for (let one = element; one && one !== document.body; one = one.parentElement) {
    const { overflowX, overflowY, textOverflow, position } = getComputedStyle(one);
    const box = one.getBoundingClientRect(), scrolls = ["auto", "scroll"];
    excused ||= textOverflow === "ellipsis";
    if (overflowX !== "visible") {
      excused ||= scrolls.includes(overflowX) && one.scrollWidth > one.clientWidth;
      [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
    }
    if (overflowY !== "visible") {
      excused ||= scrolls.includes(overflowY) && one.scrollHeight > one.clientHeight;
      [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
    }
    if (position === "fixed") break;
  }
  return { left, right, top, bottom, excused };
}

// A word that is too short to be broken, and is. Names of files and the like may be.
function broken(node) {
  for (const { 0: word, index } of node.data.matchAll(/(?<=^|[\s(])\p{L}{3,16}(?=$|[\s.,:;!?)])/gu)) {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const tops = [...range.getClientRects()].filter(rect => rect.width > 1).map(rect => Math.round(rect.top));
    if (new Set(tops).size > 1) return word;
  }
  return null;
}

function faults(ignored) {
  const found = new Set(), lines = [], wide = document.documentElement.clientWidth;
  const outside = (seen, rect) => !seen.excused && rect.right > 0 && (seen.left < -1 || seen.right > wide + 1);
  const whole = document.documentElement.scrollWidth;
  if (whole > wide) found.add(`the page is ${whole} pixels wide`);
  for (const node of texts(ignored)) {
    const element = node.parentElement, range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      const slack = rect.height / 5;  // letters do not fill the height of their line
      const seen = shown(element, rect);
      if (rect.width <= 2 || seen.right - seen.left <= 2 || seen.bottom - seen.top <= 2 * slack) continue;
      const lost = Math.max(seen.left - rect.left, rect.right - seen.right, seen.top - rect.top, rect.bottom - seen.bottom);
      if (lost > 2 + slack && !seen.excused) found.add(`cut: ${named(element, node.data)}`);
      if (outside(seen, rect)) found.add(`sticks out: ${named(element, node.data)}`);
      lines.push({ ...seen, top: seen.top + slack, bottom: seen.bottom - slack, node });
    }
    if (range.getClientRects().length > 1 && broken(node)) found.add(`broken: ${broken(node)} in ${named(element, node.data)}`);
  }
  lines.sort((one, other) => one.top - other.top);
  lines.forEach((one, index) => {
    for (const other of lines.slice(index + 1)) {
      if (other.top >= one.bottom) break;
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - other.top;
      if (one.node !== other.node && across > 2 && down > 1)
        found.add(`overlap: ${named(one.node.parentElement, one.node.data)} and ${named(other.node.parentElement, other.node.data)}`);
    }
  });
  for (const thing of document.querySelectorAll("img, svg, canvas, video, table, pre, input, button, select")) {
    const rect = thing.getBoundingClientRect();
    if (rect.width && !hidden(thing, ignored) && outside(shown(thing, rect), rect)) found.add(`sticks out: ${named(thing, "")}`);
  }
  return [...found];
}

// Colours are mixed by painting one pixel. Text in drawings is left out: what is behind it is not known.
function faint(ignored) {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const brightness = colours => {
    for (const colour of ["white", ...colours]) { paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1); }
    const [red, green, blue] = [...paint.getImageData(0, 0, 1, 1).data]
      .map(value => value / 255)
      .map(value => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4);
    return .2126 * red + .7152 * green + .0722 * blue;
  };
  const found = new Set();
  for (const node of texts(ignored)) {
    const element = node.parentElement, behind = [];
    if (element.closest("svg")) continue;
    for (let one = element; one; one = one.parentElement) behind.unshift(getComputedStyle(one).backgroundColor);
    const { color, fontSize, fontWeight } = getComputedStyle(element), size = parseFloat(fontSize);
    const [dark, light] = [brightness(behind), brightness([...behind, color])].sort((one, other) => one - other);
    const contrast = (light + .05) / (dark + .05), large = size >= 24 || (size >= 18.66 && fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5)) found.add(`faint (${contrast.toFixed(1)}): ${named(element, node.data)}`);
  }
  return [...found];
}
