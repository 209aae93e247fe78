// The requests for what is on the screen as code that can be copied: curl, Python and JavaScript.

import { hasKey } from "./client.js";
import { button, copy, element } from "./page.js";

const LANGUAGES = ["curl", "Python", "JavaScript"];

// `requests` are those of `requestsOf`: [{title, path, body, file, name}].
export function snippets(requests) {
  const base = new URL(".", location.href.split("#")[0]).href, [{ file, name }] = requests;
  const make = file ? filed(base, name, hasKey()) : plain(base, hasKey());
  const titled = (mark, line) => requests.map((each) => (requests.length > 1 ? `${mark} ${each.title}\n` : "") + line(each));
  return {
    curl: titled("#", make.curl).join("\n\n"),
    Python: [...make.python, "", "", ...titled("#", make.pythonLine)].join("\n"),
    JavaScript: [...make.script, "", ...titled("//", make.scriptLine)].join("\n"),
  };
}

function plain(base, keyed) {
  return {
    curl: ({ path, body }) => [`curl ${base}${path}`, "-H 'content-type: application/json'", ...(keyed ? ['-H "x-api-key: $TRANSDUCE_KEY"'] : []), `-d ${quoted(JSON.stringify(body))}`].join(" \\\n  "),
    python: [
      keyed ? "import json, os, urllib.request" : "import json, urllib.request", "", "", "def ask(path, body):",
      `    headers = {"content-type": "application/json"${keyed ? ', "x-api-key": os.environ["TRANSDUCE_KEY"]' : ""}}`,
      `    request = urllib.request.Request(${JSON.stringify(base)} + path, json.dumps(body).encode(), headers)`,
      "    with urllib.request.urlopen(request) as answer:", "        return json.load(answer)",
    ],
    pythonLine: ({ path, body }) => `print(ask(${JSON.stringify(path)}, json.loads(${pythonText(JSON.stringify(body))})))`,
    script: [
      "async function ask(path, body) {",
      `  const headers = { "content-type": "application/json"${keyed ? ', "x-api-key": KEY' : ""} };`,
      `  const answer = await fetch(${JSON.stringify(base)} + path, { method: "POST", headers, body: JSON.stringify(body) });`,
      "  return answer.json();", "}",
    ],
    scriptLine: ({ path, body }) => `console.log(await ask(${JSON.stringify(path)}, ${JSON.stringify(body, null, 2)}));`,
  };
}

function filed(base, name, keyed) {
  return {
    curl: ({ path, body }) => [`curl ${base}${path}`, ...(keyed ? ['-H "x-api-key: $TRANSDUCE_KEY"'] : []), ...Object.entries(body).map(([key, value]) => `-F ${quoted(`${key}=${value}`)}`), `-F ${quoted(`file=@${name}`)}`].join(" \\\n  "),
    python: [
      ...(keyed ? ["import os", ""] : []), "import requests  # pip install requests", "", "", "def ask(path, fields):",
      `    with open(${JSON.stringify(name)}, "rb") as file:`,
      `        answer = requests.post(${JSON.stringify(base)} + path, data=fields, files={"file": file}${keyed ? ', headers={"x-api-key": os.environ["TRANSDUCE_KEY"]}' : ""})`,
      "    return answer.json()",
    ],
    pythonLine: ({ path, body }) => `print(ask(${JSON.stringify(path)}, ${JSON.stringify(body)}))`,
    script: [
      "async function ask(path, fields) {",
      "  const form = new FormData();", "  for (const [key, value] of Object.entries(fields)) form.append(key, value);",
      `  form.append("file", file, ${JSON.stringify(name)}); // a File, such as one of <input type="file">`,
      `  const answer = await fetch(${JSON.stringify(base)} + path, { method: "POST", body: form${keyed ? ', headers: { "x-api-key": KEY }' : ""} });`,
      "  return answer.json();", "}",
    ],
    scriptLine: ({ path, body }) => `console.log(await ask(${JSON.stringify(path)}, ${JSON.stringify(body)}));`,
  };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const pythonText = (text) => `r'''${text}'''`.includes("\\'") || text.includes("'''") || text.endsWith("'") || text.endsWith("\\") ? JSON.stringify(text) : `r'''${text}'''`;

export function drawCode(place, requests, chosen, changed) {
  const every = snippets(requests);
  const tabs = LANGUAGES.map((name) => button(name, () => changed(name), { ariaPressed: String(name === chosen) }));
  const text = every[chosen];
  place.replaceChildren(
    element("p", { className: "help" }, requests.length > 1 ? `The ${requests.length} requests for exactly what is on the screen. ` : "The request for exactly what is on the screen. ", element("a", { href: "docs" }, "All routes and keys")),
    element("div", { className: "row" }, ...tabs, button("Copy the code", ({ currentTarget }) => copy(text, currentTarget), { className: "end" })),
    element("pre", { className: "wide", tabIndex: 0, role: "group", ariaLabel: `${chosen} code` }, element("code", {}, text)),
  );
}
