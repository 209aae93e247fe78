// Small functions that make elements.

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

// A token as people read it: the mark for a space becomes a space.
export function shown(token) {
  return token.replaceAll("▁", " ").trim() || (token === "" ? "∅" : "␣");
}
