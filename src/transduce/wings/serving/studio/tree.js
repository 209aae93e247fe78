// The tree of a beam search as nested lists. Tokens without a fork between them stand in one line.

import { element, shown } from "./page.js";

export function drawTree(place, found, pruned = false) {
  const children = new Map();
  let root = 0;
  found.nodes.forEach((node, number) => {
    if (node.parent === null) root = number;
    else if (node.fate === "pruned" && !pruned) return;
    else children.set(node.parent, [...(children.get(node.parent) ?? []), number]);
  });
  const better = (one, other) => found.nodes[other].best - found.nodes[one].best || found.nodes[other].total - found.nodes[one].total;
  const item = (first) => {
    const chain = [first];
    while ((children.get(chain.at(-1)) ?? []).length === 1) chain.push(children.get(chain.at(-1))[0]);
    const last = found.nodes[chain.at(-1)];
    const text = chain.map((number) => shown(found.nodes[number].label)).join(" ");
    const rank = last.rank === null ? "" : `, output ${last.rank + 1}`;
    const fate = last.fate === "pruned" ? ", pruned" : "";
    const line = element("span", { className: last.best ? "best" : last.fate }, text + " ",
      element("small", {}, `${last.total.toFixed(2)}${rank}${fate}`));
    const made = element("li", {}, line);
    const below = (children.get(chain.at(-1)) ?? []).sort(better);
    if (below.length) made.append(element("ul", {}, ...below.map(item)));
    return made;
  };
  const box = element("input", { type: "checkbox", checked: pruned });
  box.addEventListener("change", () => drawTree(place, found, box.checked));
  place.replaceChildren(
    element("label", { className: "check" }, box, " Show what was pruned"),
    element("p", { className: "help" }, "Each line extends the line above it. The number is the log-probability so far."),
    element("ul", {}, item(root)),
  );
}
