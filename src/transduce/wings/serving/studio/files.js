// Files that are chosen, dropped or pasted: documents, pictures and recordings.

import { uploadForFile } from "./client.js";
import { button, byId, element, save } from "./page.js";
import { spectrum } from "./spectrum.js";

const ending = (name) => /\.[^.]+$/.exec(name.toLowerCase())?.[0] ?? "";

// Calls `use(file)` for a file that is dropped on the page or pasted into it.
export function receive(use) {
  let inside = 0;
  const show = (change) => {
    inside = Math.max(0, inside + change);
    byId("drop-here").hidden = !inside;
  };
  const isFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => isFile(event) && show(1));
  addEventListener("dragleave", (event) => isFile(event) && show(-1));
  addEventListener("dragover", (event) => isFile(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    inside = 0;
    show(0);
    const [file] = event.dataTransfer.files;
    if (file) use(file);
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (file) use(file);
  });
}

// Translates a document, and offers the translation. Raises what the server says.
export async function translateDocument(model, file) {
  const place = byId("translated");
  place.hidden = false;
  if (!model.documents.includes(ending(file.name))) {
    place.replaceChildren(element("p", { className: "problem", role: "alert" }, `${file.name}: this model reads no such documents. It reads ${model.documents.join(", ")}.`));
    return;
  }
  place.replaceChildren(element("p", { role: "status" }, `Translates ${file.name} …`));
  try {
    const fields = { model: model.name, ...(model.sentences ? { sentences: model.sentences } : {}) };
    const { content, counts } = await uploadForFile("document", file, file.name, fields);
    const name = file.name.replace(/(\.[^.]+)$/, `.${model.target_language ?? model.name}$1`);
    const download = button(`Save ${name}`, () => save(content, name), { className: "main" });
    place.replaceChildren(element("p", { role: "status" }, `${file.name} is ready: ${counts.replace("unit", "text")}.`), download, " ", button("Close", () => { place.hidden = true; }));
    download.focus();
  } catch (error) {
    place.replaceChildren(element("p", { className: "problem", role: "alert" }, `${file.name}: ${error.message}`));
  }
}

// The picture of a file: an image itself, or the spectrum of a sound.
export async function pictureOf(file, reads) {
  if (reads === "sound") return (await spectrum(file)) ?? element("p", { className: "help" }, "This browser cannot draw the recording.");
  const image = element("img", { alt: "the picture that the model reads", src: URL.createObjectURL(file) });
  await image.decode().catch(() => null);
  return image;
}
