// A model from the file of `transduce export RUN --to engine`, in a page, a Web Worker or Node. transduce.d.mts has the
// types, and docs/engine.md explains the file.
//
//     import { load } from "./transduce.mjs";
//     const model = await load("model.engine");
//     model("knowledge");
//
// The search runs in C++, compiled to engine.wasm. Here are its memory, its errors, and the spelling of phrases.

const VERSION = 7;  // of engine/src/engine.h
const EOS = 2, UNK = 3;
const HIDDEN = [0, 1, EOS];  // padding, the beginning and the end are no text
const ROOM = 4096;  // bytes of a message
const BYTES = 0, SHORTS = 1, FLOATS = 2;  // what the numbers of a signal are
const OLD = "this browser or Node has no WebAssembly with SIMD and exceptions: Chrome 95, Firefox 100, Safari 16.4 or Node 18 was expected";

// Something is wrong with the file, the input or an option. The message is one line.
export class EngineError extends Error {
  name = "EngineError";
}

// The model of an engine's file: its address, a path in Node, or its bytes. `options.wasm` is the same for engine.wasm,
// and `options.tokenizers` is tokenizers.mjs or its address: by default both stand beside this module.
export async function load(file, options = {}) {
  const content = await bytesOf(file);
  const library = await instantiate(await bytesOf(options.wasm ?? new URL("engine.wasm", import.meta.url)));
  const engine = new Engine(library, content);
  const subwords = {};
  for (const side of ["source", "target"]) {
    const described = engine.description(side);
    if (described.unit === "library") subwords[side] = await tokenizer(described.record, options.tokenizers ?? "./tokenizers.mjs");
  }
  engine.use(subwords);
  const model = (source) => engine.best(source);
  for (const name of ["answer", "answerIds", "scoreIds", "score", "generate", "note", "description", "close"])
    Object.defineProperty(model, name, { value: engine[name].bind(engine) });
  return Object.defineProperties(model, { generates: { value: engine.generates }, card: { value: engine.note("card") } });
}

// The recording in the bytes of a WAV file, of 16-bit integers or float32, for `answer`.
export function wav(given) {
  const bytes = ArrayBuffer.isView(given) ? given : new Uint8Array(given);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), count = view.byteLength;
  const name = (at) => String.fromCharCode(...[0, 1, 2, 3].map((n) => view.getUint8(at + n)));
  if (count < 12 || name(0) !== "RIFF" || name(8) !== "WAVE") throw new EngineError("this is no WAV file");
  let kind = 0, channels = 1, rate = 0, bits = 0;
  for (let at = 12; at + 8 <= count;) {
    const size = view.getUint32(at + 4, true), first = at + 8;
    if (name(at) === "fmt " && first + 16 <= count) {
      [kind, channels, bits] = [0, 2, 14].map((n) => view.getUint16(first + n, true));
      rate = view.getUint32(first + 4, true);
      if (kind === 0xfffe && first + 26 <= count) kind = view.getUint16(first + 24, true);  // it stands in the extension
    } else if (name(at) === "data") {
      const Kind = kind === 1 && bits === 16 ? Int16Array : kind === 3 && bits === 32 ? Float32Array : null;
      if (!Kind || !channels) throw new EngineError(`the WAV file has samples of ${bits} bits: 16-bit integers or float32 were expected`);
      if (first + size > count) throw new EngineError("the WAV file is truncated: it has fewer samples than it says");
      const whole = size - (size % (Kind.BYTES_PER_ELEMENT * channels));
      return { samples: new Kind(bytes.slice(first, first + whole).buffer), rate, channels };
    }
    at = first + size + (size % 2);
  }
  throw new EngineError("the WAV file has no samples");
}

async function bytesOf(given) {
  if (given instanceof ArrayBuffer) return new Uint8Array(given);
  if (ArrayBuffer.isView(given)) return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  const isNode = typeof process === "object" && process.versions?.node;
  if (isNode && !/^(https?|data|blob):/.test(String(given))) {
    const { readFile } = await import("node:fs/promises");
    return readFile(given).catch((error) => { throw new EngineError(`${given} cannot be read: ${error.code ?? error.message}`); });
  }
  const response = await fetch(given).catch((error) => { throw new EngineError(`${given} cannot be read: ${error.message}`); });
  if (!response.ok) throw new EngineError(`${given} cannot be read: status ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

async function instantiate(wasm) {
  const nothing = () => {};
  const imports = {
    env: { emscripten_notify_memory_growth: nothing },
    wasi_snapshot_preview1: { proc_exit: () => { throw new EngineError("the engine stopped"); } },
  };
  let made;
  try {
    made = await WebAssembly.instantiate(wasm, imports);
  } catch (error) {
    throw new EngineError(`engine.wasm cannot be compiled: ${OLD} (${error.message})`);
  }
  const library = made.instance.exports;
  library._initialize();
  const version = library.transduce_engine_version();
  if (version !== VERSION) throw new EngineError(`engine.wasm has the interface ${version}: ${VERSION} was expected; export the run again`);
  return library;
}

// How a tokenizer of the library `tokenizers` makes ids of text, and text of ids, with the package @huggingface/tokenizers.
async function tokenizer(record, module) {
  const { Tokenizer } = typeof module === "string" ? await import(module) : module;
  try {
    const made = new Tokenizer({ ...record, added_tokens: [] }, {});  // "</s>" in a text is text
    const cut = made.model._call;  // the library joins unknown characters only inside a piece
    made.model._call = (pieces) => pieces.flatMap((piece) => cut.call(made.model, [piece]));
    return {
      ids: (text) => [...made.encode(text, { add_special_tokens: false }).ids, EOS],
      text: (ids) => {
        const shown = ids.filter((id) => !HIDDEN.includes(id));
        return shown.length ? made.decode(shown, { skip_special_tokens: false, clean_up_tokenization_spaces: false }) : "";
      },
    };
  } catch (error) {
    throw new EngineError(`its subwords cannot be read: ${error.message}`);
  }
}

class Engine {
  constructor(library, content) {
    this.library = library;
    this.memory = new Memory(library);
    this.utf8 = new TextDecoder();
    const file = this.memory.copy(content);
    try {
      this.address = this.told("open", file, BigInt(content.byteLength));
    } finally {
      this.memory.free();
    }
    const source = this.description("source");
    this.generates = source.unit === "nothing";
    this.signal = source.unit === "signal" ? source.record.signal : null;
    this.subwords = {};
  }

  use(subwords) {
    this.subwords = subwords;
  }

  close() {
    if (this.address) this.library.transduce_engine_close(this.address);
    this.address = 0;
  }

  // The result of a function that writes a message. Throws an EngineError with the message if the result is null.
  told(name, ...given) {
    if (name !== "open" && !this.address) throw new EngineError("the model is closed: load it again");
    const message = this.memory.room(ROOM);
    let found;
    try {
      found = this.library[`transduce_engine_${name}`](...given, message, BigInt(ROOM));
    } catch (error) {
      this.address = 0;  // its memory may be in any state
      throw new EngineError(`the engine stopped: ${error.message}; load the model again`);
    }
    if (found) return found;
    const bytes = this.memory.bytes(message, ROOM);
    throw new EngineError(this.utf8.decode(bytes.subarray(0, bytes.indexOf(0))));
  }

  note(name) {
    try {
      const size = this.memory.room(8);
      const at = this.library.transduce_engine_note(this.address, this.memory.copy(utf8(`${name}\0`)), size);
      return at ? this.utf8.decode(this.memory.bytes(at, this.memory.whole(size, 1)[0])) : "";
    } finally {
      this.memory.free();
    }
  }

  description(name) {
    try {
      return JSON.parse(this.note(name));
    } catch (error) {
      throw new EngineError(`its ${name} is no JSON: ${error.message}`);
    }
  }

  best(source) {
    const texts = this.answer(Array.isArray(source) ? source : [source]).map((each) => each.outputs[0].text);
    return Array.isArray(source) ? texts : texts[0];
  }

  answer(sources, { beam = 0, nbest = 0, batch = 0, required = [], forbidden = [] } = {}) {
    for (const [name, phrases] of Object.entries({ required, forbidden }))
      if (!Array.isArray(phrases)) throw new EngineError(`${name} = ${JSON.stringify(phrases)}: a list of phrases was expected`);
    if (required.length || forbidden.length) return this.phrased(textsOf(sources), required, forbidden, { beam, nbest, batch });
    if (this.signal) {
      const some = [...sources].map((each, n) => signalOf(each, this.signal, n + 1));
      return this.found("search_signals", 0, 0n, this.signals(some), 0, BigInt(some.length), this.options(beam, nbest, batch));
    }
    const texts = textsOf(sources);
    if (!this.subwords.source) return this.found("answer", ...this.joined(texts), BigInt(texts.length), this.options(beam, nbest, batch));
    const rows = texts.map(this.subwords.source.ids);
    const keeps = this.description("limits").keeps_empty;
    const full = rows.filter((_, n) => keeps || texts[n].trim()), empty = rows.filter((_, n) => !keeps && !texts[n].trim());
    const answers = this.answerIds(full, { beam, nbest, batch }), blank = this.scoreIds(empty, empty.map(() => [EOS]), { batch });
    return texts.map((text) => (keeps || text.trim() ? answers : blank).shift());
  }

  // The answers to texts, whose outputs have phrases or not.
  phrased(texts, required, forbidden, { beam, nbest, batch }) {
    this.lexicon ??= new Lexicon(this);
    const alternatives = required.map((each) => textsOf(Array.isArray(each) ? each : [each]));
    const spelled = this.lexicon.spelled(alternatives, textsOf(forbidden));
    const found = this.found("search_ids", 0, 0n, ...this.rows(this.sourceIds(texts)), this.wanted(texts.length, spelled),
      BigInt(texts.length), this.options(beam, nbest, batch));
    const has = (phrase, { ids }) => this.lexicon.written(phrase, ids);
    const fits = (output) => alternatives.every((some) => some.some((phrase) => has(phrase, output))) && !forbidden.some((phrase) => has(phrase, output));
    return found.map((answer) => {
      const right = answer.outputs.filter(fits);
      return { ...answer, outputs: right.length ? right : answer.outputs.slice(0, 1), broken: !right.length };
    });
  }

  // The structure TransduceWanted of engine.h, with the same phrases for each of `count` sources.
  wanted(count, { required, forbidden }) {
    const borders = this.lexicon.borders();
    const rows = [forbidden, required].flatMap((numbers) => this.rows(Array(count).fill(numbers)));
    const addresses = [0, 0, 0, 0, ...rows, borders ? this.memory.copy(borders) : 0];
    const at = this.memory.room(4 * addresses.length);
    new Uint32Array(this.library.memory.buffer, at, addresses.length).set(addresses);
    return at;
  }

  answerIds(rows, { beam = 0, nbest = 0, batch = 0 } = {}) {
    return this.found("answer_ids", ...this.rows(rows), BigInt(rows.length), this.options(beam, nbest, batch));
  }

  scoreIds(rows, targets, { batch = 0 } = {}) {
    if (rows.length !== targets.length) throw new EngineError(`${targets.length} outputs for ${rows.length} sources: one for each was expected`);
    return this.found("score_ids", ...this.rows(rows), ...this.rows(targets), BigInt(rows.length), this.options(0, 0, batch));
  }

  score(texts, { batch = 0 } = {}) {
    if (!this.generates) throw new EngineError("this model has sources: scoreIds scores given outputs, and a language model scores texts");
    const targets = this.targetIds(textsOf(texts));
    const found = this.scoreIds(targets.map(() => [EOS]), targets, { batch });
    return found.map(({ outputs }, b) => ({
      outputs, sourceTokens: targets[b].length, readTokens: targets[b].length, unknown: targets[b].filter((id) => id === UNK).length, broken: false,
    }));
  }

  generate(prompt = "", { samples = 1, length = 100, temperature = 1, topK = 0, topP = 0, seed = 1 } = {}) {
    if (!this.generates) throw new EngineError("this model has sources: a language model was expected");
    if (prompt.includes("\n")) throw new EngineError("the prompt has several lines: one line was expected");
    const ids = this.targetIds(textsOf([prompt]))[0].slice(0, -1);
    const numbers = wholeNumbers({ samples, length, topK, seed });
    for (const [name, value] of Object.entries({ temperature, topP }))
      if (typeof value !== "number") throw new EngineError(`${name} = ${value}: a number was expected`);
    const row = this.memory.integers(ids), how = this.memory.integers([...numbers, 0, 0]);
    new Float64Array(this.library.memory.buffer, how + 32, 2).set([temperature, topP]);
    const [answer] = this.found("generate_ids", row, BigInt(ids.length), how);
    const text = this.subwords.target?.text;
    return text ? answer.outputs.map((each) => ({ ...each, text: text([...ids, ...each.ids]) })) : answer.outputs;
  }

  sourceIds(texts) {
    if (this.subwords.source) return texts.map(this.subwords.source.ids);
    return this.found("encode_sources", ...this.joined(texts), BigInt(texts.length)).map((each) => each.outputs[0].ids);
  }

  targetIds(texts) {
    if (this.subwords.target) return texts.map(this.subwords.target.ids);
    return this.found("encode", ...this.joined(texts), BigInt(texts.length)).map((each) => each.outputs[0].ids);
  }

  options(beam, nbest, batch) {
    return this.memory.integers(wholeNumbers({ beam, nbest, batch }));
  }

  joined(texts) {
    const parts = texts.map(utf8), ends = [];
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let end = 0;
    for (const part of parts) {
      all.set(part, end);
      ends.push((end += part.length));
    }
    return [this.memory.copy(all), this.memory.integers(ends)];
  }

  signals(some) {
    const numbers = some.flatMap(({ numbers, type, rows, columns, channels, rate }) => {
      const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
      return [this.memory.copy(bytes), type, rows, columns, channels, rate];
    });
    return this.memory.integers(numbers);
  }

  rows(rows) {
    let end = 0;
    return [this.memory.integers(rows.flat()), this.memory.integers(rows.map((row) => (end += row.length)))];
  }

  // The answers of a function, whose memory and arguments are then free.
  found(name, ...given) {
    let answers = 0;
    try {
      answers = this.told(name, this.address, ...given);
      return this.read(answers);
    } finally {
      if (answers) this.library.transduce_engine_free(answers);
      this.memory.free();
    }
  }

  read(answers) {
    const { memory } = this;
    const [sources, outputs] = memory.whole(answers, 2);
    const [outputEnds, textEnds, tokenEnds, tokens, texts, tokenLogProbs, logProb, score, sourceTokens, readTokens, unknown, cut] =
      memory.addresses(answers + 16, 12);
    const lastToken = outputs ? memory.whole(tokenEnds, outputs)[outputs - 1] : 0;
    const textsAt = [0, ...memory.whole(textEnds, outputs)], tokensAt = [0, ...memory.whole(tokenEnds, outputs)];
    const ids = memory.whole(tokens, lastToken), probabilities = memory.reals(tokenLogProbs, lastToken);
    const sums = memory.reals(logProb, outputs), scores = memory.reals(score, outputs), cuts = memory.whole(cut, outputs);
    const decode = this.subwords.target?.text;
    const all = Array.from({ length: outputs }, (_, i) => {
      const own = ids.slice(tokensAt[i], tokensAt[i + 1]);
      const written = () => this.utf8.decode(memory.bytes(texts + textsAt[i], textsAt[i + 1] - textsAt[i]));
      return {
        text: decode ? decode(own) : written(),
        ids: own,
        tokenLogProbs: probabilities.slice(tokensAt[i], tokensAt[i + 1]),
        logProb: sums[i],
        probability: Math.exp(sums[i]),
        score: scores[i],
        cut: cuts[i],
      };
    });
    const ends = [0, ...memory.whole(outputEnds, sources)];
    const lengths = [sourceTokens, readTokens, unknown].map((at) => memory.whole(at, sources));
    return Array.from({ length: sources }, (_, b) => ({
      outputs: all.slice(ends[b], ends[b + 1]), sourceTokens: lengths[0][b], readTokens: lengths[1][b], unknown: lengths[2][b], broken: false,
    }));
  }
}

// ---------------------------------------------------------------- phrases

const SPECIALS = 4;  // ids that are no text
const ENDS = 1, OPEN = 2;  // bits of a token: it ends the word before it; no word continues after it
const ANYWHERE = 0, BORDER = 1, DONE = 2, OWN = 3;  // three states that every pattern has, and the first of its own states
const BREAK = -2, NONE = -1;  // tokens of edges: any that ends the word before it, and none
const LETTER = /^[\p{L}\p{M}\p{N}_]/u;
const UNSPACED = /^[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/u;

// Spells and finds phrases in the tokens of a model's outputs, as the class Lexicon of transduce_engine/phrases.py does, which
// explains the words. A text is a list of its characters here.
class Lexicon {
  constructor(engine) {
    this.encode = (text) => engine.targetIds([text])[0].slice(0, -1);
    this.described = engine.description("target");
    this.pieces = piecesOf(this.described.record).map((piece) => [...piece]);
    const known = [...this.pieces.entries()].filter(([token, piece]) => token >= SPECIALS && piece.length);
    const first = engine.targetIds(known.map(([, piece]) => piece.join("").trim())).map((ids) => this.pieces[ids[0]][0]);
    this.words = first.includes(" ");
    this.symbols = known.every(([, piece]) => piece[0] === " ");
    this.continued = known.some(([, piece]) => this.joins(piece[0]));
    this.parts = new Map();
    this.longest = 0;
    for (const [token, piece] of known) {
      const cuts = [...piece.keys(), piece.length].filter((cut) => this.border(piece, cut));
      cuts.forEach((start, n) => cuts.slice(n + 1).forEach((end) => {
        const part = piece.slice(start, end).join("");
        if (!this.parts.has(part)) this.parts.set(part, []);
        this.parts.get(part).push([token, start > 0, end < piece.length]);
        this.longest = Math.max(this.longest, end - start);
      }));
    }
    this.patterns = new Map();
  }

  borders() {
    if (!this.words) return null;
    return Uint8Array.from(this.pieces, (piece, token) => {
      if (token < SPECIALS || !piece.length) return ENDS | OPEN;
      return (this.joins(piece[0]) ? 0 : ENDS) | (this.joins(piece.at(-1)) ? 0 : OPEN);
    });
  }

  // The numbers of the automata for required and forbidden phrases. Throws an EngineError for a phrase that cannot be written.
  spelled(required, forbidden) {
    const one = required.map((some) => {
      const known = some.filter((phrase) => this.pattern(phrase).own.length);
      const shown = (phrase) => `'${phrase}'`;
      if (!known.length) throw new EngineError(`the required ${some.map(shown).join(" or ")} cannot be written: the model's vocabulary lacks a part of it`);
      const inside = known.map((phrase) => forbidden.filter((unwanted) => this.found(this.text(unwanted), this.text(phrase))));
      const free = known.filter((_, n) => !inside[n].length);
      if (!free.length) throw new EngineError(`the required ${shown(known[0])} has the forbidden ${shown(inside[0][0])} in it: leave one of them out`);
      return free.map((phrase) => this.pattern(phrase));
    });
    const other = forbidden.map((phrase) => this.pattern(phrase)).filter((pattern) => pattern.edges.length);
    return { required: one.length ? automaton(one) : [], forbidden: other.length ? automaton([other]) : [] };
  }

  // Whether the text of ids has the phrase, as whole words if the vocabulary marks words.
  written(phrase, ids) {
    return this.found(this.text(phrase), ids.flatMap((token) => this.pieces[token]));
  }

  // The phrase in the form that outputs have.
  text(phrase) {
    const ids = this.encode(phrase), { form, lowercase } = this.described;
    const normal = form === "none" ? phrase : phrase.normalize(form);
    const spelled = ids.includes(UNK) ? (lowercase ? normal.toLowerCase() : normal) : ids.map((token) => this.pieces[token].join("")).join("");
    const text = [...(this.words ? spelled.replace(/^ +| +$/g, "") : spelled)];
    if (!text.length) throw new EngineError(`a phrase is '${phrase}': some text was expected, and the tokenizer finds none in it`);
    return text;
  }

  pattern(phrase) {
    if (!this.patterns.has(phrase)) this.patterns.set(phrase, this.made(this.text(phrase)));
    return this.patterns.get(phrase);
  }

  joins(character) {
    if (this.symbols || !this.words) return this.words && character !== " ";
    return LETTER.test(character) && !UNSPACED.test(character);
  }

  border(text, cut) {
    return !(0 < cut && cut < text.length && this.joins(text[cut - 1]) && this.joins(text[cut]));
  }

  found(text, longer) {
    return longer.some((_, at) => text.every((character, n) => longer[at + n] === character) && this.border(longer, at) && this.border(longer, at + text.length));
  }

  spellings(text) {
    const size = (this.words ? 1 : 0) + text.length;
    const spans = (written) => {
      let end = size;
      return this.encode(written).reverse().map((token) => {
        const span = [end - this.pieces[token].length, token, end];
        [end] = span;
        return span;
      }).reverse();
    };
    const ways = [spans(text.join(""))];
    if (this.words && !this.joins(text[0])) {
      const behind = spans(`x${text.join("")}`).filter(([start]) => start >= 1);
      if (behind.length && behind[0][0] === 1) ways.push(behind);
    }
    return ways.filter((way) => way.every(([, token]) => token !== UNK));
  }

  made(text) {
    const first = this.words ? 1 : 0;
    const whole = [...Array(first).fill(" "), ...text], ways = this.spellings(text);
    const begins = this.joins(text[0]) ? BORDER : ANYWHERE, waits = this.continued && this.joins(text.at(-1));
    const spaced = ways.some((way) => way.some(([, , end]) => end === first));
    const states = new Map(), edges = new Edges(), own = new Edges();
    const goal = (end) => {
      if (end >= whole.length && !waits) return DONE;
      if (!states.has(end)) states.set(end, OWN + states.size);
      return states.get(end);
    };
    for (let start = 0; start < whole.length; ++start)
      for (let end = start + 1; end <= Math.min(whole.length, start + this.longest); ++end) {
        if (end === first && !spaced) continue;
        for (const [token, before, behind] of this.parts.get(whole.slice(start, end).join("")) ?? []) {
          if ((before && start > first) || (behind && end < whole.length)) continue;
          const origins = new Set(before || start === 0 ? [ANYWHERE] : states.has(start) ? [states.get(start)] : []);
          if (start === first && !before) origins.add(begins);
          for (const origin of origins) edges.add(origin, token, behind ? DONE : goal(end));
        }
      }
    for (const way of ways)
      for (const [start, token, end] of way) own.add(start === 0 || start === way[0][0] ? ANYWHERE : states.get(start), token, goal(end));
    if (states.has(whole.length)) edges.add(states.get(whole.length), BREAK, DONE);
    const covered = [...states.keys()].map((place) => Math.max(0, ...ways.map((way) => way.filter(([, , end]) => end <= place).length)));
    const length = Math.max(0, ...ways.map((way) => way.length));
    return { edges: edges.sorted(), own: own.sorted(), covered, length, waiting: states.get(whole.length) ?? null };
  }
}

// A set of edges, each of three numbers.
class Edges {
  every = new Map();

  add(...edge) {
    this.every.set(edge.join(), edge);
  }

  sorted() {
    return [...this.every.values()].sort((one, two) => one[0] - two[0] || one[1] - two[1] || one[2] - two[2]);
  }
}

// The text that each id adds to an output.
function piecesOf(record) {
  const { vocab } = record.model;
  const entries = Array.isArray(vocab) ? vocab.map(([piece]) => piece) : Object.entries(vocab).sort((one, two) => one[1] - two[1]).map(([piece]) => piece);
  const spoken = entries.slice(UNK);
  const spaced = JSON.stringify(record.normalizer ?? null).includes("Prepend");  // a space comes before the first word
  const text = record.decoder === null ? (entry) => ` ${entry}` : spaced ? (entry) => entry.replaceAll("\u2581", " ") : (entry) => entry;
  return [...Array(UNK).fill(""), ...spoken.map(text)];
}

// The phrases of a source, each a list of patterns of which one is enough, as the numbers of one automaton (engine.h).
function automaton(phrases) {
  const states = [0, 0, ANYWHERE, 0, 0, 0, ANYWHERE, 0], edges = [ANYWHERE, NONE, ANYWHERE, 0];
  for (const alternatives of phrases) {
    const finish = states.length / 4, longest = Math.max(...alternatives.map(({ length }) => length));
    states.push(1, 0, finish, longest);
    for (const { edges: every, own, covered, length, waiting } of alternatives) {
      const number = [ANYWHERE, BORDER, finish], spelled = new Set(own.map(String));
      covered.forEach((some, n) => {
        number.push(states.length / 4);
        states.push(0, OWN + n === waiting ? 1 : 0, finish, some ? longest - length + some : 0);
      });
      for (const edge of every) edges.push(number[edge[0]], edge[1], number[edge[2]], spelled.has(String(edge)) ? 1 : 0);
    }
  }
  return [states.length / 4, ...states, ...edges];
}

// ---------------------------------------------------------------- memory

// The memory of the library. `room` and `copy` take some of it, and `free` gives all that they took back.
class Memory {
  constructor(library) {
    this.library = library;
    this.taken = [];
  }

  room(size) {
    const at = this.library.malloc(Math.max(8, size)) >>> 0;
    if (!at) throw new EngineError(`there is no memory for ${size} bytes: use a smaller model or fewer texts`);
    this.taken.push(at);
    return at;
  }

  copy(bytes) {
    const at = this.room(bytes.byteLength);
    this.bytes(at, bytes.byteLength).set(bytes);
    return at;
  }

  integers(numbers) {
    const at = this.room(8 * numbers.length);
    new BigInt64Array(this.library.memory.buffer, at, numbers.length).set(numbers.map(BigInt));
    return at;
  }

  free() {
    for (const at of this.taken.splice(0)) this.library.free(at);
  }

  // The views end when the memory grows, so each use makes its own.
  bytes(at, size) {
    return new Uint8Array(this.library.memory.buffer, at, size);
  }

  whole(at, count) {
    return Array.from(new BigInt64Array(this.library.memory.buffer, at, count), Number);
  }

  reals(at, count) {
    return Array.from(new Float64Array(this.library.memory.buffer, at, count));
  }

  addresses(at, count) {
    return Array.from(new Uint32Array(this.library.memory.buffer, at, count));
  }
}

function utf8(text) {
  return new TextEncoder().encode(text);
}

// A signal as the library has it.
function signalOf(given, unit, number) {
  const wrong = (expected) => new EngineError(`input ${number}: ${expected} was expected`);
  if (unit.type === "sound") {
    const { samples, rate = unit.rate, channels = 1 } = given?.samples ? given : { samples: given };
    const type = samples instanceof Int16Array ? SHORTS : samples instanceof Float32Array ? FLOATS : null;
    if (type === null || !Number.isSafeInteger(rate) || !(channels >= 1)) throw wrong("a recording, { samples, rate, channels } of 16-bit integers or float32,");
    return { numbers: samples, type, rows: Math.floor(samples.length / channels), columns: 1, channels, rate };
  }
  const { width, height, data } = given ?? {}, pixels = data ? withoutAlpha(data) : given?.pixels;
  const channels = data ? 3 : (given?.channels ?? 1);
  const right = pixels instanceof Uint8Array || pixels instanceof Uint8ClampedArray;
  if (!right || !(width * height * channels === pixels.length)) throw wrong("a picture, { pixels, width, height, channels } of bytes or the ImageData of a canvas,");
  return { numbers: pixels, type: BYTES, rows: height, columns: width, channels, rate: 0 };
}

// Red, green and blue of pixels with transparency, on white paper.
function withoutAlpha(data) {
  const found = new Uint8Array((data.length / 4) * 3);
  for (let n = 0, at = 0; n < data.length; n += 4)
    for (let c = 0; c < 3; ++c) found[at++] = Math.round(255 + ((data[n + c] - 255) * data[n + 3]) / 255);
  return found;
}

function textsOf(sources) {
  const texts = [...sources];
  texts.forEach((text, n) => {
    if (typeof text !== "string") throw new EngineError(`input ${n + 1}: ${text} is no text`);
    if (/\p{Surrogate}/u.test(text)) throw new EngineError(`input ${n + 1}: half of a surrogate pair; write both halves, or leave it out`);
  });
  return texts;
}

function wholeNumbers(named) {
  for (const [name, number] of Object.entries(named))
    if (!Number.isSafeInteger(number)) throw new EngineError(`${name} = ${number}: a whole number of at most 53 bits was expected`);
  return Object.values(named);
}
