"""How fast is the engine in WebAssembly beside the native engine and onnxruntime-web, and are its outputs equal?

Each run is written as a file of the engine. Its first test sources are the lines. Needs Node. Each round runs every
engine once, in turn, on the same core. A figure is the median of the rounds: lines in a second of the processor's time,
all lines in batches of 8 sources. Before it, the engine answers all lines once. The ratio is to WebAssembly in the same
way of working.

The page of the run (`transduce export RUN --to web --single`) answers the same lines in headless Chromium. Its outputs
are compared with the native engine's, and its requests are counted. The files of recordings and pictures are chosen one
after another there; the other engines get samples and pixels in memory.

FOLDER has the npm package onnxruntime-web (`npm install --prefix FOLDER onnxruntime-web`). It gets graphs of the run in
the same precision, ids of tokens, and a loop of greedy search, one line after another. This is for recurrent decoders.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from report import Report, columns, titled

import transduce_engine
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS
from transduce.runs.run import Run
from transduce.wings.engines import web
from transduce_engine.library import built
from transduce_engine.signals import read_picture, read_recording

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MODULE = (Path(web.__file__).parent / "transduce.mjs").as_uri()
BEST = "[...document.querySelectorAll('#outputs section')].map(part => part.querySelector('li p').firstChild.data)"
Timed = tuple[float, list[list[Any]]]  # seconds of the processor, and each line's outputs or ids

NATIVE = """
import json, sys, time
from array import array
from pathlib import Path
from transduce_engine import Picture, Recording, library, load
def source(given):
    if isinstance(given, str):
        return given
    if "samples" in given:
        return Recording(memoryview(array("h", given["samples"])).cast("B").cast("h", given["shape"]), given["rate"])
    return Picture(memoryview(bytes(given["pixels"])).cast("B", given["shape"]))
library.library.cache_clear()
library.built = lambda folder=None, own=library.built: {"_portable": own()[sys.argv[3]]}
engine, lines = load(sys.argv[1]), [source(each) for each in json.loads(Path(sys.argv[2]).read_text())]
engine(lines)
start = time.process_time()
found = engine.answer(lines)
took = time.process_time() - start
print(json.dumps([took, [[each.text for each in answer.outputs] for answer in found]]))
"""
NODE = """
const { load } = await import(process.argv[3]);
const { readFileSync } = await import("node:fs");
const typed = { pixels: Uint8Array, samples: Int16Array };
const inMemory = ([name, value]) => [name, typed[name]?.from(value) ?? value];
const source = (given) => typeof given === "string" ? given : Object.fromEntries(Object.entries(given).map(inMemory));
const model = await load(process.argv[1]);
const lines = JSON.parse(readFileSync(process.argv[2], "utf8")).map(source);
model(lines);
const start = process.cpuUsage();
const found = model.answer(lines);
const took = process.cpuUsage(start);
const texts = found.map(({ outputs }) => outputs.map((each) => each.text));
console.log(JSON.stringify([(took.user + took.system) / 1e6, texts]));
"""
ONE_BY_ONE = NODE.replace("model.answer(lines)", "lines.map((line) => model.answer([line], { beam: 1 })[0])")
ONNXRUNTIME = """
const [folder, file, runtime] = process.argv.slice(1);
const ort = await import(runtime);
const { readFileSync } = await import("node:fs");
ort.env.wasm.numThreads = 1;
const open = (name) => ort.InferenceSession.create(readFileSync(`${folder}/${name}.onnx`));
const [start, step] = [await open("start"), await open("step")];
const { changing } = JSON.parse(readFileSync(`${folder}/export.json`, "utf8")).graphs.step;
const { sources, begin, end, most } = JSON.parse(readFileSync(file, "utf8"));
const long = (ids, shape) => new ort.Tensor("int64", BigInt64Array.from(ids.map(BigInt)), shape);
const beside = (own) => new ort.Tensor(own.type, own.data, [1, ...own.dims]);
async function greedy(ids) {
  const given = [long(ids, [1, ids.length]), long([ids.length], [1])];
  const made = await start.run(Object.fromEntries(start.inputNames.map((name, place) => [name, given[place]])));
  const leaves = start.outputNames.map((name) => made[name]);
  for (const place of changing) leaves[place] = beside(leaves[place]);
  const written = [];
  for (let token = begin; written.length < most;) {
    const all = [long([token], [1, 1]), ...leaves];
    const after = await step.run(Object.fromEntries(step.inputNames.map((name, place) => [name, all[place]])));
    const [logits, ...changed] = step.outputNames.map((name) => after[name]);
    changing.forEach((place, number) => { leaves[place] = changed[number]; });
    token = logits.data.reduce((best, value, id, every) => value > every[best] ? id : best, 0);
    if (token === end) break;
    written.push(token);
  }
  return written;
}
async function all() {
  const found = [];
  for (const ids of sources) found.push(await greedy(ids));
  return found;
}
await all();
const began = process.cpuUsage();
const found = await all();
const took = process.cpuUsage(began);
console.log(JSON.stringify([(took.user + took.system) / 1e6, found]));
process.exit(0);
"""


def timed(core: str, command: Sequence[str]) -> Timed:
    done = subprocess.run(["taskset", "-c", core, *command], check=True, capture_output=True, text=True)
    took, outputs = json.loads(done.stdout)
    return took, outputs


def turns(ways: dict[str, list[str]], rounds: int, core: str) -> dict[str, list[Timed]]:
    done = {name: list[Timed]() for name in ways}
    for _ in range(rounds):
        for name, command in ways.items():
            done[name].append(timed(core, command))
    return done


def speeds(name: str, done: dict[str, list[Timed]], beside: str, lines: int) -> list[str]:
    """The rows of a table: each engine's lines a second, the ratio to the engine ``beside``, and equal outputs."""
    rows = []
    for way, own in done.items():
        ratio = statistics.median(other / took for (took, _), (other, _) in zip(own, done[beside], strict=True))
        equal = sum(a == b for a, b in zip(own[0][1], done[beside][0][1], strict=True))
        speed = lines / statistics.median(took for took, _ in own)
        rows.append(f"| {name} | {way} | {speed:.0f} | {ratio:.2f} | {equal} of {lines} |")
    return rows


def in_a_page(browser: Browser, page: Path, lines: list[str], signals: bool) -> tuple[list[str], int]:
    """The page's best outputs, and the number of its requests that are for another address. ``lines`` are the paths of
    ``signals``, or texts.
    """
    asked = list[str]()
    opened = browser.new_page()
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    opened.wait_for_selector("#status :text('ready')", timeout=120_000)
    found = list[str]()
    for some in [[line] for line in lines] if signals else [lines]:
        opened.evaluate("document.getElementById('status').textContent = ''")
        if signals:
            opened.set_input_files("#file-of-signal", some[0])
        else:
            opened.fill("#text", "\n".join(some))
            opened.select_option("#count", "1")
            opened.press("#text", "Enter")
        opened.wait_for_selector("#status :text('Answered in')", timeout=600_000)
        found += opened.evaluate(BEST)
    opened.close()
    return found, sum(not address.startswith(("blob:", page.as_uri())) for address in asked)


def in_memory(engine: transduce_engine.Engine, source: str) -> str | dict[str, object]:
    """A text, or the samples or the pixels of a file."""
    if engine.signal is None:
        return source
    if engine.signal["type"] == "sound":
        found = read_recording(Path(source))
        samples: Any = memoryview(found.samples)
        numbers = [each for moment in samples.tolist() for each in moment]
        return {"samples": numbers, "rate": found.rate, "channels": samples.shape[1], "shape": samples.shape}
    pixels: Any = memoryview(read_picture(Path(source)).pixels)
    channels = 1 if pixels.ndim == 2 else 3
    size = {"width": pixels.shape[1], "height": pixels.shape[0], "channels": channels}
    return {"pixels": list(pixels.tobytes()), "shape": pixels.shape, **size}


def export(run: Path, to: str, precision: str, out: Path, *more: str) -> Path:
    command = [sys.executable, "-m", "transduce", "export", str(run), "--to", to, "--precision", precision]
    subprocess.run([*command, "--out", str(out), *more], check=True, capture_output=True)
    return out


def node(code: str, *arguments: object) -> list[str]:
    return ["node", "--input-type=module", "-e", code, "--", *map(str, arguments)]


@dataclass(frozen=True)
class Compared:
    """A run whose engine is compared in all ways with the same ``texts``. ``folder`` is empty at first. ``turns`` times
    each of several commands.
    """

    run: Path
    texts: list[str]
    precision: str
    folder: Path
    turns: Callable[[dict[str, list[str]]], dict[str, list[Timed]]]

    @cached_property
    def file(self) -> Path:
        return export(self.run, "engine", self.precision, self.folder / "run.engine")

    @cached_property
    def engine(self) -> transduce_engine.Engine:
        return transduce_engine.load(self.file)

    @cached_property
    def lines(self) -> Path:
        path = self.folder / "lines.json"
        path.write_text(json.dumps([in_memory(self.engine, text) for text in self.texts]))
        return path

    def speeds(self, onnxruntime_web: Path | None) -> list[str]:
        """The rows of the first table."""
        ways = {name: [sys.executable, "-c", NATIVE, str(self.file), str(self.lines), name] for name in built()}
        ways["WebAssembly"] = node(NODE, self.file, self.lines, MODULE)
        rows = speeds(self.run.name, self.turns(ways), "WebAssembly", len(self.texts))
        return rows if onnxruntime_web is None else [*rows, *self.beside_onnxruntime(onnxruntime_web)]

    def beside_onnxruntime(self, installed: Path) -> list[str]:
        """The rows of greedy search, one line after another, by onnxruntime-web and by the engine."""
        try:
            graphs = export(self.run, "onnx", self.precision, self.folder / "onnx")
        except subprocess.CalledProcessError as error:
            return [
                f"| {self.run.name} | onnxruntime-web | refused: {error.stderr.decode().splitlines()[-1]} | – | – |"
            ]
        if "step" not in json.loads((graphs / "export.json").read_text())["graphs"]:
            return [f"| {self.run.name} | onnxruntime-web | its graphs have no step of a search | – | – |"]
        tokenizers, ids = Run.open(self.run).tokenizers, self.folder / "ids.json"
        given = {"sources": tokenizers.source.encode(self.texts), "begin": BOS, "end": EOS, "most": 100}
        ids.write_text(json.dumps(given))
        runtime = installed.resolve() / "node_modules/onnxruntime-web/dist/ort.wasm.min.mjs"
        theirs, ours = (f"{name}, one line after another" for name in ("onnxruntime-web", "WebAssembly"))
        ways = {theirs: node(ONNXRUNTIME, graphs, ids, runtime.as_uri())}
        done = self.turns({**ways, ours: node(ONE_BY_ONE, self.file, self.lines, MODULE)})
        done[theirs] = [(took, [[tokenizers.target.decode(row)] for row in found]) for took, found in done[theirs]]
        return speeds(self.run.name, done, ours, len(self.texts))

    def page(self, browser: Browser) -> str:
        """The row of the second table."""
        page = export(self.run, "web", self.precision, self.folder / "page.html", "--single")
        found, asked = in_a_page(browser, page, self.texts, self.engine.signal is not None)
        native = [answer.outputs[0].text or "(empty)" for answer in self.engine.answer(self.texts)]
        equal = sum(a == b for a, b in zip(found, native, strict=True))
        return f"| {self.run.name} | {equal} of {len(self.texts)} | {asked} | {page.stat().st_size / 1e6:.1f} |"


def main(
    report: Report,
    runs: Sequence[Path],
    *,
    lines: int = 200,
    rounds: int = 3,
    core: Annotated[str, "of the processor"] = "1",
    precision: Literal["int8", "float32"] = "int8",
    onnxruntime_web: Annotated[Path | None, "a folder where npm has installed it"] = None,
) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise UserError("Chromium was not found: install the system's package chromium")
    from playwright.sync_api import sync_playwright

    report.tell(*titled("The engine in WebAssembly"))
    report.tell(*columns("| run | engine | lines/s | this / WebAssembly | equal outputs |"))
    pages, timed = list[str](), partial(turns, rounds=rounds, core=core)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for run in runs:
            with tempfile.TemporaryDirectory() as folder:
                sources = [str(example.source) for example in Run.open(run).examples("test")[:lines]]
                compared = Compared(run, sources, precision, Path(folder), timed)
                report.tell(*compared.speeds(onnxruntime_web), runs=[run])
                pages.append(compared.page(browser))
    report.tell("", "## The page in Chromium", "")
    report.tell(*columns("| run | outputs equal to the native engine's | requests that leave the page | MB |"), *pages)
