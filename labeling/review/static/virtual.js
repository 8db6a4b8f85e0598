// A list of any length of which only what can be seen is in the page.

import { el } from "./dom.js";

const SPARE = 4; // rows beyond what can be seen

export class VirtualList {
  // `render(index)` makes the element of a row; `name` begins its id. The style sheet knows how high a row is.
  constructor(container, name, render) {
    this.container = container;
    this.name = name;
    this.render = render;
    this.count = 0;
    this.active = -1;
    this.rows = new Map();
    this.inner = el("div", { class: "inner", role: "presentation" });
    container.append(this.inner);
    container.addEventListener("scroll", () => this.place(), { passive: true });
    new ResizeObserver(() => this.update()).observe(container);
  }

  // The rows are others now, or look different.
  update(count = this.count) {
    this.count = count;
    this.height = parseFloat(getComputedStyle(this.container).getPropertyValue("--row"));
    this.active = Math.min(this.active, count - 1);
    this.inner.style.height = `${count * this.height}px`;
    this.inner.replaceChildren();
    this.rows.clear();
    this.place();
  }

  place() {
    const top = this.container.scrollTop;
    const first = Math.max(0, Math.floor(top / this.height) - SPARE);
    const last = Math.min(this.count, Math.ceil((top + this.container.clientHeight) / this.height) + SPARE);
    for (const [index, row] of this.rows) {
      if (index >= first && index < last) continue;
      row.remove();
      this.rows.delete(index);
    }
    for (let index = first; index < last; index += 1) {
      if (this.rows.has(index)) continue;
      const row = this.render(index);
      row.id = `${this.name}-${index}`;
      row.style.transform = `translateY(${index * this.height}px)`;
      row.setAttribute("aria-setsize", this.count);
      row.setAttribute("aria-posinset", index + 1);
      row.classList.toggle("active", index === this.active);
      this.rows.set(index, row);
      this.inner.append(row);
    }
    this.mark();
  }

  each(visit) {
    for (const [index, row] of this.rows) visit(index, row);
  }

  // Make a row the one that keys act on, and have it in view.
  activate(index, scroll = true) {
    if (!this.count) return;
    this.active = Math.max(0, Math.min(this.count - 1, index));
    if (scroll) {
      const top = this.active * this.height;
      const { scrollTop, clientHeight } = this.container;
      const lowest = top + this.height - clientHeight;
      this.container.scrollTop = Math.min(top, Math.max(lowest, scrollTop));
    }
    this.place();
  }

  mark() {
    this.each((index, row) => row.classList.toggle("active", index === this.active));
    if (this.rows.has(this.active)) this.container.setAttribute("aria-activedescendant", `${this.name}-${this.active}`);
    else this.container.removeAttribute("aria-activedescendant");
  }

  // What arrow keys do; true if the key was one of them.
  moved(event) {
    const page = Math.max(1, Math.floor(this.container.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) this.activate(this.active + steps[event.key]);
    else if (event.key === "Home") this.activate(0);
    else if (event.key === "End") this.activate(this.count - 1);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
}
