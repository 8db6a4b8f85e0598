// Which key does what; the help panel is made from the same table.

const PLAY = "Playing";
const SELECT = "Selecting";
const EDIT = "Tracks";
const OTHER = "Everything else";

// Group, keys (the first is the one that is shown), what it does in words, what it does.
const TABLE = [
  [PLAY, ["Space", "K"], "play or pause", (app) => app.player.toggle()],
  [PLAY, ["ArrowLeft"], "one frame back", (app) => app.player.step(-1)],
  [PLAY, ["ArrowRight"], "one frame on", (app) => app.player.step(1)],
  [PLAY, ["Shift+ArrowLeft"], "ten frames back", (app) => app.player.step(-10)],
  [PLAY, ["Shift+ArrowRight"], "ten frames on", (app) => app.player.step(10)],
  [PLAY, ["Home"], "first frame", (app) => app.player.seek(0)],
  [PLAY, ["End"], "last frame", (app) => app.player.seek(Infinity)],
  [PLAY, [","], "slower", (app) => app.faster(-1)],
  [PLAY, ["."], "faster", (app) => app.faster(1)],
  [SELECT, ["ArrowDown"], "next track in the list", (app) => app.selectBeside(1)],
  [SELECT, ["ArrowUp"], "track before", (app) => app.selectBeside(-1)],
  [SELECT, ["Enter"], "select or not, in the list", null],
  [SELECT, ["A"], "all tracks in view", (app) => app.selectInView()],
  [SELECT, ["F"], "show only the selected tracks, or all", (app) => app.toggleSolo()],
  [SELECT, ["G"], "go to where the track begins, then ends", (app) => app.goToEnds()],
  [SELECT, ["Escape"], "select nothing", (app) => app.select([])],
  [EDIT, ["M"], "merge the selected tracks", (app) => app.act("merge")],
  [EDIT, ["S"], "split the track at this frame", (app) => app.act("split")],
  [EDIT, ["W"], "swap two tracks from this frame on", (app) => app.act("swap")],
  [EDIT, ["C"], "change the category", (app) => app.act("assign")],
  [EDIT, ["D", "Delete", "Backspace"], "drop", (app) => app.act("drop")],
  [EDIT, ["B"], "bring back", (app) => app.act("keep")],
  [EDIT, ["R"], "rename the track’s category", (app) => app.act("rename")],
  [OTHER, ["Ctrl+Z", "U"], "undo", (app) => app.undo()],
  [OTHER, ["Ctrl+Shift+Z", "Ctrl+Y"], "redo", (app) => app.redo()],
  [OTHER, ["V"], "mark the video as checked, or not", (app) => app.toggleChecked()],
  [OTHER, ["N", "PageDown"], "next video", (app) => app.openBeside(1)],
  [OTHER, ["P", "PageUp"], "video before", (app) => app.openBeside(-1)],
  [OTHER, ["H"], "show or hide dropped tracks", (app) => app.toggleDropped()],
  [OTHER, ["/"], "find a track", (app) => app.find()],
  [OTHER, ["?"], "this help", (app) => app.help()],
];
const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };
const TYPING = "input:not([type=checkbox]):not([type=range]):not([type=radio]), select, textarea";

// For the help panel: group, keys to press together, what they do.
export const SHORTCUTS = TABLE.map(([group, keys, what]) => ({
  group,
  keys: keys[0].split("+").map((key) => SHOWN[key] || key),
  what,
}));

// A key press as the table writes it; where a sign needs shift, as ?, the sign is enough.
function written(event) {
  const key = event.key === " " ? "Space" : event.key.length === 1 ? event.key.toUpperCase() : event.key;
  const shift = event.shiftKey && (key.length > 1 || /[A-Z]/.test(key));
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${shift ? "Shift+" : ""}${key}`;
}

// Keys that a control has a use for itself.
function isTaken(event) {
  if (event.target.matches("input[type=range]")) return !event.shiftKey && /^(Arrow|Home|End|Page)/.test(event.key);
  return event.key === " " && event.target.matches("button, summary, input[type=checkbox]");
}

export function wireKeys(app) {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || event.altKey) return;
    if (event.target.matches(TYPING)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const [, , , run] = TABLE.find(([, keys]) => keys.includes(written(event))) || [];
    if (!run || isTaken(event)) return;
    event.preventDefault();
    run(app);
  });
}
