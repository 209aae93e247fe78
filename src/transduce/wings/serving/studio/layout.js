// A text as the parts that a model reads one by one, with what stands between them. So the answer keeps lines and paragraphs.

// [{before, source}], and the white space after the last part. A language divides lines into sentences.
export function parted(text, language) {
  const parts = [];
  let between = "";
  for (const piece of text.match(/\n+|[^\n]+/g) ?? []) {
    for (const sentence of sentences(piece, language)) {
      const [, left, source, right] = /^(\s*)([\s\S]*?)(\s*)$/.exec(sentence);
      if (source) {
        parts.push({ before: between + left, source });
        between = right;
      } else between += left;
    }
  }
  return { parts, tail: between };
}

function sentences(line, language) {
  if (!language || !line.trim() || !Intl.Segmenter) return [line];
  return Array.from(new Intl.Segmenter(language, { granularity: "sentence" }).segment(line), (each) => each.segment);
}

// The words of a text: {text, start, end}.
export const wordsOf = (text) => Array.from(text.matchAll(/\S+/g), (found) => ({ text: found[0], start: found.index, end: found.index + found[0].length }));

// The probability of each word, from pieces [text, log-probability] that are the text together; undefined without them.
export function confidences(text, pieces) {
  const words = wordsOf(text);
  if (!pieces?.length || pieces.map(([each]) => each).join("") !== text) return words.map(() => undefined);
  const sums = words.map(() => 0);
  let at = 0;
  for (const [piece, log] of pieces) {
    const start = at + piece.length - piece.trimStart().length, end = Math.max(start, at + piece.trimEnd().length);
    words.forEach((word, index) => { if (start < word.end && end > word.start) sums[index] += log; });
    at += piece.length;
  }
  return sums.map(Math.exp);
}
