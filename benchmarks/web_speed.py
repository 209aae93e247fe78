"""How fast is the engine in WebAssembly beside the native engine with one thread, and are its outputs equal?

    python benchmarks/web_speed.py FILE.engine [...] --lines FILE [--rounds 3] [--core 1]

Needs Node. Each round runs every engine once, in turn, on the same core. A figure is the median of the rounds: lines in
a second of the processor's time, all lines in batches of 8 sources. Before it, the engine answers all lines once.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from report import parser_of

from transduce.wings.engines import web
from transduce_engine.library import built

NATIVE = """
import json, sys, time
from pathlib import Path
from transduce_engine import library, load
library.library.cache_clear()
library.built = lambda folder=None, own=library.built: {"_portable": own()[sys.argv[3]]}
engine, lines = load(sys.argv[1]), Path(sys.argv[2]).read_text().splitlines()
engine(lines)
start = time.process_time()
found = engine.answer(lines)
took = time.process_time() - start
print(json.dumps([took, [[each.text for each in answer.outputs] for answer in found]]))
"""
NODE = """
const { load } = await import(process.argv[3]);
const { readFileSync } = await import("node:fs");
const model = await load(process.argv[1]), lines = readFileSync(process.argv[2], "utf8").trimEnd().split("\\n");
model(lines);
const start = process.cpuUsage();
const found = model.answer(lines);
const took = process.cpuUsage(start);
const texts = found.map(({ outputs }) => outputs.map((each) => each.text));
console.log(JSON.stringify([(took.user + took.system) / 1e6, texts]));
"""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", default="1")
    options = parser.parse_args()
    module = (Path(web.__file__).parent / "transduce.mjs").as_uri()
    count = len(options.lines.read_text().splitlines())
    print("| file | engine | lines/s | WebAssembly / this | equal outputs |\n|---|---|---|---|---|")
    for file in options.files:
        given = [str(file), str(options.lines)]
        ways = {name: [sys.executable, "-c", NATIVE, *given, name] for name in built()}
        ways["WebAssembly"] = ["node", "--input-type=module", "-e", NODE, "--", *given, module]
        done: dict[str, list[Any]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, command in ways.items():
                command = ["taskset", "-c", options.core, *command]
                done[name].append(
                    json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                )
        wasm = done["WebAssembly"]
        for name, rounds in done.items():
            took = statistics.median(own for own, _ in rounds)
            ratio = statistics.median(own / other for (own, _), (other, _) in zip(rounds, wasm, strict=True))
            equal = sum(a == b for a, b in zip(rounds[0][1], wasm[0][1], strict=True))
            print(f"| {file.name} | {name} | {count / took:.0f} | {ratio:.2f} | {equal} of {count} |", flush=True)


if __name__ == "__main__":
    main()
