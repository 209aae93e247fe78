// One model: its answer, and what it looks like inside.

import { drawAttention, keysOf } from "./attention.js";
import { post, upload } from "./client.js";
import { drawCode } from "./code.js";
import { drawLabels } from "./labels.js";
import { button, byId, choice, copy, element, percent, save, say } from "./page.js";
import { drawNbest } from "./nbest.js";
import { drawLegend, drawOutput, markPart, wordKeys } from "./output.js";
import { answers, nextWords, read, requestsOf, viewRequest } from "./requests.js";
import { drawSeries } from "./series.js";
import { drawSignal } from "./signal.js";
import { preference } from "./state.js";
import { drawTree } from "./tree.js";

const VIEWS = { outputs: "Other outputs", attention: "Attention", tree: "Search tree", code: "Use it from code" };
const FILES = ["picture", "sound"];

export class Panel {
  // `answered`, `viewed` and `failed` are called with the panel; `failed` also with the error. It is true if it shows it.
  constructor(model, { answered, viewed, failed, link, picture }) {
    Object.assign(this, { model, answered, viewed, failed, picture, parts: [], tail: "", looked: 0, reasons: {}, wanted: {}, inner: "", keys: {}, milliseconds: null, given: { text: "", file: null } });
    this.root = byId("panel").content.firstElementChild.cloneNode(true);
    this.part = (name) => this.root.querySelector(`.${name}`);
    this.inside = element("section", { className: "card inside", hidden: true });
    this.output = this.part("output");
    this.part("copy").addEventListener("click", ({ currentTarget }) => copy(this.text, currentTarget));
    this.part("share").addEventListener("click", ({ currentTarget }) => copy(link(), currentTarget));
    this.part("download").addEventListener("click", () => save(new Blob([this.text], { type: "text/plain" }), `${this.model.name}.txt`));
    this.part("restart").addEventListener("click", async () => {
      await this.goOn(this.looked, "");
      this.output.querySelector(".word")?.focus();
    });
    this.part("close").addEventListener("click", () => this.closeAlternatives(true));
    this.root.addEventListener("keydown", (event) => (event.key === "Escape" ? this.closeAlternatives(true) : wordKeys(this.output, event)));
    this.describe();
    this.write();
  }

  get text() {
    return this.parts.map((part) => part.before + (part.text ?? "")).join("") + this.tail;
  }

  describe() {
    const { name, target_language_name: language, target_language: code, title, labels, reads, writes } = this.model;
    this.root.setAttribute("aria-label", `Output of ${name}`);
    this.inside.setAttribute("aria-label", `Inside ${name}`);
    this.part("title").textContent = language ?? (labels === "words" ? "Labels" : labels ? "Label" : writes === "numbers" ? "Forecast" : reads === "nothing" ? "Text" : "Answer");
    this.part("title").title = title;
    if (code) this.output.lang = code;
    this.waiting = FILES.includes(reads) ? "The answer appears here." : "The answer appears here while you type.";
  }

  // Answers a new input {text, file, name}. Shows the part and the reasons that are `wanted`, otherwise those of the part
  // that was looked at before.
  ask(given) {
    this.given = given;
    const { looked = this.looked, reasons = {} } = this.wanted;
    const { parts, tail } = given.file ? { parts: [{ before: "", source: "" }], tail: "" } : read(this.model, given.text);
    Object.assign(this, { parts, tail, reasons, wanted: {}, keys: {}, looked: Math.max(0, Math.min(looked || 0, parts.length - 1)) });
    return this.run(parts);
  }

  // Answers one part again, with an output that begins with `prefix`.
  goOn(number, prefix) {
    this.parts[number].prefix = prefix;
    return this.run([this.parts[number]]);
  }

  async run(parts) {
    this.stop?.abort();
    this.stop = new AbortController();
    const { signal } = this.stop, begun = performance.now();
    let before = null;
    this.closeAlternatives();
    this.part("trouble").replaceChildren();
    this.failed(this, null);
    this.part("drawn").replaceChildren();
    for (const part of parts) Object.assign(part, { text: undefined, pieces: [], nbest: [] });
    this.milliseconds = null;
    this.write();
    say(""); // readers of the screen find nothing of the old answer
    if (!this.given.file && !this.given.text.trim()) return this.drawInside();
    this.output.setAttribute("aria-busy", "true");
    try {
      for await (const found of answers(this.model, this.given, parts, signal)) {
        found.forEach((answer, index) => Object.assign(parts[index], { pieces: [], nbest: [], ...answer, source: parts[index].source }));
        if (this.text !== before) this.milliseconds = performance.now() - begun;
        before = this.text;
        this.write();
      }
      if (!signal.aborted) await this.finish(parts, signal);
    } catch (error) {
      if (error.name !== "AbortError") this.tell(error);
    } finally {
      if (this.stop.signal === signal) this.output.setAttribute("aria-busy", "false");
    }
  }

  async finish(parts, signal) {
    await this.drawBelow();
    if (signal.aborted) return; // another input came meanwhile
    const told = [...new Set(parts.flatMap((part) => part.warnings ?? []))];
    const unknown = parts.reduce((sum, part) => sum + (part.unknown?.count ?? 0), 0);
    if (unknown) told.push(`The model does not know ${unknown === 1 ? "one part" : `${unknown} parts`} of the input (${[...new Set(parts.flatMap((part) => part.unknown?.first ?? []))].slice(0, 5).join(" ")}).`);
    if (parts.some((part) => part.cut_at)) told.push("An output was cut at the limit of the search.");
    this.part("trouble").append(...told.map((line) => element("span", { className: "warning" }, line)));
    say(`Answer: ${this.text}`);
    this.answered(this);
    await this.drawInside();
  }

  tell(error) {
    if (this.parts.length < 2) error.message = error.message.replace(/^input 1: /, "");
    if (this.failed(this, error)) return;
    this.part("trouble").replaceChildren(error.message, " ", button("Try again", () => this.run(this.parts)));
  }

  // ------------------------------------------------------------- words

  write() {
    const { engine, writes, name } = this.model, text = this.text;
    const more = writes === "text" && !this.model.labels;
    const several = this.chosenBelow;
    const coloured = drawOutput(this.output, this.parts, this.tail, more ? (part, word) => this.alternatives(part, word) : several && ((part) => this.look(part)),
      more ? "show alternatives" : this.model.labels ? "show its probabilities" : "show its drawing");
    markPart(this.output, several ? this.looked : null);
    this.output.classList.toggle("one", this.model.labels === "text" && !several);
    this.output.classList.toggle("lines", several);
    this.output.dataset.empty = this.milliseconds === null ? this.waiting : "The answer is empty.";
    this.output.classList.toggle("coloured", coloured && this.colours);
    this.part("legend").hidden = !coloured;
    drawLegend(this.part("legend"), this.colours, (on) => { preference("colours", on); this.write(); });
    this.part("hint").hidden = !text.trim() || !(more || several);
    this.part("hint").textContent = more ? "Click a word to see what else could stand there." : "Click an answer to see below what belongs to its line.";
    for (const tool of ["copy", "share", "download"]) this.part(tool).hidden = !text.trim() || (tool === "share" && Boolean(this.given.file));
    this.part("restart").hidden = !this.parts.some((part) => part.prefix);
    const time = this.milliseconds === null ? "" : `${this.milliseconds < 995 ? `${Math.round(this.milliseconds)} ms` : `${(this.milliseconds / 1000).toFixed(1)} s`} · `;
    this.part("facts").textContent = `${time}${engine} · ${name}`;
  }

  get colours() {
    return preference("colours") ?? true;
  }

  async alternatives(number, index) {
    const part = this.parts[number], words = part.text.split(/\s+/).filter(Boolean);
    const first = this.parts.slice(0, number).reduce((sum, each) => sum + (each.text?.split(/\s+/).filter(Boolean).length ?? 0), 0);
    const before = words.slice(0, index).join(" ");
    this.closeAlternatives();
    this.looked = number;
    this.output.querySelectorAll(".word")[first + index].setAttribute("aria-expanded", "true");
    this.part("alternatives").hidden = false;
    this.part("alternatives-title").textContent = before ? `After “${before}”` : "At the beginning";
    this.part("words").replaceChildren(element("li", {}, "…"));
    try {
      const found = await nextWords(this.model, this.given, part.source, before);
      this.part("words").replaceChildren(...found.map(({ text, probability }) => {
        const pick = button(text, async () => {
          await this.goOn(number, before ? `${before} ${text}` : text);
          if (document.activeElement === document.body) this.output.querySelectorAll(".word")[first + index]?.focus(); // it had the focus
        }, { dir: "auto" });
        if (probability !== undefined) pick.append(element("small", {}, ` ${percent(probability)}`));
        return element("li", {}, pick);
      }));
      this.part("words").querySelector("button")?.focus();
    } catch (error) {
      this.closeAlternatives();
      this.tell(error);
    }
  }

  closeAlternatives(back = false) {
    if (this.part("alternatives").hidden) return;
    this.part("alternatives").hidden = true;
    const open = this.output.querySelector('.word[aria-expanded="true"]');
    open?.removeAttribute("aria-expanded");
    if (back) open?.focus();
  }

  // ------------------------------------------------------------- inside

  // The views that this model has.
  get views() {
    const { stepwise, attends, reads, beam, labels, writes } = this.model;
    const has = { outputs: beam > 1 && reads !== "nothing" && !labels && writes === "text" && !this.given.file, attention: attends, tree: stepwise && !FILES.includes(reads) && reads !== "nothing" && beam > 1, code: true };
    return Object.keys(VIEWS).filter((name) => has[name]);
  }

  show(view) {
    this.view = view;
    if (view !== "code") this.inner = view; // the code has also the request for this view
    this.viewed(this);
    return this.drawInside();
  }

  async drawInside() {
    const views = this.views, answered = this.text.trim() && this.parts.every((part) => part.text !== undefined);
    this.inside.hidden = !answered;
    if (!answered) return;
    const place = element("div", { className: "view" });
    const tabs = views.map((name) => button(VIEWS[name], () => this.show(this.view === name ? "" : name), { ariaExpanded: String(this.view === name), className: `show-${name}` }));
    const again = this.inside.contains(document.activeElement) ? document.activeElement.className : "";
    const several = this.parts.length > 1 && this.view && this.view !== "code";
    const sentence = several ? [this.partChoice("Part")] : [];
    this.inside.replaceChildren(element("div", { className: "row tabs" }, ...tabs, ...sentence), place);
    if (again) this.inside.getElementsByClassName(again)[0]?.focus();
    if (views.includes(this.view)) await this.drawView(place);
  }

  // True if a part of several is chosen beside the labels or the drawing below the answer.
  get chosenBelow() {
    return this.parts.length > 1 && Boolean(this.model.labels || this.model.writes === "numbers");
  }

  partChoice(text) {
    return choice(text, this.parts.map((part, index) => [String(index), `${index + 1}: ${part.source.slice(0, 40)}`]), String(this.looked), (value) => this.look(Number(value)));
  }

  async look(number) {
    const below = this.part("drawn").querySelector(".which select"), again = document.activeElement === below;
    Object.assign(this, { looked: number, reasons: {}, keys: {} });
    this.viewed(this);
    if (this.chosenBelow) markPart(this.output, number);
    const drawn = this.drawBelow();
    if (below && again) this.part("drawn").querySelector(".which select").focus();
    await drawn;
    await this.drawInside();
  }

  // Draws the labels or the series of the part that is looked at. Labels that come too late find their place gone.
  async drawBelow() {
    const { model, given, reasons } = this, part = this.parts[this.looked], place = element("div");
    const which = this.chosenBelow ? [element("div", { className: "which" }, this.partChoice(model.labels ? "Labels of line" : "Forecast of line"))] : [];
    this.part("drawn").replaceChildren(...which, place);
    if (model.writes === "numbers") drawSeries(place, part);
    if (model.labels) await drawLabels(place, model, given, part, reasons, (chosen) => {
      this.reasons = chosen;
      this.viewed(this);
      if (this.view === "code") this.drawInside();
    });
  }

  async drawView(place) {
    const part = this.parts[this.looked];
    try {
      if (this.view === "outputs") drawNbest(place, part, (output) => {
        Object.assign(part, { text: output.text, pieces: output.text === part.nbest[0].text ? part.pieces : [] });
        this.write();
        this.drawInside();
      });
      if (this.view === "attention") await this.attention(place, part);
      if (this.view === "tree") drawTree(place, await this.asked(viewRequest("tree", this.model, this.given, part)));
      if (this.view === "code") drawCode(place, requestsOf(this.model, this.given, this.parts, { ...this, view: this.views.includes(this.inner) ? this.inner : "" }), preference("language") ?? "curl", (name) => { preference("language", name); this.drawInside(); });
    } catch (error) {
      place.replaceChildren(element("p", { className: "help", role: "alert" }, error.message));
    }
  }

  asked({ path, body, file, name }) {
    return file ? upload(path, file, name, body) : post(path, body);
  }

  async attention(place, part, chosen = "", found = undefined) {
    this.keys = keysOf(chosen, found);
    const now = await this.asked(viewRequest("attention", this.model, this.given, part, this.keys));
    const changed = (value) => this.attention(place, part, value, now);
    if (now.boxes) drawSignal(place, now, await this.picture(this.given.file), chosen, changed);
    else drawAttention(place, now, chosen, changed);
    if (found) place.querySelector("select")?.focus();
  }
}
