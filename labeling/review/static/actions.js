// What can be done to the selected tracks and to categories.

import { askCategory, askName } from "./dialogs.js";
import { $, el, icon, plural, toast } from "./dom.js";

const NAMED = 4; // tracks that are named one by one

const ACTIONS = [
  { what: "merge", text: "Merge", key: "M", icon: "merge", fits: (chosen) => chosen.length > 1 },
  { what: "split", text: "Split here", key: "S", icon: "split", fits: (chosen) => chosen.length === 1 },
  { what: "swap", text: "Swap from here", key: "W", icon: "swap", fits: (chosen) => chosen.length === 2 },
  { what: "assign", text: "Category", key: "C", icon: "kind", fits: (chosen) => chosen.length > 0 },
  { what: "drop", text: "Drop", key: "D", icon: "drop", fits: (chosen) => chosen.some((look) => look.kept) },
  { what: "keep", text: "Bring back", key: "B", icon: "keep", fits: (chosen) => chosen.some((look) => !look.kept) },
];
const WANTED = {
  merge: "Select two tracks or more to merge them.",
  split: "Select one track to split it at this frame.",
  swap: "Select two tracks to swap them from this frame on.",
  keep: "Select a dropped track to bring it back. H shows them.",
};

// The buttons for what is selected.
export function showActions(app) {
  const chosen = app.chosen;
  const state = JSON.stringify([chosen.map((look) => [look.instance, look.kept]), Boolean(app.solo)]);
  if (state === app.actionsShown) return;
  app.actionsShown = state;
  if (!chosen.length) {
    $("actions").replaceChildren(el("span", { class: "soft" }, "Click a box or a track to select it."));
    return;
  }
  const names = chosen.slice(0, NAMED).map((look) => look.instance).join(", ");
  const more = chosen.length > NAMED ? ` and ${chosen.length - NAMED} more` : "";
  const solo = { what: "solo", text: app.solo ? "Show all" : "Only these", key: "F", icon: "only" };
  $("actions").replaceChildren(
    el("strong", {}, `${chosen.length === 1 ? "Track" : "Tracks"} ${names}${more}`),
    ...ACTIONS.filter((action) => action.fits(chosen)).map((action) => button(action, () => act(app, action.what))),
    button(solo, () => app.toggleSolo()),
  );
}

function button({ text, key, icon: name }, onclick) {
  const shortcut = el("kbd", { "aria-hidden": "true" }, key);
  return el("button", { type: "button", class: "act", "aria-keyshortcuts": key, onclick }, icon(name), text, shortcut);
}

// Do something to the selected tracks; if that cannot be, say why.
export async function act(app, what) {
  await app.turn;
  const chosen = app.chosen;
  const action = ACTIONS.find((one) => one.what === what);
  if (!(action ? action.fits(chosen) : chosen.length === 1)) return toast(WANTED[what] || "Select a track first.");
  const tracks = chosen.map((look) => look.instance);
  const [video, frame] = [app.video.id, app.player.frame];
  switch (what) {
    case "merge":
      return app.edit({ kind: "merge-tracks", video, tracks });
    case "split":
      if (!frame) return toast("Go to the frame with which the new track begins: there is nothing before the first.");
      return app.edit({ kind: "split-track", video, track: tracks[0], frame });
    case "swap":
      return app.edit({ kind: "swap-tracks", video, tracks, frame });
    case "drop":
      return app.edit({ kind: "drop-tracks", video, tracks: numbers(chosen.filter((look) => look.kept)) });
    case "keep":
      return bringBack(app, chosen.filter((look) => !look.kept));
    case "rename":
      return changeCategory(app, "rename", app.store.categories.find((kind) => kind.id === chosen[0].kind));
    default:
      return assign(app, chosen);
  }
}

const numbers = (looks) => looks.map((look) => look.instance);

function bringBack(app, chosen) {
  const kind = app.store.categories.find((one) => one.id === chosen[0].kind);
  if (kind.kept) return app.edit({ kind: "keep-tracks", video: app.video.id, tracks: numbers(chosen) });
  return toast(`All of ${kind.name} is dropped. Keep the category, or put the track into another.`, { bad: true });
}

async function assign(app, chosen) {
  const same = chosen.every((look) => look.kind === chosen[0].kind) ? chosen[0].kind : null;
  const others = app.store.categories.filter((kind) => kind.id !== same);
  const category = await askCategory(`Category of ${plural(chosen.length, "track")}`, "", others, "Change");
  if (category === null) return;
  await app.edit({ kind: "assign-tracks", video: app.video.id, tracks: numbers(chosen), category });
}

// Rename, merge, drop or keep a category.
export async function changeCategory(app, what, kind) {
  await app.turn;
  if (what === "drop" || what === "keep") return app.edit({ kind: `${what}-category`, category: kind.id });
  if (what === "rename") {
    if (kind.id < 0) return toast("Tracks without a category have no name of their own. Put them into a category.");
    const name = await askName(kind);
    return name && name !== kind.name ? app.edit({ kind: "rename-category", category: kind.id, name }) : null;
  }
  const targets = app.store.categories.filter((one) => one.id !== kind.id && one.id >= 0);
  const why = "All of its tracks, in all videos, get that category.";
  const into = await askCategory(`Merge ${kind.name} into`, why, targets, "Merge");
  return into === null ? null : app.edit({ kind: "merge-categories", categories: [kind.id], into });
}
