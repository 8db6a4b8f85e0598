// The review page: what is open, what is selected, and what is done to it.

import { act, changeCategory, showActions } from "./actions.js";
import { getStore, getVersion, getVideo, post } from "./api.js";
import { showHelp } from "./dialogs.js";
import { $, drawIcon, sentence, toast } from "./dom.js";
import { SHORTCUTS, wireKeys } from "./keys.js";
import { showCategories, showHistory, wireTabs } from "./panels.js";
import { Player } from "./player.js";
import { TrackList, isAt } from "./tracks.js";
import { VideoList } from "./videos.js";

const LOOK_AGAIN = 4000; // milliseconds between two looks whether others changed something
const SPEEDS = [0.25, 0.5, 1, 2, 4];

class App {
  constructor() {
    Object.assign(this, { store: null, video: null, sheet: null, looks: [], kinds: new Set(), solo: null, count: 0 });
    Object.assign(this, { selection: new Set(), search: "", inView: false, showDropped: false, busy: false, turn: Promise.resolve() });
    this.player = new Player(this, {
      frame: (frame) => this.framed(frame),
      select: (instance, add) => (instance === null ? this.select([]) : this.selectOne(instance, add)),
      hover: (instance) => this.hover(instance),
    });
    this.tracks = new TrackList(this);
    this.videos = new VideoList(this);
  }

  look(index) {
    return this.looks[index];
  }

  async start() {
    await this.reload();
    const asked = decodeURIComponent(location.hash.slice(1));
    const { videos } = this.store;
    const first = videos.find((video) => video.id === asked) || videos.find((video) => !video.checked) || videos[0];
    if (first) await this.open(first.id);
    setInterval(() => this.lookAgain(), LOOK_AGAIN);
    document.body.dataset.ready = "yes";
  }

  async reload() {
    this.store = await getStore();
    this.isLost = false;
    document.title = `${this.store.title} · Spectrabox review`;
    $("title").textContent = this.store.title;
    $("title").title = this.store.path;
    if (this.store.labeled_by) toast("This store is being labeled. Edits can be saved when that is done.", { bad: true });
    for (const [id, words] of [["undo", this.store.undo], ["redo", this.store.redo]]) {
      $(id).disabled = !words;
      $(id).title = words ? sentence(`${id}: ${words}`) : `There is nothing to ${id}.`;
    }
    if (this.video) this.video = this.store.videos.find((video) => video.id === this.video.id) || this.video;
    this.videos.update();
    showCategories(this);
    showHistory(this);
    this.showChecked();
  }

  async open(id, frame) {
    const video = this.store.videos.find((one) => one.id === id);
    if (!video) return;
    if (video.id === this.video?.id) {
      if (frame !== undefined) this.player.step(frame - this.player.frame);
      return;
    }
    this.player.pause();
    const sheet = await getVideo(id);
    Object.assign(this, { video, sheet, selection: new Set(), solo: null });
    history.replaceState(null, "", `#${encodeURIComponent(id)}`);
    $("corner").textContent = video.source;
    this.relook(false);
    this.player.open(video, sheet, frame ?? 0);
    this.tracks.filter();
    this.videos.update();
    this.videos.list.activate(this.videos.shown.indexOf(video));
    this.showChecked();
    showActions(this);
  }

  // Take in what there is by now, of the store and of the video that is open.
  async renew() {
    await this.reload();
    if (!this.video) return;
    this.sheet = await getVideo(this.video.id);
    const there = new Set(this.sheet.tracks.instance);
    this.selection = new Set([...this.selection].filter((instance) => there.has(instance)));
    if (this.solo) this.solo = this.selection.size ? new Set(this.selection) : null;
    this.relook(false);
    this.player.renew(this.sheet);
    this.tracks.filter();
    showActions(this);
  }

  // Decide how each track looks: its colour, and whether it is shown.
  relook(draw = true) {
    if (!this.sheet) return;
    const kinds = new Map(this.store.categories.map((kind) => [kind.id, kind]));
    const { instance, category, kept, why, count } = this.sheet.tracks;
    const words = this.search.toLowerCase().split(/\s+/).filter(Boolean);
    this.looks = instance.map((number, index) => {
      const { id, name, colour, ink } = kinds.get(category[index]) || kinds.get(-1);
      const visible =
        words.every((word) => String(number) === word || name.toLowerCase().includes(word)) &&
        (kept[index] || this.showDropped) &&
        (!this.kinds.size || this.kinds.has(id)) &&
        (!this.solo || this.solo.has(number));
      const track = { instance: number, kept: kept[index], why: why[index], frames: count[index] };
      return { ...track, kind: id, name, colour, ink, visible, selected: this.selection.has(number), hovered: false };
    });
    if (draw) this.player.refresh(true);
  }

  refilter() {
    this.relook();
    this.tracks.filter();
  }

  framed(frame) {
    if (this.inView) this.tracks.filter();
    else this.tracks.moved(frame);
    showActions(this);
  }

  hover(instance) {
    if (this.hovered === instance) return;
    this.hovered = instance;
    for (const look of this.looks) look.hovered = look.instance === instance;
    this.tracks.refresh();
    this.player.refresh(true);
  }

  select(instances) {
    this.selection = new Set(instances);
    for (const look of this.looks) look.selected = this.selection.has(look.instance);
    if (this.solo) this.toggleSolo(false);
    this.tracks.refresh();
    this.player.refresh(true);
    showActions(this);
  }

  selectOne(instance, add) {
    const chosen = new Set(add ? this.selection : []);
    if (this.selection.has(instance) && (add || this.selection.size === 1)) chosen.delete(instance);
    else chosen.add(instance);
    this.select(chosen);
    this.tracks.reveal(instance);
  }

  selectBeside(step) {
    const { list, shown } = this.tracks;
    list.activate(list.active + step);
    if (list.active >= 0) this.select([this.looks[shown[list.active]].instance]);
  }

  selectInView() {
    const here = (look, index) => look.visible && isAt(this.sheet.tracks.spans[index], this.player.frame);
    this.select(this.looks.filter(here).map((look) => look.instance));
  }

  get chosen() {
    return this.looks.filter((look) => look.selected);
  }

  toggleSolo(on = !this.solo) {
    this.solo = on && this.selection.size ? new Set(this.selection) : null;
    this.refilter();
    showActions(this);
  }

  toggleKind(id) {
    if (this.kinds.has(id)) this.kinds.delete(id);
    else this.kinds.add(id);
    showCategories(this);
    this.refilter();
  }

  toggleDropped() {
    $("show-dropped").checked = !$("show-dropped").checked;
    $("show-dropped").dispatchEvent(new Event("change"));
  }

  faster(step) {
    const place = SPEEDS.indexOf(this.player.speed) + step;
    $("speed").value = String(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, place))]);
    $("speed").dispatchEvent(new Event("change"));
  }

  // Where the selected track begins; from there, where it ends.
  goToEnds() {
    const [look] = this.chosen;
    if (!look) return;
    const spans = this.sheet.tracks.spans[this.looks.indexOf(look)];
    const ends = [spans[0], spans[spans.length - 1] - 1];
    this.player.step((this.player.frame === ends[0] ? ends[1] : ends[0]) - this.player.frame);
  }

  find() {
    $("search").focus();
    $("search").select();
  }

  help() {
    showHelp(SHORTCUTS);
  }

  openBeside(step) {
    const video = this.videos.beside(step);
    if (video) this.open(video.id);
  }

  showChecked() {
    const checked = this.video?.checked;
    $("check").disabled = !this.video;
    $("check").setAttribute("aria-pressed", String(Boolean(checked)));
    $("check-text").textContent = checked ? "Checked" : "Mark as checked";
    $("check").title = checked ? `Checked ${checked}` : "Say that this video is right (V)";
  }

  act(what) {
    return act(this, what);
  }

  category(what, kind) {
    return changeCategory(this, what, kind);
  }

  async toggleChecked() {
    await this.turn;
    const kind = this.video?.checked ? "uncheck-video" : "check-video";
    return this.video ? this.edit({ kind, video: this.video.id }) : null;
  }

  edit(edit) {
    return this.write("edit", edit);
  }

  async undo() {
    await this.turn;
    return $("undo").disabled ? toast("There is nothing to undo.") : this.write("undo");
  }

  async redo() {
    await this.turn;
    return $("redo").disabled ? toast("There is nothing to redo.") : this.write("redo");
  }

  // One after another: who presses a key twice means what the page shows after the first time.
  write(what, edit) {
    this.turn = this.turn.then(() => this.written(what, edit));
    return this.turn;
  }

  async written(what, edit) {
    this.busy = true;
    try {
      const { words } = await post(what, this.store.version, edit);
      await this.renew();
      const said = { undo: "Undone: ", redo: "Done again: " }[what] || "";
      const back = what === "edit" ? { text: "Undo", run: () => this.undo() } : null;
      toast(sentence(said + words), { action: back });
    } catch (error) {
      if (error.status === 409) {
        await this.renew().catch(() => {}); // if the server is gone, what follows says so as well
        toast(error.message, { bad: true, action: { text: "Do it anyway", run: () => this.write(what, edit) } });
      } else toast(sentence(error.message), { bad: true });
    } finally {
      this.busy = false;
    }
  }

  // Others may edit the same store, or label it anew.
  async lookAgain() {
    if (document.hidden || this.busy) return;
    const seen = this.store.version;
    const version = await getVersion().catch((error) => this.lost(error) || seen);
    if (this.busy || version === seen || seen !== this.store.version) return;
    await this.renew();
    toast("The review was changed elsewhere. This is how it is now.");
  }

  // The server does not answer: say so once.
  lost(error) {
    if (!this.isLost) toast(sentence(error.message), { bad: true, seconds: 600 });
    this.isLost = true;
  }
}

const app = new App();
for (const svg of document.querySelectorAll("svg[data-icon]")) drawIcon(svg, svg.dataset.icon);
const on = (id, event, run) => $(id).addEventListener(event, run);
on("play", "click", () => app.player.toggle());
on("previous", "click", () => app.player.step(-1));
on("next", "click", () => app.player.step(1));
on("scrub", "input", () => { app.player.pause(); app.player.seek(Number($("scrub").value)); });
on("frame", "change", () => { app.player.pause(); app.player.seek(Number($("frame").value) || 0); });
on("speed", "change", () => { app.player.speed = Number($("speed").value); app.player.began = null; });
on("search", "input", () => { app.search = $("search").value; app.refilter(); });
on("in-view", "change", () => { app.inView = $("in-view").checked; app.refilter(); });
on("show-dropped", "change", () => { app.showDropped = $("show-dropped").checked; app.refilter(); });
on("all-kinds", "click", () => { app.kinds.clear(); showCategories(app); app.refilter(); });
on("check", "click", () => app.toggleChecked());
on("undo", "click", () => app.undo());
on("redo", "click", () => app.redo());
on("help", "click", () => app.help());
wireTabs();
wireKeys(app);
app.start().catch((error) => toast(error.message, { bad: true, seconds: 600 }));
