// How a model is asked: the requests for what is on the screen. The page sends them, and "Use it from code" shows them.

import { events, post, upload } from "./client.js";
import { parted } from "./layout.js";

const MOST = 5; // outputs of a part
const AT_ONCE = 32; // parts of a request, so that a long text grows on the screen
const TOKENS = 60; // that a language model writes

// What a model reads of {text, file}: the parts of a text, and the white space behind them.
export function read(model, text) {
  if (model.reads === "nothing") return { parts: [{ before: "", source: text }], tail: "" };
  return parted(text, model.labels || model.writes === "numbers" ? null : model.source_language);
}

// The request for parts of a text, for a file, or for a prompt: {path, body, file}.
export function requestFor(model, given, parts) {
  const body = { model: model.name };
  if (given.file) return { path: "predict", body, file: given.file, name: given.name };
  if (model.reads === "nothing") {
    return { path: "v1/completions", body: { ...body, prompt: beginning(parts[0]), max_tokens: TOKENS, seed: 1 } };
  }
  body.source = parts.length === 1 ? parts[0].source : parts.map((part) => part.source);
  if (parts.length === 1 && parts[0].prefix) body.prefix = parts[0].prefix;
  const nbest = Math.min(MOST, model.beam);
  if (model.labels || model.writes !== "text") return { path: "predict", body };
  return nbest > 1 ? { path: "n-best", body: { ...body, nbest, pieces: true } } : { path: "predict", body: { ...body, pieces: true } };
}

// The text that a language model goes on from: what was typed, or what was chosen in its place.
const beginning = (part) => part.prefix || part.source;

// The request for the labels of a part. `reasons` is the choice of a label or of a word: {target}, {place} or {}.
export function labelsRequest(model, given, part, reasons) {
  const body = { model: model.name, ...reasons };
  return given.file ? { path: "labels", body, file: given.file, name: given.name } : { path: "labels", body: { ...body, source: part.source } };
}

// The request for a view of a part: its attention (`keys` choose a layer and a head), or its tree.
export function viewRequest(view, model, given, part, keys = {}) {
  if (view === "tree") return { path: "tree", body: { model: model.name, source: part.source, prefix: part.prefix ?? "" } };
  const body = { model: model.name, target: part.text, ...keys };
  return given.file ? { path: "attention", body, file: given.file, name: given.name } : { path: "attention", body: { ...body, source: part.source } };
}

// All requests for what is on the screen, with their titles: the answers, and what is shown of the part `looked`: its
// labels for the chosen `reasons`, and the `view` with its `keys`. A part that begins with a chosen prefix is asked alone.
export function requestsOf(model, given, parts, { looked, reasons, view, keys }) {
  const kind = model.labels || model.writes === "numbers" ? "Line" : "Part";
  const titled = (numbers, text) => {
    const places = numbers.length > 1 ? `${kind}s ${numbers[0] + 1} to ${numbers.at(-1) + 1}` : `${kind} ${numbers[0] + 1}`;
    return parts.length > 1 ? `${places}: ${text}` : text[0].toUpperCase() + text.slice(1);
  };
  const groups = [];
  parts.forEach((part, number) => {
    const last = groups.at(-1);
    if (last && !part.prefix && !parts[last[0]].prefix && last.length < AT_ONCE) last.push(number);
    else groups.push([number]);
  });
  const found = groups.map((numbers) => ({
    title: titled(numbers, numbers.length > 1 ? "the answers" : "the answer"), ...requestFor(model, given, numbers.map((number) => parts[number])),
  }));
  if (model.labels) found.push({ title: titled([looked], "the probabilities of the labels, and the words that speak for one"), ...labelsRequest(model, given, parts[looked], reasons) });
  if (view === "attention" || view === "tree") found.push({ title: titled([looked], view === "tree" ? "the search tree" : "the attention"), ...viewRequest(view, model, given, parts[looked], keys) });
  return found;
}

// Yields the outputs of all parts so far, again and again: {text, pieces, nbest, ...} as the server gives them.
export async function* answers(model, given, parts, signal) {
  const whole = requestFor(model, given, parts);
  if (whole.file) {
    yield (await upload(whole.path, whole.file, whole.name, whole.body, signal)).answers;
    return;
  }
  if (model.reads === "nothing") {
    let text = beginning(parts[0]);
    for await (const event of events(whole.path, { ...whole.body, stream: true }, signal)) yield [{ text: (text += event.choices[0].text) }];
    return;
  }
  if (parts.length === 1 && model.writes === "text" && model.stepwise) {
    let text = "";
    const body = { model: model.name, source: parts[0].source, prefix: parts[0].prefix ?? "" };
    for await (const event of events("stream", body, signal)) yield [{ text: (text += event.text ?? "") }];
  }
  const found = [];
  for (let first = 0; first < parts.length; first += AT_ONCE) {
    const { path, body } = requestFor(model, given, parts.slice(first, first + AT_ONCE));
    found.push(...(await post(path, body, signal)).answers);
    yield found;
  }
}

// The most probable next words. If the model cannot tell them, the next words of its best outputs.
export async function nextWords(model, given, source, before) {
  const { name, reads } = model;
  try {
    if (given.file) throw new Error("a file has no text to complete");
    const more = reads === "nothing" ? {} : { source };
    return (await post("complete", { model: name, prefix: before, k: MOST + 1, ...more })).answers[0].words;
  } catch {
    const fields = { model: name, nbest: MOST + 1, prefix: before };
    const { answers: [answer] } = given.file
      ? await upload("n-best", given.file, given.name, fields)
      : await post("n-best", { ...fields, source });
    const place = before.split(/\s+/).filter(Boolean).length;
    const next = answer.nbest.map((each) => each.text.split(/\s+/)[place]).filter(Boolean);
    return [...new Set(next)].map((text) => ({ text }));
  }
}
