/** Something is wrong with the file, the input or an option. The message is one line. */
export class EngineError extends Error {}

/** One output: its text, the ids of its tokens (with the end), and their log-probabilities. */
export interface Output {
  text: string;
  ids: number[];
  tokenLogProbs: number[];
  /** The sum of `tokenLogProbs`. */
  logProb: number;
  /** e to the power of `logProb`. */
  probability: number;
  /** What the search ranked by. */
  score: number;
  /** The number of tokens at which the search ended the output; 0 if the model ended it. */
  cut: number;
}

/** The outputs for one source, best first. */
export interface Answer {
  outputs: Output[];
  /** The length of the source in tokens, of which the model read the first `readTokens`. */
  sourceTokens: number;
  readTokens: number;
  /** How many of the tokens that were read are not in the model's vocabulary. */
  unknown: number;
  /** True if no output that fits the phrases was found; then `outputs` has the best one, which does not. */
  broken: boolean;
}

/** `beam` and `nbest` replace those of the run's own search. `batch` sources are searched together; it changes no result. */
export interface Options {
  beam?: number;
  nbest?: number;
  batch?: number;
}

/** Phrases of the outputs of a model of texts that writes token by token. */
export interface Phrases {
  /** Each output has all of them; of a list of alternatives, one is enough. They need a beam. */
  required?: (string | string[])[];
  /** No output has one of them. */
  forbidden?: string[];
}

/** How a language model draws its samples; 0 stands for all tokens. A seed gives the same samples again. */
export interface Sampling {
  samples?: number;
  length?: number;
  temperature?: number;
  topK?: number;
  topP?: number;
  seed?: number;
}

/** Samples of -1 to 1, or 16-bit integers: those of all channels, then those of the next moment. The rate is the model's by default. */
export interface Recording {
  samples: Int16Array | Float32Array;
  rate?: number;
  channels?: number;
}

/** Pixels from the upper left, row by row: 1 channel (grey) or 3 (red, green, blue). */
export interface Picture {
  pixels: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
  channels?: 1 | 3;
}

/** A text, or for a model of signals a recording, a picture, or the `ImageData` of a canvas. */
export type Source = string | Recording | Picture | { data: Uint8ClampedArray; width: number; height: number };

/** The recording in the bytes of a WAV file of 16-bit integers or float32. Throws an EngineError for another file. */
export function wav(bytes: ArrayBuffer | Uint8Array): Recording;

export interface Model {
  /** The best output. */
  (source: Source): string;
  (sources: Source[]): string[];
  answer(sources: Iterable<Source>, options?: Options & Phrases): Answer[];
  /** The same for rows of ids, which end with the end (2). */
  answerIds(rows: number[][], options?: Options): Answer[];
  /** The given outputs with the log-probabilities of their tokens. Rows and outputs end with the end (2). */
  scoreIds(rows: number[][], targets: number[][], options?: { batch?: number }): Answer[];
  /** The texts with a language model's log-probabilities of their tokens, each text alone. */
  score(texts: Iterable<string>, options?: { batch?: number }): Answer[];
  /** Samples of a language model that go on with a prompt of one line. */
  generate(prompt?: string, options?: Sampling): Output[];
  /** A text of the file, such as "settings"; empty if it has none of this name. */
  note(name: string): string;
  /** A note that is JSON: "model", "source", "target", "search", "limits", "settings". */
  description(name: string): any;
  /** A few lines about the model, for people. */
  readonly card: string;
  /** True for a language model, which has no sources. */
  readonly generates: boolean;
  /** Gives the model's memory back. */
  close(): void;
}

/**
 * The model of an engine's file: its address, a path in Node, or its bytes. Throws an EngineError for another file.
 * `wasm` is engine.wasm, and `tokenizers` is tokenizers.mjs or its address: by default both stand beside it.
 */
export function load(
  file: string | URL | ArrayBuffer | ArrayBufferView,
  options?: { wasm?: string | URL | ArrayBuffer | ArrayBufferView; tokenizers?: string | { Tokenizer: any } },
): Promise<Model>;
