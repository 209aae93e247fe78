// The labels of a classifier or tagger: probabilities, and the words that speak for a label or against it.

import { post, upload } from "./client.js";
import { wordsOf } from "./layout.js";
import { choice, element, percent, plainLabel } from "./page.js";
import { labelsRequest } from "./requests.js";

const FEW = 6; // labels with a bar
const SMALL = 0.05; // effects below it change a probability by less than 5 %

// Draws what the model says of one part. `model` says if a label is of the whole text or of each word. `reasons` is what
// was chosen, {target} or {place}, or {}. `changed` is called with another choice.
export async function drawLabels(place, model, given, part, reasons, changed) {
  const ask = async (keys) => {
    const { path, body, file, name } = labelsRequest(model, given, part, keys);
    return file ? upload(path, file, name, body) : post(path, body);
  };
  if (model.labels === "words") return drawWords(place, await ask({}), part.source, ask, reasons, changed);
  let found;
  try {
    found = await ask(reasons);
  } catch (error) { // a link may name a label that this model does not have
    if (reasons.target === undefined || !error.ofInput) throw error;
    found = await ask({});
  }
  return drawText(place, found, part.source, ask, changed);
}

function drawText(place, found, source, ask, changed) {
  const labels = found.classes.map(({ label }) => [plainLabel(label), plainLabel(label)]);
  const parts = [bars(found.classes)];
  if (found.words.length) {
    const why = element("div", { className: "why" });
    const explain = (told) => why.replaceChildren(effects(source, told.words), effectKey(plainLabel(told.label), told.words));
    explain(found);
    parts.push(choice("What speaks for", labels, plainLabel(found.label), async (target) => {
      changed({ target });
      explain(await ask({ target }));
    }), why);
  }
  place.replaceChildren(...parts);
}

function drawWords(place, found, source, ask, reasons, changed) {
  const why = element("div", { className: "why", role: "status" });
  const tags = found.places.map(({ text, label, posteriors }, at) => {
    const tag = element("button", { type: "button", className: "tagged" }, element("span", {}, text),
      element("small", {}, plainLabel(label)), element("small", { className: "help" }, percent(posteriors[label] ?? 0)));
    tag.addEventListener("click", async () => {
      tags.forEach((each) => each.setAttribute("aria-pressed", String(each === tag)));
      changed({ place: at });
      const { words } = await ask({ place: at });
      const classes = Object.entries(posteriors).map(([name, probability]) => ({ label: name, probability }));
      why.replaceChildren(element("h3", {}, `Labels of “${text}”`), bars(classes),
        ...(words.length ? [effects(source, words), effectKey(`${plainLabel(classes[0].label)} at “${text}”`, words)] : []));
    });
    tag.setAttribute("aria-pressed", "false");
    return tag;
  });
  place.replaceChildren(element("p", { className: "help" }, "Choose a word to see its other labels, and the words that speak for them."),
    element("div", { className: "tags", dir: "auto" }, ...tags), why);
  tags[reasons.place]?.click();
}

export function bars(classes) {
  const shown = classes.slice(0, FEW), rest = classes.slice(FEW);
  const row = ({ label, probability }) => {
    const bar = element("meter", { min: 0, max: 1, value: probability, ariaLabel: plainLabel(label) });
    return element("li", {}, element("span", {}, plainLabel(label)), bar, element("span", { className: "number" }, percent(probability)));
  };
  const list = element("ul", { className: "bars" }, ...shown.map(row));
  if (!rest.length) return list;
  return element("div", {}, list, element("details", {}, element("summary", {}, `${rest.length} more`), element("ul", { className: "bars" }, ...rest.map(row))));
}

// The source with its words washed by their effects. The effect is a difference of log-probabilities.
function effects(source, words) {
  const most = Math.max(0.1, ...words.map(({ effect }) => Math.abs(effect)));
  const byStart = new Map(words.map((each) => [[...source].slice(0, each.start).join("").length, each]));
  const nodes = [];
  let end = 0;
  for (const word of wordsOf(source)) {
    const found = byStart.get(word.start);
    nodes.push(source.slice(end, word.start));
    end = word.end;
    if (!found) nodes.push(word.text);
    else {
      const level = Math.min(3, Math.ceil((3 * Math.abs(found.effect)) / most - 0.25));
      const side = found.effect >= 0 ? "for" : "against";
      const told = signed(found.effect);
      nodes.push(element("span", { className: level > 0 ? `effect ${side}-${level}` : "effect", title: told }, word.text, element("sub", {}, told)));
    }
  }
  return element("p", { className: "effects", dir: "auto" }, ...nodes, source.slice(end));
}

// A number with its sign, or "0.00" without one.
export function signed(number) {
  const digits = Math.abs(number).toFixed(2);
  return Number(digits) ? `${number > 0 ? "+" : "−"}${digits}` : digits;
}

const effectKey = (label, words) => element("p", { className: "help" }, element("span", { className: "effect for-2" }, "+"), ` speaks for ${label}, `,
  element("span", { className: "effect against-2" }, "−"), " speaks against it: how much the log-probability falls without the word.",
  words.every(({ effect }) => Math.abs(effect) < SMALL) ? " No single word decides here: without any one of them, the model is almost as sure." : "");
