// The page: one input for one or two models.

import { get, setKey } from "./client.js";
import { drawing } from "./draw.js";
import { Panel } from "./panel.js";
import { converted, recorder } from "./sound.js";

const PAUSE = 350; // milliseconds after a key until the text is answered
const byId = (id) => document.getElementById(id);
const canvas = drawing(byId("canvas"));
const state = { models: [], panels: [], file: null, name: "", timer: 0 };

function problem(error) {
  byId("problem").textContent = error ? error.message : "";
  byId("key-form").hidden = error?.status !== 401;
}

async function start() {
  try {
    state.models = (await get("models")).models;
    problem(null);
  } catch (error) {
    problem(error);
    return;
  }
  addPanel(state.models[0].name);
  showInput();
}

// The models that read the same as the first panel's.
function alike() {
  const first = state.panels[0].model;
  return state.models.filter((each) => each.reads === first.reads);
}

function addPanel(name, models = state.models) {
  const panel = new Panel(models, name, () => (panel === state.panels[0] ? firstChanged() : panel.ask(given())));
  state.panels.push(panel);
  byId("outputs").append(panel.root);
  return panel;
}

function firstChanged() {
  const kind = byId("outputs").dataset.reads;
  setCompare(byId("compare").checked && alike().length > 1);
  showInput();
  if (kind !== state.panels[0].model.reads) state.file = null;
  answer();
}

function setCompare(on) {
  byId("compare").checked = on;
  for (const panel of state.panels.splice(1)) panel.root.remove();
  if (!on) return;
  const others = alike(), first = state.panels[0].model.name;
  addPanel((others.find((each) => each.name !== first) ?? others[0]).name, others).ask(given());
}

function showInput() {
  const { reads, dark_ink: dark } = state.panels[0].model;
  const alone = alike().length < 2;
  byId("compare").disabled = alone;
  byId("compare-help").hidden = !alone;
  if (reads === "picture") canvas.useInk(dark);
  byId("outputs").dataset.reads = reads;
  byId("text-input").hidden = !["text", "numbers", "nothing"].includes(reads);
  byId("picture-input").hidden = reads !== "picture";
  byId("sound-input").hidden = reads !== "sound";
  byId("source-label").textContent = { numbers: "Numbers, separated by spaces", nothing: "Beginning of a text" }[reads] ?? "Text";
}

function given() {
  const text = byId("text-input").hidden ? "" : byId("source").value;
  return { text, file: byId("text-input").hidden ? state.file : null, name: state.name };
}

function answer() {
  clearTimeout(state.timer);
  for (const panel of state.panels) panel.ask(given());
}

function useFile(file, name) {
  state.file = file;
  state.name = name;
  answer();
}

byId("source").addEventListener("input", () => {
  clearTimeout(state.timer);
  state.timer = setTimeout(answer, PAUSE);
});
byId("source").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) answer();
});
byId("compare").addEventListener("change", (event) => setCompare(event.target.checked));
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(byId("key").value);
  start();
});

// ------------------------------------------------------------- pictures and sound

byId("clear-drawing").addEventListener("click", () => canvas.clear());
byId("read-drawing").addEventListener("click", async () => useFile(await canvas.file(), "drawing.png"));
for (const id of ["picture-file", "sound-file"]) {
  byId(id).addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    if (!file) return;
    const sound = id === "sound-file";
    if (sound) play(file);
    useFile(sound ? await converted(file, state.panels[0].model.rate) : file, file.name);
  });
}

function play(file) {
  byId("player").src = URL.createObjectURL(file);
  byId("player").hidden = false;
}

let stopRecording = null;
byId("record").addEventListener("click", async ({ target }) => {
  try {
    if (stopRecording) {
      const stop = stopRecording;
      stopRecording = null;
      const file = await stop();
      play(file);
      useFile(file, "recording.wav");
    } else {
      stopRecording = await recorder(state.panels[0].model.rate);
    }
    problem(null);
  } catch (error) {
    problem(error);
  }
  target.setAttribute("aria-pressed", String(Boolean(stopRecording)));
  target.textContent = stopRecording ? "Stop and read" : "Record";
});

// ------------------------------------------------------------- dark mode

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const showTheme = () => byId("theme").setAttribute("aria-pressed", String(isDark()));
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
showTheme();
start();
