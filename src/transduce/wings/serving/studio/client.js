// Requests to the server that has sent this page. Nothing else is ever asked.

const KEY = "transduce-key";

export class Problem extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

function headers(more) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...more, "x-api-key": key } : more;
}

async function checked(answer) {
  if (answer.ok) return answer;
  let line = `status ${answer.status}`;
  try {
    const { error } = await answer.json();
    line = error.message ?? error;
  } catch { /* no JSON: the status says enough */ }
  throw new Problem(answer.status, line);
}

export async function get(path) {
  return (await checked(await fetch(path, { headers: headers({}) }))).json();
}

export async function post(path, body, signal) {
  const given = { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal };
  return (await checked(await fetch(path, given))).json();
}

// A file as the field "file" of a form, with other fields beside it.
export async function upload(path, file, name, fields, signal) {
  const form = new FormData();
  for (const [key, value] of Object.entries(fields)) form.append(key, value);
  form.append("file", file, name);
  return (await checked(await fetch(path, { method: "POST", headers: headers({}), body: form, signal }))).json();
}

// The values of server-sent events, each as soon as it has come.
export async function* events(path, body, signal) {
  const given = { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal };
  const reader = (await checked(await fetch(path, given))).body.pipeThrough(new TextDecoderStream()).getReader();
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
