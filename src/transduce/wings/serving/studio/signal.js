// Attention to a picture or a recording: where the model looks while it writes one token.

import { keysOf, namesOf } from "./attention.js";
import { button, choice, element, percent, shown } from "./page.js";

export { keysOf };

export function drawSignal(place, found, picture, chosen, changed) {
  const names = namesOf(found);
  const image = element("div", { className: "seen" }, picture);
  const said = element("p", { className: "help", role: "status" });
  const boxes = found.boxes.map(([left, top, right, bottom]) => {
    const box = element("span", { className: "box" });
    Object.assign(box.style, { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` });
    image.append(box);
    return box;
  });
  const tokens = found.target.map((token, t) => button(token === "</s>" ? "end" : shown(token), () => show(t)));
  const show = (t) => {
    const row = found.weights[t], most = Math.max(...row);
    row.forEach((weight, n) => { boxes[n].style.opacity = String((0.75 * weight) / most); });
    tokens.forEach((each, index) => each.setAttribute("aria-pressed", String(index === t)));
    const [left, top, right, bottom] = found.boxes[row.indexOf(most)].map((each) => Math.round(100 * each));
    said.textContent = `${percent(most)} on the part from ${left} to ${right} % across and ${top} to ${bottom} % down.`;
  };
  place.replaceChildren(
    ...(names.length > 1 ? [choice("Attention of", names, chosen, changed)] : []),
    element("p", { className: "help" }, "Choose a token to see where the model looks while it writes it."),
    element("div", { className: "row" }, ...tokens), image, said);
  show(0);
}
