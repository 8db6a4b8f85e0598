// Questions to the user. Each is answered by a promise: what was chosen, or null.

import { $, el } from "./dom.js";

// Ask with a title, a text, the parts of a form and the word on its button; `read` gives the answer.
function ask({ title, text = "", parts, confirm = "", read = () => null }) {
  const dialog = $("dialog");
  return new Promise((resolve) => {
    let answer = null;
    const cancel = { type: "button", class: "ghost", onclick: () => dialog.close() };
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", { id: "dialog-title" }, title),
      text ? el("p", { class: "soft" }, text) : null,
      ...parts,
      el(
        "p",
        { class: "answers" },
        el("button", cancel, confirm ? "Cancel" : "Close"),
        confirm ? el("button", { type: "submit", class: "solid" }, confirm) : null,
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = read();
      dialog.close();
    });
    dialog.replaceChildren(form);
    dialog.addEventListener("close", () => resolve(answer), { once: true });
    dialog.showModal();
    (form.querySelector("input:checked, input") || form.querySelector("button")).focus();
    if (!confirm) dialog.scrollTop = 0; // what is there to be read is read from its beginning
    form.querySelector("input[type=text]")?.select();
  });
}

export function askName(kind) {
  const usual = { type: "text", maxlength: 80, required: true, autocomplete: "off", spellcheck: "false" };
  const input = el("input", { ...usual, value: kind.name });
  return ask({
    title: "Rename category",
    text: "The new name is used wherever the labels are: in exports, training and reports.",
    parts: [el("label", { class: "field" }, "Name", input)],
    confirm: "Rename",
    read: () => input.value.trim() || null,
  });
}

export function askCategory(title, text, kinds, confirm) {
  const choices = kinds.map((kind, place) =>
    el(
      "label",
      { class: "choice", style: { "--c": kind.colour } },
      el("input", { type: "radio", name: "category", value: kind.id, checked: place === 0 }),
      el("i", { class: "swatch" }),
      el("span", {}, kind.name),
      el("span", { class: "soft" }, kind.kept ? String(kind.tracks) : "dropped"),
    ),
  );
  const list = el("div", { class: "choices", role: "radiogroup", "aria-label": "Category" }, ...choices);
  const read = () => {
    const chosen = list.querySelector("input:checked");
    return chosen ? Number(chosen.value) : null;
  };
  return ask({ title, text, parts: [list], confirm, read });
}

export function showHelp(shortcuts) {
  const row = ({ keys, what }) => {
    const pressed = keys.map((key) => el("kbd", {}, key));
    return el("div", {}, el("dt", {}, ...pressed), el("dd", {}, what));
  };
  const groups = [...new Set(shortcuts.map((one) => one.group))].map((group) => {
    const rows = shortcuts.filter((one) => one.group === group).map(row);
    return el("section", {}, el("h3", {}, group), el("dl", { class: "keys" }, ...rows));
  });
  return ask({
    title: "Shortcuts",
    text: "Click on a box to select its track, with shift to add it. Every edit is saved at once and can be undone.",
    parts: [el("div", { class: "help" }, ...groups)],
  });
}
