// The page: one input for one or two models.

import { get, setKey } from "./client.js";
import { openCard, openHistory } from "./dialogs.js";
import { drawing } from "./draw.js";
import { pictureOf, receive, translateDocument } from "./files.js";
import { button, byId, element } from "./page.js";
import { Panel } from "./panel.js";
import { converted, recorder } from "./sound.js";
import { addToPast, linkTo, remember, remembered } from "./state.js";

const PAUSE = 350; // milliseconds after a key until the text is answered
const TEXTS = ["text", "numbers", "nothing"];
const LONG = 200; // characters of a text in the history
const canvas = drawing(byId("canvas"), () => readDrawing());
const state = { models: [], panels: [], file: null, name: "", timer: 0 };
const first = () => state.panels[0].model;
const textual = () => TEXTS.includes(first().reads);
const named = (name) => state.models.find((each) => each.name === name);

function problem(error) {
  byId("problem").textContent = error ? error.message : "";
  byId("key-form").hidden = error?.status !== 401;
  if (error?.status === 401) byId("key").focus();
}

async function start() {
  try {
    state.models = (await get("models")).models;
    problem(null);
  } catch (error) {
    problem(error);
    return;
  }
  byId("model").replaceChildren(...options(state.models));
  restore(remembered());
  byId("choice").hidden = byId("desk").hidden = false;
}

const options = (models) => models.map((each) => element("option", { value: each.name }, each.title === each.name ? each.name : `${each.title} (${each.name})`));

// Shows a state: {model, text, with, view, part, label, word}. The part and the word are numbers from 1.
function restore({ model, text = "", with: other, view = "", part = "1", label = "", word = "" }) {
  byId("source").value = text;
  problem(model && !named(model) ? { message: `The link is for the model ${model}, which is not served here.` } : null);
  const reasons = label ? { target: label } : word ? { place: Number(word) - 1 } : {};
  choose(named(model)?.name ?? state.models[0].name, other, view, { looked: Number(part) - 1, reasons });
}

// ------------------------------------------------------------- models

const sameLanguage = ({ source_language: one }, { source_language: other }) => !one || !other || one === other;

function choose(name, other = "", view = state.panels[0]?.view ?? "", wanted = {}) {
  const model = named(name), kept = state.panels[0]?.model.reads === model.reads;
  if (!kept) Object.assign(state, { file: null, name: "" });
  byId("model").value = name;
  const alike = state.models.filter((each) => each.name !== name && each.reads === model.reads && sameLanguage(each, model));
  byId("compare").replaceChildren(element("option", { value: "" }, "no other model"), ...options(alike));
  byId("compare").value = alike.some((each) => each.name === other) ? other : "";
  byId("compare-field").hidden = !alike.length;
  state.panels = [name, byId("compare").value].filter(Boolean).map((each) => panelOf(named(each), view, wanted));
  byId("outputs").replaceChildren(...state.panels.map((panel) => panel.root));
  byId("insides").replaceChildren(...state.panels.map((panel) => panel.inside));
  byId("desk").classList.toggle("two", state.panels.length > 1);
  byId("translated").hidden = true;
  showInput();
  answer();
}

function panelOf(model, view, wanted) {
  const panel = new Panel(model, {
    answered: (each) => each === state.panels[0] && noted(each),
    viewed: (each) => {
      if (each === state.panels[0]) remember(now());
    },
    failed: (each, error) => each === state.panels[0] && inputProblem(error),
    link: () => linkTo(now()),
    picture: (file) => pictureOf(file, model.reads),
  });
  Object.assign(panel, { view, wanted, inner: view });
  return panel;
}

function now() {
  const { view, looked, reasons } = state.panels[0];
  return {
    model: first().name, text: textual() ? byId("source").value : "", with: byId("compare").value, view,
    part: looked ? looked + 1 : "", label: reasons.target ?? "", word: reasons.place === undefined ? "" : reasons.place + 1,
  };
}

function noted(panel) {
  if (!textual()) return;
  addToPast({ model: panel.model.name, text: panel.given.text.slice(0, 20 * LONG), output: panel.text.trim().slice(0, LONG) });
}

// A problem that another input would mend stands under the input. True if it is shown there.
function inputProblem(error) {
  if (error?.status === 401) problem(error);
  const here = Boolean(error?.ofInput);
  byId("input-problem").textContent = here ? error.message : "";
  byId("source").setAttribute("aria-invalid", String(here));
  return here || error?.status === 401;
}

function swapped() {
  const { source_language: from, target_language: to } = first();
  return from && state.models.find((each) => each.source_language === to && each.target_language === from);
}

byId("model").addEventListener("change", ({ target }) => choose(target.value, byId("compare").value));
byId("compare").addEventListener("change", ({ target }) => choose(first().name, target.value));
byId("about").addEventListener("click", () => openCard(first()));
byId("swap").addEventListener("click", () => {
  const { text } = state.panels[0];
  if (text.trim()) byId("source").value = text;
  choose(swapped().name);
});
byId("show-history").addEventListener("click", () => openHistory(state.models, (entry) => restore(entry)));
byId("dialog-close").addEventListener("click", () => byId("dialog").close());
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(byId("key").value);
  if (state.panels.length) answer();
  else start();
});

// ------------------------------------------------------------- input

const KINDS = {
  text: ["Text", "Type or paste a text. Lines and paragraphs stay.", "Ctrl+Enter asks again."],
  numbers: ["Numbers, separated by spaces", "100 110 100 90", "The forecast goes on from the last number."],
  nothing: ["Beginning of a text", "Type a beginning", "The model goes on from it."],
};

function showInput() {
  const { reads, dark_ink: dark, source_language_name: language, source_language: code, documents, examples, columns } = first();
  const [title, placeholder, help] = KINDS[reads] ?? [{ picture: "Picture", sound: "Recording" }[reads] ?? "File", "", ""];
  byId("input-title").textContent = language ?? title;
  byId("source").placeholder = placeholder;
  byId("source").lang = code ?? "";
  byId("source-help").textContent = documents.length ? `${help} You can also drop a document on the page.` : help;
  byId("tab").hidden = columns < 2;
  byId("text-input").hidden = !textual();
  byId("picture-input").hidden = reads !== "picture";
  byId("sound-input").hidden = reads !== "sound";
  if (reads === "picture") canvas.useInk(dark);
  byId("document-label").hidden = !documents.length;
  byId("document").accept = documents.join();
  byId("swap").hidden = !swapped();
  const buttons = examples.map((example) => button(example, () => {
    byId("source").value = example;
    answer();
  }, { className: "example", dir: "auto" }));
  byId("examples").replaceChildren(byId("examples").firstElementChild, ...buttons);
  showTools();
}

function showTools() {
  const { value } = byId("source"), { length } = [...value];
  byId("clear").hidden = !value;
  byId("examples").hidden = Boolean(value) || !first().examples.length;
  byId("count").textContent = length ? `${length.toLocaleString()} character${length === 1 ? "" : "s"}` : "";
  byId("preview").hidden = textual() || !state.file;
  byId("player").hidden = first().reads !== "sound" || !state.file;
}

function answer() {
  clearTimeout(state.timer);
  showTools();
  const given = textual() ? { text: byId("source").value, file: null } : { text: "", file: state.file, name: state.name };
  for (const panel of state.panels) panel.ask(given);
  remember(now()); // after `ask`, which knows the part and the label that a link named
}

byId("source").addEventListener("input", () => {
  clearTimeout(state.timer);
  showTools();
  state.timer = setTimeout(answer, PAUSE);
});
byId("source").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) answer();
});
byId("clear").addEventListener("click", () => {
  byId("source").value = "";
  byId("source").focus();
  answer();
});
byId("tab").addEventListener("click", () => {
  const { selectionStart: start, selectionEnd: end } = byId("source");
  byId("source").setRangeText("\t", start, end, "end");
  byId("source").focus();
});
addEventListener("hashchange", () => restore(remembered()));

// ------------------------------------------------------------- files

async function useFile(file, name) {
  const { reads, rate } = first();
  if (reads === "sound") {
    byId("player").src = URL.createObjectURL(file);
    Object.assign(state, { file: await converted(file, rate), name });
  } else Object.assign(state, { file, name });
  byId("preview").replaceChildren(await pictureOf(file, reads));
  answer();
}

function received(file) {
  if (!textual()) return useFile(file, file.name);
  return first().documents.length ? translateDocument(first(), file) : inputProblem({ ofInput: true, message: `${file.name}: this model reads text and no files.` });
}

async function readDrawing() {
  Object.assign(state, { file: await canvas.file(), name: "drawing.png" });
  byId("preview").replaceChildren();
  answer();
}

receive(received);
byId("clear-drawing").addEventListener("click", () => {
  canvas.clear();
  state.file = null;
  answer();
});
byId("read-drawing").addEventListener("click", readDrawing);
for (const id of ["picture-file", "sound-file", "document"]) {
  byId(id).addEventListener("change", ({ target }) => {
    const [file] = target.files;
    target.value = "";
    if (file) received(file);
  });
}

let stopRecording = null;
byId("record").addEventListener("click", async ({ currentTarget: record }) => {
  try {
    if (stopRecording) {
      const stop = stopRecording;
      stopRecording = null;
      await useFile(await stop(), "recording.wav");
    } else {
      stopRecording = await recorder(first().rate);
    }
    inputProblem(null);
  } catch (error) {
    inputProblem({ ofInput: true, message: error.name === "NotAllowedError" ? "The browser has no right to use the microphone. Allow it, or choose a recording." : `The microphone cannot be used here: ${error.message}` });
  }
  record.setAttribute("aria-pressed", String(Boolean(stopRecording)));
  record.querySelector("span").textContent = stopRecording ? "Stop and read" : "Record";
});

// ------------------------------------------------------------- theme

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const showTheme = () => byId("theme").setAttribute("aria-pressed", String(isDark()));
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("transduce-theme", document.documentElement.dataset.theme);
  } catch { /* the browser keeps nothing */ }
  showTheme();
});
dark.addEventListener("change", showTheme);
showTheme();
start();
