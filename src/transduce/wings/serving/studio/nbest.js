// The other outputs of a part, with what differs from the one on the screen.

import { button, copy, element, percent } from "./page.js";

export function drawNbest(place, part, use) {
  const items = part.nbest.map((output, rank) => {
    const words = rank ? marked(part.nbest[0].text, output.text) : [output.text];
    const share = output.log_prob === null ? "" : rank ? times(Math.exp(output.log_prob - part.nbest[0].log_prob)) : percent(Math.exp(output.log_prob));
    const line = element("span", { className: "other", dir: "auto" }, ...words);
    const here = output.text === part.text;
    const buttons = element("span", { className: "row end" },
      here ? element("small", { className: "help" }, "on the screen") : button("Use it", () => use(output), { ariaLabel: `Use: ${output.text}` }),
      button("Copy", ({ currentTarget }) => copy(output.text, currentTarget), { ariaLabel: `Copy: ${output.text}` }),
      element("small", { className: "help number" }, share));
    return element("li", {}, element("div", { className: "row" }, line, buttons));
  });
  place.replaceChildren(
    element("p", { className: "help" }, "The most probable outputs. Words that differ from the first one are ", element("mark", {}, "marked"), "; a ", element("del", {}, "·"), " stands where it has fewer words. The first has its probability, the others how many times as probable they are: those of long outputs are all small."),
    element("ol", { className: "nbest" }, ...items),
  );
}

// How many times as probable as the first output another one is. A better score may be less probable.
const times = (ratio) => (ratio < 0.01 ? "< 0.01 ×" : `${ratio.toFixed(2)} ×`);

// The words of `text`, those that are not in `first` marked (longest common subsequence).
export function marked(first, text) {
  const a = first.split(/\s+/), b = text.split(/\s+/);
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const made = [];
  let i = 0, j = 0, gone = [], added = false;
  const missing = () => {
    if (gone.length && !added) made.push(element("del", { title: `without: ${gone.join(" ")}`, ariaLabel: `without ${gone.join(" ")}` }, "·"), " ");
    [gone, added] = [[], false];
  };
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      missing();
      made.push(`${b[j]} `);
      i += 1;
      j += 1;
    } else if (j < b.length && (i === a.length || common[i][j + 1] >= common[i + 1][j])) {
      made.push(element("mark", {}, b[j]), " ");
      added = true;
      j += 1;
    } else {
      gone.push(a[i]);
      i += 1;
    }
  }
  missing();
  return made;
}
