// Small functions that make elements and say things.

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function button(text, click, properties = {}) {
  const made = element("button", { type: "button", ...properties }, text);
  made.addEventListener("click", click);
  return made;
}

// A token as people read it: the mark for a space becomes a space.
export function shown(token) {
  return token.replaceAll("▁", " ").trim() || (token === "" ? "∅" : "␣");
}

// A label without the marks of its vocabulary.
export const plainLabel = (label) => label.replace(/^<(.+)>$/, "$1");

export const percent = (p) => (p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`);

// Tells readers of the screen, and nobody else.
export function say(text) {
  byId("said").textContent = text;
}

// Copies a text, and says so on the button that was pressed.
export async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page without TLS has no clipboard of its own
    const area = element("textarea", { value: text, className: "hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    from.focus();
  }
  say("Copied");
  const label = from.lastChild, name = label.textContent;
  if (name === "Copied") return;
  label.textContent = "Copied";
  setTimeout(() => { label.textContent = name; }, 1500);
}

export function save(content, name) {
  const address = URL.createObjectURL(content);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

let choices = 0;

// A choice between several values, with its label.
export function choice(text, options, chosen, changed) {
  const select = element("select", {}, ...options.map(([value, name]) => element("option", { value }, name)));
  select.value = chosen;
  select.id = `choice-${(choices += 1)}`;
  select.addEventListener("change", () => changed(select.value));
  return element("span", { className: "field" }, element("label", { htmlFor: select.id }, text), " ", select);
}
