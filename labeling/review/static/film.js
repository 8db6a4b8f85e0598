// Frames and boxes of one video, fetched ahead of where one is, in bounded memory.

import { getBoxes, getFrames } from "./api.js";

const AHEAD = 48; // frames that are fetched before they are needed
const NEXT = 12; // the same while paused, for single steps and so that playing begins at once
const TOGETHER = 24; // frames in one request
const MOST_BYTES = 160 << 20; // of decoded pictures
const MOST_STRETCHES = 12; // of boxes

export class Film {
  constructor(video, sheet, side, changed) {
    this.video = video;
    this.sheet = sheet;
    this.side = side;
    this.changed = changed; // called when a frame or boxes came in
    this.pictures = new Map(); // frame -> ImageBitmap, the one used last at the end
    this.bytes = 0;
    this.boxes = new Map(); // stretch -> boxes
    this.asked = new Set();
    this.trouble = "";
    this.request = null;
  }

  close() {
    this.request?.abort.abort();
    this.closed = true;
    for (const picture of this.pictures.values()) picture.close();
    this.pictures.clear();
  }

  // The tracks were edited: frames stay, boxes are asked for again.
  renew(sheet) {
    this.sheet = sheet;
    this.boxes.clear();
    this.asked.clear();
  }

  picture(frame) {
    const found = this.pictures.get(frame);
    if (found) {
      this.pictures.delete(frame);
      this.pictures.set(frame, found);
    }
    return found;
  }

  // Tracks and edges on a frame, or null if they are not here yet.
  boxesAt(frame) {
    const found = this.boxes.get(Math.floor(frame / this.sheet.stretch));
    if (!found) return null;
    const place = frame % this.sheet.stretch;
    const [begin, end] = [found.begin[place], found.begin[place + 1]];
    return { track: found.track.subarray(begin, end), edges: found.edges.subarray(4 * begin, 4 * end) };
  }

  get isBusy() {
    return Boolean(this.request) && !this.closed;
  }

  isReady(frame) {
    const hasBoxes = this.boxes.has(Math.floor(frame / this.sheet.stretch));
    return hasBoxes && (this.pictures.has(frame) || Boolean(this.trouble));
  }

  // See to it that a frame is here soon, and while playing those after it.
  want(frame, playing) {
    this.wantBoxes(frame);
    if (playing) this.wantBoxes(Math.min(frame + AHEAD, this.video.frames - 1));
    if (this.trouble || this.closed) return;
    const last = Math.min(frame + (playing ? AHEAD : NEXT), this.video.frames);
    let first = frame;
    while (first < last && this.pictures.has(first)) first += 1;
    if (first >= last) return;
    const coming = this.request;
    if (coming && first >= coming.next && first < coming.end) return;
    if (coming && first === frame) coming.abort.abort(); // the frame itself is missing: what was on its way can wait
    else if (coming) return;
    const alone = !playing && first === frame; // somebody jumped there, and may jump on
    this.fetch(first, alone ? first + 1 : Math.min(first + TOGETHER, last));
  }

  async fetch(begin, end) {
    const request = { next: begin, end, abort: new AbortController() };
    this.request = request;
    try {
      await getFrames(this.video.id, begin, end, this.side, request.abort.signal, async (number, blob) => {
        this.keep(number, await createImageBitmap(blob));
        request.next = number + 1;
        this.changed();
      });
    } catch (error) {
      if (error.name !== "AbortError" && !this.closed) this.trouble = error.message;
    }
    if (this.request === request) this.request = null;
    if (!request.abort.signal.aborted && !this.closed) this.changed();
  }

  keep(number, picture) {
    if (this.closed || this.pictures.has(number)) {
      picture.close();
      return;
    }
    this.pictures.set(number, picture);
    this.bytes += 4 * picture.width * picture.height;
    for (const [oldest, one] of this.pictures) {
      if (this.bytes <= MOST_BYTES || this.pictures.size <= 2) break;
      this.pictures.delete(oldest);
      this.bytes -= 4 * one.width * one.height;
      one.close();
    }
  }

  async wantBoxes(frame) {
    const stretch = Math.floor(frame / this.sheet.stretch);
    if (this.boxes.has(stretch) || this.asked.has(stretch)) return;
    this.asked.add(stretch);
    const version = this.sheet.version;
    try {
      const found = await getBoxes(this.video.id, stretch);
      if (this.closed || version !== this.sheet.version || found.version !== version) return;
      this.boxes.set(stretch, found);
      if (this.boxes.size > MOST_STRETCHES) {
        const oldest = this.boxes.keys().next().value;
        this.boxes.delete(oldest);
        this.asked.delete(oldest);
      }
      this.changed();
    } catch {
      this.asked.delete(stretch);
    }
  }
}
