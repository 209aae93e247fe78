"""Tables that a click on a heading sorts. Without JavaScript they stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from transduce.wings.pages.markup import Markup, element, scrolling

STYLE = """
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; text-decoration: underline dotted; }
th[aria-sort="ascending"] button::after { content: " ↑"; } th[aria-sort="descending"] button::after { content: " ↓"; }
"""
SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const place = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
  for (const each of head.parentElement.children) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
  const compare = (a, b) => {
    const [one, other] = [value(a), value(b)], numbers = [Number(one), Number(other)];
    if (one === "" || other === "") return (one === "") - (other === "");
    const order = numbers.some(Number.isNaN) ? one.localeCompare(other) : numbers[0] - numbers[1];
    return up ? order : -order;
  };
  body.append(...[...body.rows].sort(compare));
});
"""

Cell = tuple[str, float | None]  # what is shown, and the number to sort by; None sorts by the text


def sortable(head: Sequence[str], rows: Iterable[Sequence[Cell]], about: str) -> Markup:
    """A table whose headings are buttons. Empty cells stay last. The page needs ``STYLE`` and ``SCRIPT``."""
    titles = [element("th", element("button", title, type="button"), scope="col") for title in head]
    body = [element("tr", *(_cell("td" if place else "th", *cell) for place, cell in enumerate(row))) for row in rows]
    return scrolling(element("table", element("thead", element("tr", *titles)), element("tbody", *body)), about)


def _cell(kind: str, text: str, value: float | None) -> Markup:
    given = {} if value is None else {"data_value": repr(value)}
    return element(kind, text, **(given | ({"scope": "row"} if kind == "th" else {})))
