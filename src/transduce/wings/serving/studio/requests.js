// How a model is asked: one request for what is on the screen. The page sends it, and "Use it from code" shows it.

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
    return { path: "v1/completions", body: { ...body, prompt: parts[0].source, max_tokens: TOKENS, seed: 1 } };
  }
  body.source = parts.length === 1 ? parts[0].source : parts.map((part) => part.source);
  if (parts.length === 1 && parts[0].prefix) body.prefix = parts[0].prefix;
  const nbest = Math.min(MOST, model.beam);
  if (model.labels || model.writes !== "text") return { path: "predict", body };
  return nbest > 1 ? { path: "n-best", body: { ...body, nbest, pieces: true } } : { path: "predict", body: { ...body, pieces: true } };
}

// Yields the outputs of all parts so far, again and again: {text, pieces, nbest, ...} as the server gives them.
export async function* answers(model, given, parts, signal) {
  const whole = requestFor(model, given, parts);
  if (whole.file) {
    yield (await upload(whole.path, whole.file, whole.name, whole.body, signal)).answers;
    return;
  }
  if (model.reads === "nothing") {
    let text = parts[0].source;
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
