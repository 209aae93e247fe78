// What the page shows, in its address (so that a link restores it) and in this browser (so that a reload does).

const LONGEST = 3000; // characters of an address; longer texts stay in this browser
const NAMES = ["model", "text", "with", "view", "part", "label", "word"];
const place = (name) => `transduce-${name}:${location.pathname}`;

// Keeps nothing where the browser forbids it.
function kept(storage, name, value) {
  try {
    if (value === undefined) return JSON.parse(storage.getItem(place(name)) ?? "null");
    storage.setItem(place(name), JSON.stringify(value));
  } catch { /* private windows may have no storage */ }
  return null;
}

export function linkTo(state) {
  const given = new URLSearchParams(NAMES.filter((name) => state[name]).map((name) => [name, state[name]]));
  return new URL(`#${given}`, location.href).href;
}

export function remember(state) {
  kept(sessionStorage, "state", state);
  const link = linkTo(state);
  history.replaceState(null, "", link.length <= LONGEST ? link : location.pathname + location.search);
}

export function remembered() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  return Object.keys(given).length ? given : kept(sessionStorage, "state") ?? {};
}

export const preference = (name, value) => kept(localStorage, name, value);

// ------------------------------------------------------------- history

const MOST = 50;

export const past = () => kept(localStorage, "history") ?? [];

export function addToPast(entry) {
  const others = past().filter((each) => each.model !== entry.model || (each.text !== entry.text && !extends_(entry, each)));
  kept(localStorage, "history", [{ ...entry, time: Date.now() }, ...others].slice(0, MOST));
}

// True if an entry is an earlier state of the same typing.
const extends_ = (entry, earlier) => Date.now() - earlier.time < 60_000 && entry.text.startsWith(earlier.text);

export const forgetPast = () => kept(localStorage, "history", []);
