// The request of the screen as code that can be copied: curl, Python and JavaScript.

import { hasKey } from "./client.js";
import { button, copy, element } from "./page.js";

const LANGUAGES = ["curl", "Python", "JavaScript"];

// `request` is {path, body, file, name}, as `requestFor` makes it.
export function snippets({ path, body, file, name }) {
  const url = new URL(path, location.href.split("#")[0]).href;
  const keyed = hasKey();
  return file ? fileSnippets(url, body, name, keyed) : {
    curl: [`curl ${url}`, "-H 'content-type: application/json'", ...(keyed ? ['-H "x-api-key: $TRANSDUCE_KEY"'] : []), `-d ${quoted(JSON.stringify(body))}`].join(" \\\n  "),
    Python: [
      "import json, os, urllib.request", "",
      `body = json.loads(${pythonText(JSON.stringify(body))})`,
      `headers = {"content-type": "application/json"${keyed ? ', "x-api-key": os.environ["TRANSDUCE_KEY"]' : ""}}`,
      `request = urllib.request.Request(${JSON.stringify(url)}, json.dumps(body).encode(), headers)`,
      "with urllib.request.urlopen(request) as answer:", "    print(json.load(answer))",
    ].join("\n"),
    JavaScript: [
      `const answer = await fetch(${JSON.stringify(url)}, {`, '  method: "POST",',
      `  headers: { "content-type": "application/json"${keyed ? ', "x-api-key": KEY' : ""} },`,
      `  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),`, "});", "console.log(await answer.json());",
    ].join("\n"),
  };
}

function fileSnippets(url, body, name, keyed) {
  const fields = Object.entries(body);
  return {
    curl: [`curl ${url}`, ...(keyed ? ['-H "x-api-key: $TRANSDUCE_KEY"'] : []), ...fields.map(([key, value]) => `-F ${quoted(`${key}=${value}`)}`), `-F ${quoted(`file=@${name}`)}`].join(" \\\n  "),
    Python: [
      ...(keyed ? ["import os", ""] : []), "import requests  # pip install requests", "",
      `with open(${JSON.stringify(name)}, "rb") as file:`,
      `    answer = requests.post(${JSON.stringify(url)}, data=${JSON.stringify(body)}, files={"file": file}${keyed ? ', headers={"x-api-key": os.environ["TRANSDUCE_KEY"]}' : ""})`,
      "print(answer.json())",
    ].join("\n"),
    JavaScript: [
      "const form = new FormData();", ...fields.map(([key, value]) => `form.append(${JSON.stringify(key)}, ${JSON.stringify(value)});`),
      `form.append("file", file, ${JSON.stringify(name)}); // a File, such as one of <input type="file">`,
      `const answer = await fetch(${JSON.stringify(url)}, { method: "POST", body: form${keyed ? ', headers: { "x-api-key": KEY }' : ""} });`, "console.log(await answer.json());",
    ].join("\n"),
  };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const pythonText = (text) => `r'''${text}'''`.includes("\\'") || text.includes("'''") || text.endsWith("'") || text.endsWith("\\") ? JSON.stringify(text) : `r'''${text}'''`;

export function drawCode(place, request, chosen, changed) {
  const every = snippets(request);
  const tabs = LANGUAGES.map((name) => button(name, () => changed(name), { ariaPressed: String(name === chosen) }));
  const text = every[chosen];
  place.replaceChildren(
    element("p", { className: "help" }, "The request for exactly what is on the screen. ", element("a", { href: "docs" }, "All routes and keys")),
    element("div", { className: "row" }, ...tabs, button("Copy the code", ({ currentTarget }) => copy(text, currentTarget), { className: "end" })),
    element("pre", { className: "wide", tabIndex: 0, role: "group", ariaLabel: `${chosen} code` }, element("code", {}, text)),
  );
}
