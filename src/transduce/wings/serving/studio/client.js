// Requests to the server that has sent this page. Nothing else is ever asked.

const KEY = "transduce-key";
const PLAIN = { 429: "The server is busy. Try again in a moment.", 504: "The answer took too long. Try a shorter input." };

export class Problem extends Error {
  constructor(status, line) {
    super(PLAIN[status] ?? line);
    this.status = status;
  }

  // True if another input would help.
  get ofInput() {
    return [400, 413, 415].includes(this.status);
  }
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

export const hasKey = () => Boolean(sessionStorage.getItem(KEY));

function headers(more) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...more, "x-api-key": key } : more;
}

async function asked(path, given) {
  let answer;
  try {
    answer = await fetch(path, given);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  let line = `The server answers with status ${answer.status}.`;
  try {
    const { error } = await answer.json();
    line = error.message ?? error;
  } catch { /* no JSON: the status says enough */ }
  throw new Problem(answer.status, line);
}

export async function get(path) {
  return (await asked(path, { headers: headers({}) })).json();
}

const json = (body, signal) => ({ method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal });

export async function post(path, body, signal) {
  return (await asked(path, json(body, signal))).json();
}

// A file as the field "file" of a form, with other fields beside it.
export function form(file, name, fields) {
  const made = new FormData();
  for (const [key, value] of Object.entries(fields)) made.append(key, value);
  made.append("file", file, name);
  return made;
}

export async function upload(path, file, name, fields, signal) {
  return (await asked(path, { method: "POST", headers: headers({}), body: form(file, name, fields), signal })).json();
}

// As `upload`, for an answer that is a file. Its counts are in a header.
export async function uploadForFile(path, file, name, fields, signal) {
  const answer = await asked(path, { method: "POST", headers: headers({}), body: form(file, name, fields), signal });
  return { content: await answer.blob(), counts: answer.headers.get("x-units") ?? "" };
}

// The values of server-sent events, each as soon as it has come.
export async function* events(path, body, signal) {
  const reader = (await asked(path, json(body, signal))).body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const whole = waiting.split("\n\n");
    waiting = whole.pop();
    for (const event of whole) {
      const data = event.split("\n").find((line) => line.startsWith("data: ")).slice(6);
      if (data === "[DONE]") return;
      const found = JSON.parse(data);
      if (event.startsWith("event: error")) throw new Problem(500, found.error);
      yield found;
    }
  }
}
