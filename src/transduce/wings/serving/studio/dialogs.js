// What opens above the page: the model card, and the history.

import { get } from "./client.js";
import { button, byId, element } from "./page.js";
import { forgetPast, past } from "./state.js";

export function open(title, ...parts) {
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...parts);
  if (!byId("dialog").open) byId("dialog").showModal();
}

export async function openCard(model) {
  try {
    const { card } = await get(`card?model=${encodeURIComponent(model.name)}`);
    const parts = markdown(card);
    const jumps = parts.filter((part) => part.tagName === "H4").map((part) => button(part.textContent, () => part.scrollIntoView()));
    open(model.title, element("p", { className: "help" }, `${model.name}, runs on ${model.engine}`), element("div", { className: "row" }, ...jumps), ...parts);
  } catch (error) {
    open(model.title, element("p", { className: "problem", role: "alert" }, error.message));
  }
}

export function openHistory(models, restore) {
  const entries = past();
  const items = entries.map((entry) => {
    const known = models.find((each) => each.name === entry.model);
    const go = button("", () => { byId("dialog").close(); restore(entry); }, { className: "entry", disabled: !known });
    go.append(element("small", { className: "help" }, `${known?.title ?? entry.model} · ${new Date(entry.time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`),
      element("span", { dir: "auto" }, entry.text), element("span", { dir: "auto", className: "answer" }, entry.output));
    return element("li", {}, go);
  });
  const find = element("input", { type: "search", placeholder: "Find", ariaLabel: "Find in the history" });
  find.addEventListener("input", () => {
    for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(find.value.toLowerCase());
  });
  const clear = button("Clear the history", () => { forgetPast(); openHistory(models, restore); });
  open("History",
    element("p", { className: "help" }, "Only this browser keeps it. The server keeps nothing."),
    ...(items.length ? [element("div", { className: "row" }, find, clear), element("ul", { className: "history" }, ...items)] : [element("p", {}, "There is nothing yet.")]));
}

// The elements of a model card: headings, tables, lists, code and paragraphs. Texts never become markup.
export function markdown(text) {
  const lines = text.replace(/^---\n[\s\S]*?\n---\n/, "").split("\n"), made = [];
  while (lines.length) {
    const line = lines.shift();
    const take = (test) => { const found = []; while (lines.length && test(lines[0])) found.push(lines.shift()); return found; };
    if (line.startsWith("```")) {
      made.push(element("pre", { className: "wide", tabIndex: 0 }, element("code", {}, take((each) => !each.startsWith("```")).join("\n"))));
      lines.shift();
    } else if (/^#+ /.test(line)) made.push(element(line.startsWith("# ") ? "h3" : "h4", {}, ...inline(line.replace(/^#+ /, ""))));
    else if (line.startsWith("- ")) made.push(element("ul", {}, ...[line, ...take((each) => each.startsWith("- "))].map((each) => element("li", {}, ...inline(each.slice(2))))));
    else if (line.startsWith("|")) made.push(element("div", { className: "wide", tabIndex: 0 }, table([line, ...take((each) => each.startsWith("|"))])));
    else if (line.trim()) made.push(element("p", {}, ...inline(line)));
  }
  return made;
}

function table(lines) {
  const [head, , ...rows] = lines.map((line) => line.slice(1, -1).split("|").map((cell) => cell.trim()));
  const row = (cells, name) => element("tr", {}, ...cells.map((cell) => element(name, name === "th" ? { scope: "col" } : {}, ...inline(cell))));
  return element("table", {}, element("thead", {}, row(head, "th")), element("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
}

const inline = (text) => text.split(/(`[^`]*`|\*\*[^*]*\*\*)/).filter(Boolean).map((part) => {
  const plain = part.replace(/&#(\d+);/g, (_, number) => String.fromCodePoint(Number(number)));
  if (part.startsWith("`")) return element("code", {}, plain.slice(1, -1));
  return part.startsWith("**") ? element("strong", {}, plain.slice(2, -2)) : plain;
});
