"""Prepares more pairs than memory should hold, trains on them, and measures the memory over time.

Makes pairs of 20 words in ten TSV shards (about 2.3 GB for 10 million pairs, kept in FOLDER). One program then prepares
them (counts lines, learns BPE, encodes in ``--processes`` worker processes), and another trains a small Transformer for
``--steps`` updates. A thread of this program adds up their memory four times a second.

Memory is the proportional set size: the private memory of the processes of a part, plus their shares of the memory that
they have in common. Pages of mapped files count too, but the system takes them back when it needs memory. So the table
and the picture also have the memory without them. The time of a part does not include making the pairs.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from report import Report, titled

from transduce.data.preparation import prepare
from transduce.training.settings import read_settings
from transduce.wings.pages.plots import figure, save

LENGTH, WORDS, SHARDS, BLOCK = 20, 20_000, 10, 20_000  # words a sentence, words of the language, files, pairs a block
LAYER = {"type": "transformer", "positions": "sinusoidal", "width": 64, "layers": 1, "heads": 4, "feedforward": 256}
EVERY = 0.25  # seconds between two measurements of the memory
MIB = 1024.0  # KiB
LIMIT = 2048.0  # MiB


def main(
    report: Report,
    *,
    work: Path,
    pairs: int = 1_000_000,
    processes: Annotated[int, "that prepare"] = 2,
    steps: Annotated[int, "updates"] = 300,
    picture: Path | None = None,
) -> None:
    write_pairs(work / "pairs", pairs)
    (work / "settings.json").write_text(json.dumps(settings(work, processes, steps)), encoding="utf-8")
    parts = [measured(name, work) for name in ("prepare", "train")]
    report.tell(*titled(f"{pairs:,} pairs of {LENGTH} words"), *table(parts))
    if picture is not None:
        draw(parts, picture)


# ----------------------------------------------------------------------- pairs


def write_pairs(folder: Path, pairs: int) -> None:
    """Writes the shards, unless they are there. A target has the words of its source in reverse, spelled otherwise."""
    if (folder / f"{pairs}.done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    syllables = np.array([a + b for a in "bdfgklmnprstvz" for b in "aeiou"])
    spelled = np.array(["".join(draw.choice(syllables, draw.integers(1, 5))) for _ in range(WORDS)])
    others = np.array([f"{word[::-1]}{word[:1]}" for word in spelled])
    share = 1 / np.arange(10, WORDS + 10)
    cumulated = np.cumsum(share / share.sum())
    for shard in range(SHARDS):
        with (folder / f"{shard}.tsv").open("w", encoding="utf-8") as file:
            for first in range(shard * pairs // SHARDS, (shard + 1) * pairs // SHARDS, BLOCK):
                count = min(BLOCK, (shard + 1) * pairs // SHARDS - first)
                ids = np.searchsorted(cumulated, draw.random((count, LENGTH))).clip(max=WORDS - 1)
                sources, targets = spelled[ids].tolist(), others[ids[:, ::-1]].tolist()
                lines = (f"{' '.join(s)}\t{' '.join(t)}\n" for s, t in zip(sources, targets, strict=True))
                file.writelines(lines)
    (folder / f"{pairs}.done").touch()


def settings(work: Path, processes: int, steps: int) -> dict[str, Any]:
    """The settings of a run with a Transformer of one layer, without validation."""
    return {
        "data": {
            "train": {"path": str(work / "pairs" / "*.tsv")},
            "units": {"joint": {"type": "bpe", "size": 8000}, "sample": 100_000},
            "cache": str(work / "cache"),
            "processes": processes,
        },
        "model": {
            "type": "encoder-decoder",
            "tie": "all",
            "encoder": LAYER,
            "decoder": LAYER,
        },
        "training": {"steps": steps, "batching": {"tokens": 4096}, "validation": {"times": 0}},
    }


def run_part(part: str, work: Path) -> None:
    """Prepares the data or trains, in the program that is measured."""
    table = json.loads((work / "settings.json").read_text(encoding="utf-8"))
    if part == "prepare":
        settings = read_settings(table)
        assert settings.data.cache is not None
        print(f"{len(prepare(settings.data, settings.data.cache).train):,} pairs")
        return
    from transduce.core.config.user_data import Merged
    from transduce.training.begin import train
    from transduce.training.job import Job

    finished = train(Job(work / "run", Merged(table), overwrite=True))
    print(f"{finished.step} updates")


# ---------------------------------------------------------------------- memory


@dataclass
class Part:
    """The seconds of a program, its processor seconds, and ``looks`` at its memory: second, MiB, MiB without files."""

    name: str
    seconds: float = 0.0
    processor: float = 0.0
    looks: list[tuple[float, float, float]] = field(default_factory=list)


def measured(name: str, work: Path) -> Part:
    """Runs a part as its own program, and measures the memory of it and of its workers."""
    part, began, before = Part(name), time.perf_counter(), children_seconds()
    program = get_context("spawn").Process(target=run_part, args=(name, work))
    program.start()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(EVERY):
            sizes = [size for pid in tree(program.pid or 0) if (size := memory(pid)) is not None]
            part.looks.append((time.perf_counter() - began, sum(s[0] for s in sizes), sum(s[1] for s in sizes)))

    watch = threading.Thread(target=look)
    watch.start()
    program.join()
    part.seconds, part.processor = time.perf_counter() - began, children_seconds() - before
    ended.set()
    watch.join()
    if program.exitcode:
        raise SystemExit(f"the part {name} has failed")
    return part


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:  # it has ended
            continue
    return found


def memory(pid: int) -> tuple[float, float] | None:
    """The proportional set size of a process, and the part of it without mapped files, in MiB. None if the system does
    not tell it, for example because the process has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    sizes = {line.split(":")[0]: float(line.split()[1]) / MIB for line in lines[1:]}
    return (sizes["Pss"], sizes["Pss_Anon"]) if "Pss" in sizes else None


def children_seconds() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(parts: list[Part]) -> list[str]:
    rows = [
        f"| {part.name} | {part.seconds:.0f} | {part.processor:.0f} | {max(look[1] for look in part.looks):.0f} | "
        f"{max(look[2] for look in part.looks):.0f} |"
        for part in parts
    ]
    head = "| part | seconds | processor seconds | peak, MiB | peak without mapped files, MiB |"
    return [head, "|---|---|---|---|---|", *rows, ""]


def draw(parts: list[Part], path: Path) -> None:
    """Memory over time, one part after the other, with the limit of 2 GiB."""
    drawn = figure(7, 3.2)
    axes = drawn.subplots()
    begin = 0.0
    for part in parts:
        seconds = [begin + look[0] for look in part.looks]
        axes.plot(seconds, [look[1] for look in part.looks], color="#1f6f8b", lw=1.2)
        axes.plot(seconds, [look[2] for look in part.looks], color="#c8553d", lw=1.2)
        axes.axvline(begin, color="#999999", lw=0.8, ls=":")
        axes.text(begin, LIMIT * 1.02, f" {part.name}", va="bottom", fontsize=8)
        begin += part.seconds
    axes.axhline(LIMIT, color="#333333", lw=0.8)
    axes.plot([], [], color="#1f6f8b", label="all memory of all processes")
    axes.plot([], [], color="#c8553d", label="without mapped files")
    axes.set(xlabel="seconds", ylabel="MiB", ylim=(0, LIMIT * 1.12), xlim=(0, begin))
    axes.legend(loc="center right", fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(drawn, path)
