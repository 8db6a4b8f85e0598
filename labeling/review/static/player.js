// Plays a video frame by frame, each with its own boxes, on one canvas.

import { $, clock, drawIcon, plural } from "./dom.js";
import { Film } from "./film.js";
import { boxesUnder, drawBoxes } from "./drawing.js";

const SMALL = 256; // pixels: smaller videos are enlarged without blur, so that every pixel can be judged
const REST = 200; // milliseconds between two looks whether the player has something to do

export class Player {
  constructor(state, listeners) {
    this.state = state; // {selection, hovered, look(track index) -> {colour, ink, visible, label, ...}}
    this.listeners = listeners; // {frame(number), select(instance, add), hover(instance)}
    this.canvas = $("canvas");
    this.film = null;
    this.frame = 0;
    this.drawn = -1;
    this.playing = false;
    this.speed = 1;
    this.place = { x: 0, y: 0, scale: 1 };
    new ResizeObserver(() => this.resized()).observe($("screen"));
    this.canvas.addEventListener("pointermove", (event) => this.pointed(event));
    this.canvas.addEventListener("pointerleave", () => listeners.hover(null));
    this.canvas.addEventListener("click", (event) => this.clicked(event));
  }

  open(video, sheet, frame = 0) {
    this.film?.close();
    this.video = video;
    this.sheet = sheet;
    this.drawn = -1;
    this.film = new Film(video, sheet, this.side(), () => this.refresh());
    $("scrub").max = $("frame").max = Math.max(0, video.frames - 1);
    $("of").textContent = `of ${(video.frames - 1).toLocaleString("en")}`;
    this.seek(Math.min(frame, video.frames - 1));
  }

  renew(sheet) {
    this.sheet = sheet;
    this.drawn = -1;
    this.film.renew(sheet);
    this.film.want(this.frame, this.playing);
  }

  // Longest side of the pictures to ask for: what can be seen.
  side() {
    const shown = $("screen").getBoundingClientRect();
    const scale = Math.min(shown.width / this.video.width, shown.height / this.video.height);
    const longest = Math.max(this.video.width, this.video.height) * Math.min(1, scale * devicePixelRatio);
    return Math.round(Math.min(1280, Math.max(160, longest)));
  }

  resized() {
    const { width, height } = $("screen").getBoundingClientRect();
    this.canvas.width = Math.max(1, Math.round(width * devicePixelRatio));
    this.canvas.height = Math.max(1, Math.round(height * devicePixelRatio));
    this.refresh(true);
  }

  seek(frame) {
    if (!this.video) return;
    this.frame = Math.max(0, Math.min(this.video.frames - 1, Math.round(frame)));
    this.began = null;
    this.film.want(this.frame, this.playing);
    this.show();
    this.refresh();
  }

  step(frames) {
    this.pause();
    this.seek(this.frame + frames);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (!this.video || this.playing) return;
    if (this.frame >= this.video.frames - 1) this.seek(0);
    this.playing = true;
    this.began = null;
    this.button();
    this.film.want(this.frame, true);
    requestAnimationFrame((now) => this.tick(now));
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.button();
    this.refresh(true);
  }

  button() {
    $("play").setAttribute("aria-label", this.playing ? "Pause" : "Play");
    drawIcon($("play").querySelector("svg"), this.playing ? "pause" : "play");
  }

  // Wait until nothing is played and no frame is on its way.
  async rest() {
    while (this.playing || this.film?.isBusy) await new Promise((rested) => setTimeout(rested, REST));
  }

  // The clock runs while frames are there; where one is missing it waits, so that no box is ever on another's frame.
  tick(now) {
    if (!this.playing) return;
    const times = this.sheet.times;
    if (this.began === null) this.began = { now, time: times[this.frame] };
    const due = this.began.time + ((now - this.began.now) / 1000) * this.speed;
    let frame = this.frame;
    while (frame + 1 < this.video.frames && times[frame + 1] <= due && this.film.isReady(frame + 1)) frame += 1;
    if (frame + 1 < this.video.frames && times[frame + 1] <= due) this.began = null;
    if (frame !== this.frame) {
      this.frame = frame;
      this.show();
      this.refresh();
    }
    this.film.want(Math.min(frame + 1, this.video.frames - 1), true);
    if (frame >= this.video.frames - 1) this.pause();
    else requestAnimationFrame((next) => this.tick(next));
  }

  show() {
    const time = this.sheet.times[this.frame] ?? 0;
    $("scrub").value = this.frame;
    $("scrub").setAttribute("aria-valuetext", `frame ${this.frame} of ${this.video.frames - 1}, ${clock(time)}`);
    if (document.activeElement !== $("frame")) $("frame").value = this.frame;
    $("time").textContent = clock(time);
    this.listeners.frame(this.frame);
  }

  // Draw the frame if it is here with its boxes; until then the one before stays.
  refresh(again = false) {
    if (!this.film) return;
    $("cover").hidden = !this.film.trouble;
    $("cover").textContent = this.film.trouble;
    if (this.film.isReady(this.frame)) {
      if (again || this.drawn !== this.frame || this.film.trouble) this.draw(this.frame);
    } else {
      this.film.want(this.frame, this.playing);
      if (again && this.drawn >= 0) this.draw(this.drawn);
    }
    if (!this.playing && this.film.isReady(this.frame)) this.film.want(this.frame, false);
  }

  draw(frame) {
    const context = this.canvas.getContext("2d");
    const { width, height } = this.canvas;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    const picture = this.film.picture(frame);
    const found = this.film.boxesAt(frame);
    if (!picture && !this.film.trouble) return;
    const scale = Math.min(width / this.video.width, height / this.video.height);
    const [x, y] = [(width - scale * this.video.width) / 2, (height - scale * this.video.height) / 2];
    this.place = { x, y, scale };
    if (picture) {
      context.imageSmoothingEnabled = Math.max(this.video.width, this.video.height) > SMALL;
      context.drawImage(picture, x, y, scale * this.video.width, scale * this.video.height);
    }
    if (found) drawBoxes(context, found, this.place, this.state, (back) => this.film.boxesAt(frame - back), frame);
    this.drawn = frame;
    this.canvas.dataset.frame = frame; // what is shown, for those who test and for those who cannot see
    this.canvas.dataset.boxes = found ? this.state.count : 0;
    if (!this.playing) this.canvas.setAttribute("aria-label", `Frame ${frame} with ${plural(this.state.count, "box")}`);
  }

  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const { x, y, scale } = this.place;
    const point = (at, corner) => (at * devicePixelRatio - corner) / scale;
    return [point(event.clientX - left, x), point(event.clientY - top, y)];
  }

  under(event) {
    const found = this.drawn >= 0 && this.film?.boxesAt(this.drawn);
    return found ? boxesUnder(found, ...this.at(event), (6 * devicePixelRatio) / this.place.scale, this.state) : [];
  }

  pointed(event) {
    if (event.pointerType === "touch") return;
    const [first] = this.under(event);
    this.canvas.classList.toggle("over", first !== undefined);
    this.listeners.hover(first ?? null);
  }

  // A second click at the same place takes the next box below.
  clicked(event) {
    const found = this.under(event);
    const add = event.shiftKey || event.ctrlKey || event.metaKey;
    if (!found.length) {
      if (!add) this.listeners.select(null, false);
      return;
    }
    const place = found.findIndex((instance) => this.state.selection.has(instance));
    this.listeners.select(found[add ? 0 : (place + 1) % found.length], add);
  }
}
