// The list of tracks, each with a bar that shows when it is in view.

import { $, el, plural } from "./dom.js";
import { VirtualList } from "./virtual.js";

export class TrackList {
  constructor(app) {
    this.app = app;
    this.shown = []; // indices of the tracks in the list
    this.anchor = null;
    this.list = new VirtualList($("tracks"), "track", (place) => this.row(place));
    $("tracks").addEventListener("keydown", (event) => this.key(event));
    $("tracks").addEventListener("pointerdown", (event) => this.scrubbed(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.list.update());
  }

  // Choose which tracks are listed.
  filter() {
    const { looks, sheet, inView, video } = this.app;
    const frame = this.app.player.frame;
    this.shown = [];
    looks.forEach((look, index) => {
      if (look.visible && (!inView || isAt(sheet.tracks.spans[index], frame))) this.shown.push(index);
    });
    this.list.update(this.shown.length);
    const all = looks.filter((look) => look.kept || this.app.showDropped).length;
    const some = this.shown.length < all ? `${this.shown.length.toLocaleString("en")} of ` : "";
    $("shown-count").textContent = video ? some + plural(all, "track") : "";
    const why = looks.length ? "No track fits the filter." : "No object was found in this video.";
    $("no-tracks").hidden = this.shown.length > 0 || !video;
    $("no-tracks").textContent = why;
    this.moved(frame);
  }

  row(place) {
    const index = this.shown[place];
    const look = this.app.looks[index];
    const bar = el("canvas", { class: "bar", "aria-hidden": "true" });
    const dropped = look.kept ? "" : `, dropped: ${look.why}`;
    const number = el("b", { class: "id" }, String(look.instance));
    const row = el(
      "div",
      {
        class: look.kept ? "row" : "row dropped", role: "option", "aria-selected": String(look.selected),
        "aria-label": `Track ${look.instance}, ${look.name}, ${plural(look.frames, "frame")}${dropped}`,
        title: look.kept ? "" : look.why, style: { "--c": look.colour, "--i": look.ink },
      },
      el("span", { class: "who" }, number, el("span", { class: "name" }, look.name)),
      bar,
    );
    row.dataset.instance = look.instance;
    row.querySelector(".who").addEventListener("click", (event) => this.clicked(place, event));
    row.addEventListener("pointerenter", () => this.app.hover(look.instance));
    row.addEventListener("pointerleave", () => this.app.hover(null));
    requestAnimationFrame(() => this.paint(bar, index, look));
    return row;
  }

  paint(bar, index, look) {
    const { width, height } = bar.getBoundingClientRect();
    if (!width) return;
    bar.width = Math.round(width * devicePixelRatio);
    bar.height = Math.round(height * devicePixelRatio);
    const context = bar.getContext("2d");
    const spans = this.app.sheet.tracks.spans[index];
    const scale = bar.width / this.app.video.frames;
    context.fillStyle = look.colour;
    context.globalAlpha = look.kept ? 1 : 0.4;
    for (let place = 0; place < spans.length; place += 2) {
      const wide = Math.max(devicePixelRatio, scale * (spans[place + 1] - spans[place]));
      context.beginPath();
      context.roundRect(scale * spans[place], 0, wide, bar.height, Math.min(3 * devicePixelRatio, wide / 2));
      context.fill();
    }
  }

  // Another frame is shown: move the line, and show who is in view.
  moved(frame) {
    const { video, sheet } = this.app;
    if (!video) return;
    const share = video.frames > 1 ? (frame + 0.5) / video.frames : 0.5;
    $("playhead").style.setProperty("--at", share);
    this.list.each((place, row) => row.classList.toggle("here", isAt(sheet.tracks.spans[this.shown[place]], frame)));
  }

  clicked(place, event) {
    const instance = this.app.looks[this.shown[place]].instance;
    if (event.shiftKey && this.anchor !== null) {
      const [first, last] = [Math.min(this.anchor, place), Math.max(this.anchor, place)];
      this.app.select(this.shown.slice(first, last + 1).map((index) => this.app.looks[index].instance));
    } else {
      this.anchor = place;
      const add = event.ctrlKey || event.metaKey || event.pointerType === "touch";
      this.app.selectOne(instance, add);
    }
    this.list.activate(place, false);
    $("tracks").focus({ preventScroll: true });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.list.moved(event)) {
      const look = this.app.looks[this.shown[this.list.active]];
      if (look && event.shiftKey) this.app.select([...this.app.selection, look.instance]);
      return;
    }
    if (event.key !== "Enter" || this.list.active < 0) return;
    this.app.selectOne(this.app.looks[this.shown[this.list.active]].instance, true);
    event.preventDefault();
    event.stopPropagation();
  }

  // Press on a bar to go to that frame, and drag on.
  scrubbed(event) {
    if (!event.target.classList.contains("bar") || event.button !== 0) return;
    const box = event.target.getBoundingClientRect();
    const go = (at) => this.app.player.seek(Math.floor(((at.clientX - box.left) / box.width) * this.app.video.frames));
    this.app.player.pause();
    go(event);
    if (event.pointerType === "touch") return;
    const stop = () => removeEventListener("pointermove", go);
    addEventListener("pointermove", go);
    addEventListener("pointerup", stop, { once: true });
  }

  // Have a selected track in view.
  reveal(instance) {
    const place = this.shown.findIndex((index) => this.app.looks[index].instance === instance);
    if (place >= 0) this.list.activate(place);
  }

  refresh() {
    this.list.each((place, row) => {
      const look = this.app.looks[this.shown[place]];
      row.setAttribute("aria-selected", String(look.selected));
      row.classList.toggle("hovered", look.hovered);
    });
  }
}

// Whether a track with these spans is in view on a frame.
export function isAt(spans, frame) {
  for (let place = 0; place < spans.length && spans[place] <= frame; place += 2) {
    if (frame < spans[place + 1]) return true;
  }
  return false;
}
