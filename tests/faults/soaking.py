"""What ``scripts/soak`` does in turns, and what it counts."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forks import KILLED, Commands
from loads import WRONG, Load
from strangers import KEPT, Format, damaged, formats

from transduce import api, load
from transduce.core.errors import BusyError, UserError
from transduce.wings.serving.request_queue import RequestQueue

TINY: dict[str, Any] = {
    "data.origin": {"type": "reverse", "pairs": 200, "longest": 5},
    "model.encoder.embedding_width": 8,
    "model.encoder.width": 6,
    "model.decoder.embedding_width": 8,
    "model.decoder.width": 12,
    "training.steps": 40,
    "training.batching": {"tokens": 96},
    "training.precision": "float32",
    "training.checkpoint_every": 3,
    "training.average": 2,
    "training.validation.every": 6,
    "training.validation.examples": 4,
    "training.validation.search": {"type": "greedy", "max_length": 6},
    "search": {"type": "beam", "size": 2, "max_length": 6},
}
TURN = 200  # inputs of a format at a time
ORDERED = 2_000  # requests of a turn of load
TIMED = (".json", ".jsonl", ".toml", ".sha256", ".lock", ".npy", ".txt", ".csv", ".md", ".html", ".png")
"""Files with seconds, and logs and caches. The others must be the same after a kill."""
KILLS = 10  # of one command, until it may end


class Soak:
    """Counts inputs, kills and requests, and keeps what failed."""

    def __init__(self, seed: int) -> None:
        self.draw, self.seed = random.Random(seed), seed
        self.folder = Path(tempfile.mkdtemp(prefix="soak-"))
        self.forks, self.turn = Commands(self.folder), 0
        self.peace = dict[str, tuple[float, dict[str, str]]]()  # the seconds and the result of a command without kills
        self._load: Load | None = None
        self.counts, self.failed = Counter[str](), list[str]()
        self.began, self.memory = time.monotonic(), list[float]()
        self.trained = self.folder / "run"
        settings = TINY | {"data.cache": str(self.folder / "cache")}
        api.train("reverse", self.trained, settings, device="cpu", threads=1, progress=False)
        self.formats: Mapping[str, Format] = {}
        self.commands = self._commands(settings)

    def run(self, until: float, kinds: Sequence[str]) -> None:
        turns = {"input": self.input, "kills": self.kill, "load": self.load}
        while time.monotonic() < until:
            for kind in kinds:
                turns[kind]()
            self.memory.append(_memory())

    def record(self) -> str:
        """The figures as JSON."""
        told = {
            "command": " ".join(["scripts/soak", *sys.argv[1:]]),
            "commit": _commit(),
            "date": time.strftime("%Y-%m-%d"),
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            "processor minutes": round(sum(os.times()[:4]) / 60, 1),
            "counts": dict(sorted(self.counts.items())),
            "seed": self.seed,
            "MiB after a tenth of the turns, two tenths, ...": self._memory_of_tenths(),
            "failures": self.failed,
        }
        return json.dumps(told, indent=1, ensure_ascii=False)

    def _memory_of_tenths(self) -> list[int]:
        return [round(self.memory[(len(self.memory) * tenth - 1) // 10]) for tenth in range(1, 11) if self.memory]

    # ------------------------------------------------------------------ input

    def input(self) -> None:
        """Some bad inputs of every format. An input that fails is made smaller before it is kept."""
        self.formats = self.formats or formats(self.folder, self.trained)
        for name, form in self.formats.items():
            for _ in range(TURN // 10 if name in ("http", "pack", "picture") else TURN):
                content = damaged(form.seeds, self.draw)
                self.counts[f"inputs: {name}"] += 1
                self.counts["inputs"] += 1
                if (reason := form.failure(content)) is not None:
                    self._keep(name, form, content, reason)

    def _keep(self, name: str, form: Format, content: bytes, reason: str) -> None:
        told = f"{name}: {reason}"
        self.counts["failing inputs"] += 1
        if told in self.failed:
            return
        self.failed.append(told)
        small = content if "seconds" in reason else shrunk(form, content, reason)
        KEPT.mkdir(exist_ok=True)
        path = KEPT / f"{name}-{hashlib.sha256(small).hexdigest()[:8]}"
        path.write_bytes(small)
        print(f"{told}\n  kept as {path.name}: {small[:200]!r}", file=sys.stderr, flush=True)

    # ------------------------------------------------------------------ kills

    def _commands(self, settings: dict[str, Any]) -> dict[str, list[str]]:
        sets = [f"--set={key}={json.dumps(value).replace(': ', ' = ')}" for key, value in settings.items()]
        sets = [each.replace('{"', "{").replace('" =', " =").replace(', "', ", ") for each in sets]
        text = self.folder / "sources.txt"
        text.write_text("".join(f"{'abcab'[: n % 5]}\n" for n in range(400)), encoding="utf-8")
        table = self.folder / "pairs.tsv"
        pairs = [f"{a}{b}{c}\t{a} {b} {c}\n" for a in "abcdef" for b in "abcdef" for c in "abc"]
        table.write_text("".join(self.draw.sample(pairs, len(pairs))), encoding="utf-8")
        run, out, plain = str(self.trained), str(self.folder / "out"), ["--device=cpu", "--threads=1"]
        return {
            "train": ["train", "reverse", f"--out={out}", "--resume", *plain, *sets],
            "predict": ["predict", run, str(text), f"--out={out}", "--resume", "--window=16", *plain],
            "pack": ["pack", run, f"--out={out}.zip", "--evaluate=none"],
            "native": ["export", run, "--to=native", f"--out={out}"],
            "engine": ["export", run, "--to=engine", f"--out={out}.engine"],
            "sweep": ["sweep", "reverse", "--vary=training.clip=1.0,2.0", "--seeds=1", f"--out={out}", *plain, *sets],
            "fit": ["fit", str(table), "--candidates=g2p-joint", f"--out={out}", *plain],
        }  # fmt: skip

    def kill(self) -> None:
        """Kills one command again and again, until it comes to its end. Its result must be that of one in peace."""
        self.turn += 1
        name = list(self.commands)[self.turn % len(self.commands)]
        if name not in self.peace:
            self._clear()
            ended = self.forks.run(self.commands[name])
            if ended.status:
                raise RuntimeError(f"{name} fails in peace: {ended.told}")
            self.peace[name] = ended.seconds, self._result()
        seconds, expected = self.peace[name]
        self._clear()
        for _ in range(KILLS):
            ended = self.forks.run(self.commands[name], self.draw.uniform(0.0, 1.05) * seconds)
            if ended.status != KILLED:
                break
            self.counts[f"kills: {name}"] += 1
            self.counts["kills"] += 1
        else:
            ended = self.forks.run(self.commands[name])
        self.counts["commands that ended after kills"] += 1
        complete = name == "predict" and ended.status == 2 and not (self.folder / "out.partial").exists()
        if self._result() != expected or (ended.status and not complete):
            self.failed.append(f"{name}: other files after kills (seed {self.seed}): {ended.status} {ended.told!r}")

    def _clear(self) -> None:
        for pattern in ("out*", ".out*"):
            for path in self.folder.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _result(self) -> dict[str, str]:
        """The digest of each file that a command has made, without logs and times."""
        found = [path for path in self.folder.rglob("*") if path.relative_to(self.folder).parts[0].startswith("out")]
        kept = [path for path in found if path.is_file() and path.suffix not in TIMED]
        kept = [path for path in kept if "tensorboard" not in path.parts]
        return {str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}

    # ------------------------------------------------------------------ load

    def load(self) -> None:
        """Requests of some clients at a scheduler, with cancels, deadlines and batches that fail."""
        load, ordered = self._loaded(), []
        with RequestQueue(load.work, batch_size=64, queue=ORDERED) as scheduler:
            for number in range(ORDERED):
                request = self.draw.choice(load.requests)
                seconds = self.draw.choice([None, None, None, 0.001, 60.0])
                try:
                    future = scheduler.submit(request, seconds, client=number % 7)
                except BusyError:
                    self.counts["requests: the queue was full"] += 1
                    continue
                except UserError:
                    self.counts["requests: refused at once"] += 1
                    continue
                cancelled = self.draw.random() < 0.1 and future.cancel()
                ordered.append((request, future, seconds, cancelled))
        for request, future, seconds, cancelled in ordered:
            self.counts["requests"] += 1
            what = load.outcome(request, future, seconds, cancelled)
            self.counts[f"requests: {what}"] += 1
            if what in WRONG:
                self.failed.append(f"load: {what}: {request} (seed {self.seed})")

    def _loaded(self) -> Load:
        if self._load is None:
            self._load = Load(load(self.trained, device="cpu"), self.draw)
        return self._load


def shrunk(form: Format, content: bytes, reason: str) -> bytes:
    """The content without the parts that the failure does not need."""
    size = max(1, len(content) // 2)
    while size:
        for place in range(0, len(content), size):
            shorter = content[:place] + content[place + size :]
            if form.failure(shorter) == reason:
                content = shorter
                break
        else:
            size //= 2
    return content


def _memory() -> float:
    """The resident memory of this process now, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _commit() -> str:
    """The commit of the code, with "-dirty" if it is not as committed; nothing outside of a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
