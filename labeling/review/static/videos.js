// The list of videos, each with a picture.

import { getFrames } from "./api.js";
import { $, clock, el, icon, plural } from "./dom.js";
import { VirtualList } from "./virtual.js";

const THUMB = 160; // longest side of a picture

export class VideoList {
  constructor(app) {
    this.app = app;
    this.shown = [];
    this.thumbs = new Map(); // video -> URL of a picture, or null if there is none
    this.waiting = Promise.resolve(); // pictures are fetched one after another
    this.list = new VirtualList($("videos"), "video", (place) => this.row(place));
    $("videos").addEventListener("keydown", (event) => {
      if (this.list.moved(event) || event.key !== "Enter") return;
      if (this.list.active >= 0) app.open(this.shown[this.list.active].id);
      event.preventDefault();
      event.stopPropagation();
    });
    $("unchecked-only").addEventListener("change", () => this.update());
  }

  update() {
    const { videos } = this.app.store;
    const current = this.app.video?.id;
    const all = !$("unchecked-only").checked;
    this.shown = videos.filter((video) => all || !video.checked || video.id === current);
    this.list.update(this.shown.length);
    const checked = videos.filter((video) => video.checked).length;
    $("checked-count").textContent = `${checked} of ${plural(videos.length, "video")} checked`;
    $("meter").style.setProperty("--share", videos.length ? checked / videos.length : 0);
  }

  row(place) {
    const video = this.shown[place];
    const picture = el("img", { alt: "", width: 72, height: 48, decoding: "async" });
    this.picture(video, picture);
    const tick = { class: "tick", title: `Checked ${video.checked}`, role: "img", "aria-label": "Checked" };
    const row = el(
      "div",
      { class: "video", role: "option", "aria-selected": String(video.id === this.app.video?.id), title: video.source },
      el("span", { class: "thumb" }, picture),
      el(
        "span",
        { class: "what" },
        el("span", { class: "title" }, video.source),
        el("span", { class: "soft" }, `${clock(video.seconds)} · ${video.width} × ${video.height}`),
      ),
      video.checked ? el("span", tick, icon("check")) : null,
    );
    row.addEventListener("click", () => this.app.open(video.id));
    return row;
  }

  picture(video, element) {
    const show = () => {
      const known = this.thumbs.get(video.id);
      if (known) element.src = known;
      return known !== undefined;
    };
    if (show()) return;
    this.waiting = this.waiting.then(async () => {
      await this.app.player.rest(); // it comes first: these pictures are of frames far from where it is
      if (show() || !element.isConnected) return;
      const middle = Math.floor(video.frames / 2);
      const take = (_, blob) => this.thumbs.set(video.id, URL.createObjectURL(blob));
      const none = () => this.thumbs.set(video.id, null);
      await getFrames(video.id, middle, middle + 1, THUMB, undefined, take).catch(none);
      show();
    });
  }

  // The video after or before the one that is open.
  beside(step) {
    const place = this.shown.findIndex((video) => video.id === this.app.video?.id);
    return this.shown[place + step];
  }
}
