// The tree of a beam search as nested lists that fold. Tokens without a fork between them stand in one line.

import { button, element, shown } from "./page.js";

const OPEN = 3; // levels that are open at first

export function drawTree(place, found, pruned = false) {
  const children = new Map();
  let root = 0;
  found.nodes.forEach((node, number) => {
    if (node.parent === null) root = number;
    else if (node.fate === "pruned" && !pruned) return;
    else children.set(node.parent, [...(children.get(node.parent) ?? []), number]);
  });
  const better = (one, other) => found.nodes[other].best - found.nodes[one].best || found.nodes[other].total - found.nodes[one].total;
  const item = (first, level) => {
    const chain = [first];
    while ((children.get(chain.at(-1)) ?? []).length === 1) chain.push(children.get(chain.at(-1))[0]);
    const last = found.nodes[chain.at(-1)];
    const text = chain.map((number) => word(found.nodes[number].label)).join(" ");
    const rank = last.rank === null ? "" : `, output ${last.rank + 1}`;
    const fate = last.fate === "pruned" ? ", pruned" : "";
    const line = element("span", { className: last.best ? "best" : last.fate }, text + " ",
      element("small", {}, `${last.total.toFixed(2)}${rank}${fate}`));
    const below = (children.get(chain.at(-1)) ?? []).sort(better);
    if (!below.length) return element("li", {}, line);
    const list = element("ul", {}, ...below.map((each) => item(each, level + 1)));
    return element("li", {}, element("details", { open: last.best || level < OPEN }, element("summary", {}, line), list));
  };
  const box = element("input", { type: "checkbox", checked: pruned });
  box.addEventListener("change", () => drawTree(place, found, box.checked));
  const fold = (open) => () => place.querySelectorAll("details").forEach((each) => { each.open = open; });
  place.replaceChildren(
    element("div", { className: "row" }, button("Unfold all", fold(true)), button("Fold all", fold(false)),
      element("label", { className: "check" }, box, " Show what was pruned")),
    element("p", { className: "help" }, "Each line goes on from the line above it. The number is the log-probability so far. The best output is bold."),
    element("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: "Search tree" }, element("ul", { className: "branches" }, item(root, 0))),
  );
}

const word = (label) => ({ "<s>": "start", "</s>": "end" })[label] ?? shown(label);
