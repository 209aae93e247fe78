"""What ``scripts/soak`` does in turns, and what it counts."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from strangers import KEPT, Format, damaged, formats

from transduce import Request, api, load
from transduce.core.errors import BusyError
from transduce.wings.serving.scheduler import Scheduler

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


class Soak:
    """Counts inputs, kills and requests, and keeps what failed."""

    def __init__(self, seed: int) -> None:
        self.draw, self.seed = random.Random(seed), seed
        self.folder = Path(tempfile.mkdtemp(prefix="soak-"))
        self.counts, self.failed = Counter[str](), list[str]()
        self.began, self.first_memory = time.monotonic(), 0.0
        self.trained = self.folder / "run"
        settings = TINY | {"data.cache": str(self.folder / "cache")}
        api.train("reverse", self.trained, settings, device="cpu", threads=1, progress=False)
        self.formats = formats(self.folder, self.trained)
        self.commands = self._commands(settings)

    def run(self, until: float, kinds: Sequence[str]) -> None:
        turns = {"input": self.input, "kills": self.kill, "load": self.load}
        while time.monotonic() < until:
            for kind in kinds:
                turns[kind]()
            self.first_memory = self.first_memory or _memory()

    def record(self) -> str:
        """The figures as JSON."""
        told = {
            "command": " ".join(["scripts/soak", *sys.argv[1:]]),
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            "processor minutes": round(sum(os.times()[:4]) / 60, 1),
            "counts": dict(sorted(self.counts.items())),
            "MiB after the first turn, at the end": [round(self.first_memory), round(_memory())],
            "failures": self.failed,
        }
        return json.dumps(told, indent=1, ensure_ascii=False)

    # ------------------------------------------------------------------ input

    def input(self) -> None:
        """Some bad inputs of every format. An input that fails is made smaller before it is kept."""
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
        run, out, plain = str(self.trained), str(self.folder / "out"), ["--device=cpu", "--threads=1"]
        return {
            "train": ["train", "reverse", f"--out={out}", "--resume", *plain, *sets],
            "predict": ["predict", run, str(text), f"--out={out}", "--resume", "--window=16", *plain],
            "pack": ["pack", run, f"--out={out}.zip", "--evaluate=none"],
            "native": ["export", run, "--to=native", f"--out={out}"],
            "engine": ["export", run, "--to=engine", f"--out={out}.engine"],
        }  # fmt: skip

    def kill(self) -> None:
        """Kills one command again and again, until it comes to its end. Its result must be that of one in peace."""
        name = self.draw.choice(list(self.commands))
        command = [sys.executable, "-m", "transduce", *self.commands[name]]
        self._clear()
        seconds, peace = self._run(command)
        expected = self._result()
        self._clear()
        for _ in range(3):
            self._run(command, self.draw.uniform(0.3, 1.0) * seconds)
            self.counts[f"kills: {name}"] += 1
            self.counts["kills"] += 1
        _, status = self._run(command)
        complete = name == "predict" and status == 2 and not (self.folder / "out.partial").exists()
        if peace or (status and not complete) or self._result() != expected:
            self.failed.append(f"{name}: other files after kills (status {peace}, {status}, seed {self.seed})")

    def _run(self, command: list[str], kill_after: float | None = None) -> tuple[float, int]:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            status = process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            status = process.wait()
        return time.monotonic() - began, status

    def _clear(self) -> None:
        subprocess.run(
            ["rm", "-rf", *map(str, self.folder.glob("out*")), *map(str, self.folder.glob(".out*"))], check=True
        )

    def _result(self) -> dict[str, str]:
        """The digest of each file that a command has made, without logs and times."""
        found = [path for path in self.folder.rglob("*") if path.relative_to(self.folder).parts[0].startswith("out")]
        kept = [
            path
            for path in found
            if path.is_file() and (path.suffix not in (".json", ".jsonl", ".toml", ".sha256", ".lock"))
        ]
        kept = [path for path in kept if "tensorboard" not in path.parts]
        return {str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}

    # ------------------------------------------------------------------ load

    def load(self) -> None:
        """Requests of some clients at a scheduler, with cancels and deadlines. None is lost or has another answer."""
        model = load(self.trained, device="cpu")
        texts = ["".join(self.draw.choices("abc", k=self.draw.randrange(6))) for _ in range(40)]
        expected = {text: model([text])[0] for text in texts}
        futures = []
        with Scheduler(model, batch_size=16, queue=ORDERED) as scheduler:
            for number in range(ORDERED):
                text = self.draw.choice(texts)
                seconds = self.draw.choice([None, None, None, 0.001, 60.0])
                try:
                    future = scheduler.submit(Request(text), seconds, client=number % 7)
                except BusyError:
                    self.counts["requests: refused"] += 1
                    continue
                cancelled = self.draw.random() < 0.1 and future.cancel()
                futures.append((text, future, seconds, cancelled))
        for text, future, seconds, cancelled in futures:
            self.counts["requests"] += 1
            try:
                right = future.result(0).best.text == expected[text]
            except CancelledError:
                right = cancelled
            except TimeoutError:
                right = future.done() and seconds is not None
            if not right:
                self.failed.append(f"load: a request is lost or has another answer: {text!r} (seed {self.seed})")


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
    """The largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
