// Attention between the tokens of the source and of the output: lines, and sentences for readers of the screen.

import { choice, element, shown, svg } from "./page.js";

const GAP = 10, HEIGHT = 170, LEAST = 0.03; // weights below LEAST are not drawn
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

// The attentions that the model has, by plain names: [value, name]. A value is "number of the attention/number of the head".
export function namesOf({ attentions, heads }) {
  const several = attentions.length > 1, found = [["", "mean of all"]];
  attentions.forEach((_, layer) => {
    const name = several ? `layer ${layer + 1}` : "";
    if (several) found.push([`${layer}`, heads[layer] > 1 ? `${name}, mean of heads` : name]);
    if (heads[layer] > 1) for (let head = 0; head < heads[layer]; head++) found.push([`${layer}/${head}`, [name, `head ${head + 1}`].filter(Boolean).join(", ")]);
  });
  return found;
}

// The keys of a request for one of them.
export function keysOf(value, { attentions } = {}) {
  if (!value || !attentions) return {};
  const [layer, head] = value.split("/");
  return { attention: attentions[layer], ...(head === undefined ? {} : { head: Number(head) }) };
}

export function drawAttention(place, found, chosen, changed) {
  const names = namesOf(found);
  const tools = names.length > 1 ? [choice("Attention of", names, chosen, changed)] : []; // one has nothing to choose
  const picture = lines(found);
  const list = element("ul");
  found.weights.forEach((row, t) => {
    const best = row.indexOf(Math.max(...row));
    list.append(element("li", {}, `${shown(found.target[t])}: ${Math.round(100 * row[best])} % on ${shown(found.source[best])}`));
  });
  place.replaceChildren(
    ...tools,
    element("p", { className: "help" }, "Above is what the model reads, below what it writes. Thicker lines are stronger. Point at a word, or tap on it, to see only its lines."),
    element("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: "Attention lines" }, picture),
    element("details", {}, element("summary", {}, "In words"), list),
  );
}

function lines({ source, target, weights }) {
  const width = GAP + Math.max(...[source, target].map((tokens) => positions(tokens).at(-1).end));
  const drawing = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "Attention: lines from each output token up to the source tokens" });
  const mirrored = (tokens) => RIGHT_TO_LEFT.test(tokens.join("")) ? positions(tokens).map((each) => ({ middle: width - each.middle })) : positions(tokens);
  const top = mirrored(source), bottom = mirrored(target), links = [];
  weights.forEach((row, t) => row.forEach((weight, s) => {
    if (weight < LEAST) return;
    const from = bottom[t].middle, to = top[s].middle;
    const path = svg("path", {
      class: "link", d: `M${from} ${HEIGHT - 24} C${from} ${HEIGHT / 2} ${to} ${HEIGHT / 2} ${to} 24`,
      "stroke-width": 1 + 4 * weight, opacity: Math.min(1, 0.1 + weight),
    });
    links.push({ path, s, t });
    drawing.append(path);
  }));
  const only = (test) => links.forEach(({ path, s, t }) => path.classList.toggle("dim", !test(s, t)));
  const write = (tokens, places, y, test) => tokens.forEach((token, index) => {
    const text = svg("text", { class: token === "</s>" ? "token faint" : "token", x: places[index].middle, y, "text-anchor": "middle" }, token === "</s>" ? "end" : shown(token));
    text.addEventListener("pointerenter", () => only(test(index)));
    text.addEventListener("pointerleave", ({ pointerType }) => pointerType === "touch" || only(() => true));
    drawing.append(text);
  });
  write(source, top, 16, (index) => (s) => s === index);
  write(target, bottom, HEIGHT - 8, (index) => (s, t) => t === index);
  return drawing;
}

function positions(tokens) {
  let x = GAP;
  return tokens.map((token) => {
    const width = 9 * Math.max(3, [...shown(token)].length);
    const place = { middle: x + width / 2, end: x + width };
    x += width + GAP;
    return place;
  });
}
