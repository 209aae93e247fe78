// A model from the file of `transduce export RUN --to engine`, in a page, a Web Worker or Node. transduce.d.mts has the
// types, and docs/engine.md explains the file.
//
//     import { load } from "./transduce.mjs";
//     const model = await load("model.engine");
//     model("knowledge");
//
// The search runs in C++, compiled to engine.wasm. Here are its memory and its errors.

const VERSION = 6;  // of engine/src/engine.h
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

  answer(sources, { beam = 0, nbest = 0, batch = 0 } = {}) {
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
      outputs, sourceTokens: targets[b].length, readTokens: targets[b].length, unknown: targets[b].filter((id) => id === UNK).length,
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
      outputs: all.slice(ends[b], ends[b + 1]), sourceTokens: lengths[0][b], readTokens: lengths[1][b], unknown: lengths[2][b],
    }));
  }
}

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
