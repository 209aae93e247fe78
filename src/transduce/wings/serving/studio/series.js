// A series with its forecast and the 90 % interval: a drawing, and a table of the same numbers.

import { element, svg } from "./page.js";

const WIDTH = 640, HEIGHT = 200, EDGE = 16, LEFT = 64;

const numbers = (text) => text.trim().split(/\s+/).map((step) => Number(step.split(",")[0]));

export function drawSeries(place, answer) {
  const given = numbers(answer.source), forecast = numbers(answer.text);
  const channels = answer.text.trim().split(/\s+/)[0].split(",").length;
  const first = (ends) => ends?.filter((_, index) => index % channels === 0);
  const low = first(answer.low), high = first(answer.high);
  const every = [...given, ...forecast, ...(low ?? []), ...(high ?? [])].filter(Number.isFinite);
  const least = Math.min(...every), most = Math.max(...every), span = most - least || 1;
  const x = (step) => LEFT + ((WIDTH - LEFT - EDGE) * step) / Math.max(1, given.length + forecast.length - 1);
  const y = (value) => HEIGHT - EDGE - ((HEIGHT - 2 * EDGE) * (value - least)) / span;
  const ahead = (index) => given.length + index;
  const line = (values, start) => values.map((value, index) => (Number.isFinite(value) ? `${x(start + index)},${y(value)}` : "")).join(" ");
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img" });
  drawing.append(svg("title", {}, `A series of ${given.length} steps and its forecast of ${forecast.length} steps`));
  if (low) {
    const up = high.map((value, index) => `${x(ahead(index))},${y(value)}`);
    const down = low.map((value, index) => `${x(ahead(index))},${y(value)}`).reverse();
    drawing.append(svg("polygon", { class: "band", points: [...up, ...down].join(" ") }));
  }
  drawing.append(svg("polyline", { class: "given", points: line(given, 0) }));
  const joined = Number.isFinite(given.at(-1)) ? [given.at(-1), ...forecast] : forecast; // without a hole between the lines
  drawing.append(svg("polyline", { class: "forecast", points: line(joined, given.length + forecast.length - joined.length) }));
  for (const value of new Set([most, least])) {
    const text = String(Number(value.toPrecision(5)));
    drawing.append(svg("text", { class: "faint", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  const head = element("tr", {}, ...["step", "forecast", ...(low ? ["90 % from", "to"] : [])].map((text) => element("th", { scope: "col" }, text)));
  const rows = forecast.map((value, index) => {
    const cells = [value, ...(low ? [low[index], high[index]] : [])].map((each) => element("td", {}, String(Number(each.toPrecision(5)))));
    return element("tr", {}, element("th", { scope: "row" }, `+${index + 1}`), ...cells);
  });
  const key = element("p", { className: "help" }, element("span", { className: "key" }), " input, ",
    element("span", { className: "key forecast" }), low ? " forecast, with its 90 % interval" : " forecast");
  place.replaceChildren(drawing, key, element("details", {}, element("summary", {}, "The numbers"), element("table", {}, head, ...rows)));
}
