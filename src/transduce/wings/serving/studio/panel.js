// One model and its output: words that grow, alternatives of a word, and views.

import { drawAttention } from "./attention.js";
import { events, post, upload } from "./client.js";
import { element } from "./page.js";
import { drawSeries } from "./series.js";
import { drawTree } from "./tree.js";

const MOST = 6; // alternatives

export class Panel {
  // `models` are what /models tells. `changed` is called when another model is chosen.
  constructor(models, chosen, changed) {
    this.models = models;
    this.root = document.getElementById("panel").content.firstElementChild.cloneNode(true);
    this.part = (name) => this.root.querySelector(`.${name}`);
    this.given = { text: "", file: null };
    this.prefix = "";
    this.text = "";
    this.part("model").append(...models.map((each) => element("option", { value: each.name }, each.name)));
    this.part("model").value = chosen;
    this.part("model").addEventListener("change", () => { this.describe(); changed(); });
    this.part("restart").addEventListener("click", async () => {
      await this.goOn("");
      this.root.querySelector(".word")?.focus();
    });
    this.part("close").addEventListener("click", () => this.closeAlternatives());
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.view("attention", () => this.attention());
    this.view("tree", () => this.tree());
    this.describe();
  }

  get model() {
    return this.models.find((each) => each.name === this.part("model").value);
  }

  describe() {
    const { model, search, reads, writes, source_language: from, target_language: to } = this.model;
    const languages = from ? `, ${from} to ${to}` : "";
    this.root.setAttribute("aria-label", `Output of ${this.model.name}`);
    this.part("about").textContent = `${model}, ${search}: reads ${reads}, writes ${writes}${languages}`;
    const textual = ["text", "numbers"].includes(reads);
    this.showView("attention", this.model.stepwise && reads !== "nothing");
    this.showView("tree", this.model.stepwise && textual);
  }

  // Answers a new input: {text, file, name}.
  ask(given) {
    this.given = given;
    return this.goOn("");
  }

  // Answers the same input with an output that begins with `prefix`.
  async goOn(prefix) {
    this.prefix = prefix;
    this.stop?.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.closeAlternatives();
    this.part("trouble").textContent = "";
    this.part("series").replaceChildren();
    this.part("restart").hidden = !prefix;
    this.write("");
    if (!this.given.file && !this.given.text.trim() && this.model.reads !== "nothing") return this.refreshViews();
    this.part("output").setAttribute("aria-busy", "true");
    try {
      for await (const text of this.pieces(signal)) this.write(text);
      await this.refreshViews();
    } catch (error) {
      if (error.name !== "AbortError") this.part("trouble").textContent = error.message;
    } finally {
      if (this.stop.signal === signal) this.part("output").setAttribute("aria-busy", "false");
    }
  }

  // The whole text so far, again and again.
  async *pieces(signal) {
    const { name, reads, writes, stepwise } = this.model;
    if (this.given.file) {
      const { answers } = await upload("predict", this.given.file, this.given.name, { model: name }, signal);
      yield answers[0].text;
      return;
    }
    if (reads === "nothing") {
      const prompt = this.prefix || this.given.text;
      let text = "";
      const body = { model: name, prompt, echo: true, stream: true, max_tokens: 60, seed: 1 };
      for await (const event of events("v1/completions", body, signal)) yield (text += event.choices[0].text);
      return;
    }
    const body = { model: name, source: this.given.text, prefix: this.prefix };
    if (writes === "text" && stepwise) {
      let text = "";
      for await (const event of events("stream", body, signal)) yield (text += event.text ?? "");
      return;
    }
    const { answers } = await post("predict", body, signal);
    yield answers[0].text;
    if (writes === "numbers") drawSeries(this.part("series"), answers[0]);
  }

  // ------------------------------------------------------------- words

  write(text) {
    this.text = text;
    this.part("hint").hidden = !text || this.model.writes !== "text";
    const words = text.split(/\s+/).filter(Boolean), kept = this.prefix.split(/\s+/).filter(Boolean).length;
    const place = this.part("output"), before = place.querySelectorAll(".word").length;
    place.replaceChildren();
    words.forEach((word, index) => {
      const button = element("button", { type: "button", className: "word" }, word);
      button.classList.toggle("kept", index < kept);
      button.classList.toggle("new", index >= before);
      button.tabIndex = index ? -1 : 0;
      button.setAttribute("aria-label", `${word}: show alternatives`);
      button.addEventListener("click", () => this.alternatives(words, index));
      place.append(button, " ");
    });
  }

  // Arrow keys move between words, Escape closes the alternatives.
  key(event) {
    if (event.key === "Escape") this.closeAlternatives(true);
    const words = [...this.root.querySelectorAll(".word")], at = words.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: words.length - 1 }[event.key];
    if (at < 0 || to === undefined || !words[to]) return;
    event.preventDefault();
    words[at].tabIndex = -1;
    words[to].tabIndex = 0;
    words[to].focus();
  }

  async alternatives(words, index) {
    const before = words.slice(0, index).join(" ");
    const button = this.root.querySelectorAll(".word")[index];
    this.closeAlternatives();
    button.setAttribute("aria-expanded", "true");
    this.part("alternatives").hidden = false;
    this.part("alternatives-title").textContent = before ? `After “${before}”` : "At the beginning";
    this.part("words").replaceChildren(element("li", {}, "…"));
    let found;
    try {
      found = await this.nextWords(before);
    } catch (error) {
      this.part("trouble").textContent = error.message;
      this.closeAlternatives();
      return;
    }
    const items = found.map(({ text, probability }) => {
      const share = probability === undefined ? "" : ` ${(100 * probability).toFixed(1)} %`;
      const choice = element("button", { type: "button" }, text, element("small", {}, share));
      choice.addEventListener("click", async () => {
        await this.goOn(before ? `${before} ${text}` : text);
        if (document.activeElement === document.body) this.root.querySelectorAll(".word")[index]?.focus(); // it had the focus
      });
      return element("li", {}, choice);
    });
    this.part("words").replaceChildren(...items);
    this.part("words").querySelector("button")?.focus();
  }

  // The most probable next words. If the model cannot tell them, the next words of its best outputs.
  async nextWords(before) {
    const { name, reads } = this.model;
    const source = reads === "nothing" ? {} : { source: this.given.text };
    try {
      if (this.given.file) throw new Error("a file has no text to complete");
      const { answers } = await post("complete", { model: name, prefix: before, k: MOST, ...source });
      return answers[0].words;
    } catch {
      const fields = { model: name, nbest: MOST, prefix: before };
      const { answers } = this.given.file
        ? await upload("n-best", this.given.file, this.given.name, fields)
        : await post("n-best", { ...fields, source: this.given.text });
      const place = before.split(/\s+/).filter(Boolean).length;
      const next = answers[0].nbest.map((each) => each.text.split(/\s+/)[place]).filter(Boolean);
      return [...new Set(next)].map((text) => ({ text }));
    }
  }

  closeAlternatives(back = false) {
    if (this.part("alternatives").hidden) return;
    this.part("alternatives").hidden = true;
    const open = this.root.querySelector('.word[aria-expanded="true"]');
    open?.removeAttribute("aria-expanded");
    if (back) open?.focus();
  }

  // ------------------------------------------------------------- views

  view(name, draw) {
    const button = this.part(`show-${name}`), place = this.part(name);
    button.addEventListener("click", async () => {
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
      if (!place.hidden) await this.shown(place, draw);
    });
    this.draws = { ...this.draws, [name]: draw };
  }

  // Shows or hides a view with its button. A model that does not have the view closes it.
  showView(name, has) {
    this.part(`show-${name}`).hidden = !has;
    if (has) return;
    this.part(name).hidden = true;
    this.part(`show-${name}`).setAttribute("aria-expanded", "false");
  }

  async refreshViews() {
    for (const [name, draw] of Object.entries(this.draws)) {
      if (!this.part(name).hidden) await this.shown(this.part(name), draw);
    }
  }

  async shown(place, draw) {
    if (!this.text) {
      place.replaceChildren(element("p", { className: "help" }, "There is no output yet."));
      return;
    }
    try {
      await draw();
    } catch (error) {
      place.replaceChildren(element("p", { className: "help" }, error.message));
    }
  }

  async attention() {
    const { name } = this.model;
    const found = this.given.file
      ? await upload("attention", this.given.file, this.given.name, { model: name, target: this.text })
      : await post("attention", { model: name, source: this.given.text, target: this.text });
    drawAttention(this.part("attention"), found);
  }

  async tree() {
    drawTree(this.part("tree"), await post("tree", { model: this.model.name, source: this.given.text, prefix: this.prefix }));
  }
}
