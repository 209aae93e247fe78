// An output as words that can be chosen, coloured by how sure the model is of each.

import { confidences, wordsOf } from "./layout.js";
import { element, percent } from "./page.js";

const BANDS = [[0.9, "sure", "90 % and more"], [0.6, "likely", "60 to 90 %"], [0.3, "unsure", "30 to 60 %"], [0, "doubtful", "below 30 %"]];
const band = (p) => BANDS.find(([least]) => p >= least)[1];

// Draws the outputs of all parts. `chosen(part, word)` is called for a word that is clicked, and `does` says what it
// does; without it, words are only text. True if words have colours.
export function drawOutput(place, parts, tail, chosen, does) {
  const before = place.querySelectorAll(".word").length;
  let count = 0, coloured = false;
  const nodes = [];
  parts.forEach((part, at) => {
    nodes.push(part.before);
    if (part.text === undefined) return;
    const words = wordsOf(part.text), sure = confidences(part.text, part.pieces);
    const kept = (part.prefix ?? "").split(/\s+/).filter(Boolean).length;
    let end = 0;
    words.forEach((word, index) => {
      nodes.push(part.text.slice(end, word.start));
      end = word.end;
      const span = element("span", { className: "word" }, word.text);
      span.dataset.part = at;
      span.classList.toggle("kept", index < kept);
      span.classList.toggle("new", count >= before);
      if (sure[index] !== undefined) {
        coloured = true;
        span.classList.add(band(sure[index]));
        span.title = `${percent(sure[index])} sure`;
      }
      if (chosen) {
        const told = sure[index] === undefined ? "" : `, ${percent(sure[index])} sure`;
        Object.assign(span, { role: "button", tabIndex: count ? -1 : 0, ariaLabel: `${word.text}${told}: ${does}` });
        span.addEventListener("click", () => chosen(at, index));
      }
      nodes.push(span);
      count += 1;
    });
    nodes.push(part.text.slice(end));
  });
  place.replaceChildren(...nodes, tail);
  return coloured;
}

// Marks the words of the part whose probabilities stand below; null marks none.
export function markPart(place, number) {
  for (const word of place.querySelectorAll(".word")) {
    if (number !== null && Number(word.dataset.part) === number) word.setAttribute("aria-current", "true");
    else word.removeAttribute("aria-current");
  }
}

// What the colours say, with a switch.
export function drawLegend(place, shownNow, changed) {
  const box = element("input", { type: "checkbox", checked: shownNow });
  box.addEventListener("change", () => changed(box.checked));
  const keys = BANDS.map(([, name, text]) => element("span", { className: "key-item" }, element("span", { className: `key word ${name}` }, "word"), ` ${text}`));
  place.replaceChildren(element("label", { className: "check" }, box, " Colour words by how sure the model is"), ...(shownNow ? [element("span", { className: "keys" }, ...keys)] : []));
}

// Arrow keys move between words; Enter and the space bar choose one.
export function wordKeys(place, event) {
  const words = [...place.querySelectorAll(".word")], at = words.indexOf(document.activeElement);
  if (at < 0) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    words[at].click();
    return;
  }
  const onward = getComputedStyle(place).direction === "rtl" ? -1 : 1;
  const to = { ArrowLeft: at - onward, ArrowRight: at + onward, Home: 0, End: words.length - 1 }[event.key];
  if (!words[to]) return;
  event.preventDefault();
  words[at].tabIndex = -1;
  words[to].tabIndex = 0;
  words[to].focus();
}
