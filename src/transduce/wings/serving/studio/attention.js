// Attention as lines between the tokens of the source and of the output, and as sentences for screen readers.

import { element, shown, svg } from "./page.js";

const GAP = 10, HEIGHT = 150, LEAST = 0.03; // weights below LEAST are not drawn

export function drawAttention(place, found) {
  const source = found.source ?? found.weights[0].map((_, state) => String(state + 1));
  const top = positions(source), bottom = positions(found.target);
  const width = Math.max(top.at(-1).end, bottom.at(-1).end) + GAP;
  const drawing = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" });
  drawing.append(svg("title", {}, "Attention: lines from each output token up to the source tokens"));
  const links = [];
  found.weights.forEach((row, t) => row.forEach((weight, s) => {
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
    const text = svg("text", { class: "token", x: places[index].middle, y, "text-anchor": "middle" }, shown(token));
    text.addEventListener("pointerenter", () => only(test(index)));
    text.addEventListener("pointerleave", ({ pointerType }) => pointerType === "touch" || only(() => true));
    drawing.append(text);
  });
  write(source, top, 16, (index) => (s) => s === index);
  write(found.target, bottom, HEIGHT - 8, (index) => (s, t) => t === index);
  const list = element("ul");
  found.weights.forEach((row, t) => {
    const best = row.indexOf(Math.max(...row));
    const share = Math.round(100 * row[best]);
    list.append(element("li", {}, `${shown(found.target[t])}: ${share} % on ${shown(source[best])}`));
  });
  place.replaceChildren(
    drawing,
    element("p", { className: "help" }, "Thicker lines are stronger. Point at a token, or tap on it, to see only its lines."),
    element("details", {}, element("summary", {}, "In words"), list),
  );
}

function positions(tokens) {
  let x = GAP;
  return tokens.map((token) => {
    const width = 9 * Math.max(2, [...shown(token)].length);
    const place = { middle: x + width / 2, end: x + width };
    x += width + GAP;
    return place;
  });
}
