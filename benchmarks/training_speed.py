"""How fast does a Transformer train, here and in a plain Hugging Face loop on the same batches?

    pip install -e '.[benchmarks]'
    python benchmarks/training_speed.py [--data FOLDER] [--rounds 5] [--seconds 40] [--out FILE.md]
                                        [--record FILE.json]
    python benchmarks/training_speed.py --steps 600 --seeds 1 2 3   # and the validation loss after so many updates

Both have 3 + 3 layers, width 256, 4 heads, feed-forward 1024, dropout 0.1, one tied embedding of 8,000 joint pieces,
and train with label smoothing 0.1, Adam and a gradient norm of at most 1 on the encoded Multi30k pairs (German to
English), batches of max(source, target) * sentences <= 2,048. Ours is ``transduce.training`` as a run uses it; theirs
is MarianMTModel in float32 with what its documentation would have one write. They take turns, each block a process of
its own, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from report import Report, add_options, machine
from stopwatch import Block, Stopwatch, alone

from transduce import api, config, recipes
from transduce.data.batching import Batches, Place
from transduce.data.preparation import Prepared, prepare
from transduce.data.settings import Data
from transduce.search.forcing import shifted
from transduce.training.begin import train
from transduce.training.settings import Training
from transduce.types import BOS, EOS, PAD, Batch

RECIPE = "multi30k-de-en-transformer"
TOKENS, RATE, WARMUP, CLIP, SMOOTHING, DROPOUT = 2048, 1e-3, 400, 1.0, 0.1, 0.1
MARK_EVERY = 10  # updates between looks at the clock
HUGGING_FACE = "Hugging Face, float32"


@dataclass(frozen=True)
class Setting:
    """What every process is told. ``work`` holds the prepared data, encoded once for all of them."""

    data: str
    work: str
    threads: int
    seed: int = 1

    def table(self, **training: Any) -> config.Table:
        """The recipe, with the benchmark's sizes and ``training``."""
        changes = {
            "data.origin.folder": self.data,
            "data.cache": self.work,
            "model.encoder.dropout": DROPOUT,
            "model.decoder.dropout": DROPOUT,
            "objective.smoothing": SMOOTHING,
        }
        fixed = {
            "batching": {"tokens": TOKENS},
            "optimizer": {"type": "adam", "rate": RATE},
            "schedule": {"type": "inverse-sqrt", "warmup": WARMUP},
            "clip": CLIP,
            "seed": self.seed,
            "validation": {"times": 0},  # only the one after the last update
        }
        return api.change(recipes.read(RECIPE), changes) | {"training": fixed | training}

    def prepared(self) -> Prepared:
        return prepare(config.build(self.table(steps=1)["data"], Data, path="data"), Path(self.work))


def batches(prepared: Prepared, seed: int) -> Iterator[Batch]:
    """The batches that a run with this seed trains on, in its order."""
    batching = config.build({"steps": 1, "batching": {"tokens": TOKENS}}, Training).batching
    return (batch for batch, _ in Batches(prepared.train, batching, seed).iterate(Place()))


def target_lengths(setting: Setting) -> Iterator[int]:
    return (int(batch.target.lengths.sum()) for batch in batches(setting.prepared(), setting.seed))


# ------------------------------------------------------------------ the two sides, each in a process of its own


def transduce_block(setting: Setting, precision: str, seconds: float) -> Block:
    return _run(setting, minutes=seconds / 60, precision=precision).block(target_lengths(setting))


def transduce_loss(setting: Setting, precision: str, steps: int) -> float:
    """The validation loss after ``steps`` updates, without smoothing, computed in float32."""
    return _run(setting, steps=steps, precision=precision).validation_loss


def _run(setting: Setting, **training: Any) -> Stopwatch:
    torch.set_num_threads(setting.threads)
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory(dir=setting.work) as run:
        train(setting.table(**training), Path(run) / "run", callbacks=[stopwatch], device="cpu")
    return stopwatch


def hugging_face_block(setting: Setting, seconds: float) -> Block:
    torch.set_num_threads(setting.threads)
    torch.manual_seed(setting.seed)
    prepared = setting.prepared()
    model = marian(prepared.facts.target_vocabulary)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), RATE, (0.9, 0.98), 1e-9)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)
    stopwatch = Stopwatch()
    stopwatch.parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    began = time.perf_counter()
    for step, batch in enumerate(batches(prepared, setting.seed), 1):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(step / WARMUP, (WARMUP / step) ** 0.5)
        source, labels = batch.source, batch.target.values
        output = model(source.values, attention_mask=source.mask.long(), decoder_input_ids=shifted(batch.target))
        loss = criterion(output.logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if step % MARK_EVERY == 0:
            stopwatch.marks.append((step, time.perf_counter()))
            stopwatch.loss = loss.item()
        if time.perf_counter() - began > seconds:
            break
    return stopwatch.block(target_lengths(setting))


def marian(vocabulary: int) -> Any:
    """A MarianMTModel of the benchmark's size, with random weights."""
    try:
        from transformers import MarianConfig, MarianMTModel
    except ImportError as error:
        raise SystemExit(f"{error}: pip install -e '.[benchmarks]'") from error
    side = {"layers": 3, "attention_heads": 4, "ffn_dim": 1024}
    sizes = {f"{coder}_{name}": value for coder in ("encoder", "decoder") for name, value in side.items()}
    return MarianMTModel(
        MarianConfig(
            **sizes,
            vocab_size=vocabulary,
            d_model=256,
            max_position_embeddings=1024,
            activation_function="relu",
            scale_embedding=True,
            dropout=DROPOUT,
            attention_dropout=DROPOUT,
            activation_dropout=DROPOUT,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )
    )


# ------------------------------------------------------------------ what is measured, and how it is told


def throughput(setting: Setting, precisions: list[str], rounds: int, seconds: float) -> dict[str, list[Block]]:
    """In each round a block of theirs and one of ours in each precision, in turn."""
    blocks: dict[str, list[Block]] = {HUGGING_FACE: [], **{f"transduce, {each}": [] for each in precisions}}
    for number in range(rounds):
        blocks[HUGGING_FACE].append(alone(hugging_face_block, setting, seconds))
        for precision in precisions:
            blocks[f"transduce, {precision}"].append(alone(transduce_block, setting, precision, seconds))
        told = "   ".join(f"{side} {found[-1].tokens_per_second:,.0f}" for side, found in blocks.items())
        print(f"round {number + 1}: {told} target tokens/s", flush=True)
    return blocks


def ratios(ours: list[Block], theirs: list[Block]) -> list[float]:
    return [a.tokens_per_second / b.tokens_per_second for a, b in zip(ours, theirs, strict=True)]


def losses(setting: Setting, precisions: list[str], steps: int, seeds: list[int]) -> dict[str, list[float]]:
    """By precision, the validation loss of each seed."""
    found: dict[str, list[float]] = {precision: [] for precision in precisions}
    for seed in seeds:
        for precision in precisions:
            seeded = Setting(setting.data, setting.work, setting.threads, seed)
            found[precision].append(alone(transduce_loss, seeded, precision, steps))
        told = "   ".join(f"{precision} {values[-1]:.4f}" for precision, values in found.items())
        print(f"seed {seed}, {steps} updates: validation loss {told}", flush=True)
    return found


def throughput_lines(blocks: dict[str, list[Block]]) -> list[str]:
    theirs = blocks[HUGGING_FACE]
    lines = [
        "",
        f"## Non-pad target tokens per second (transformers {version('transformers')})",
        "| | parameters | " + " | ".join(f"round {number + 1}" for number in range(len(theirs))) + " | median |",
        "|" + "---|" * (len(theirs) + 3),
    ]
    for side, found in blocks.items():
        speeds = [block.tokens_per_second for block in found]
        cells = " | ".join(f"{speed:,.0f}" for speed in [*speeds, median(speeds)])
        lines.append(f"| {side} | {found[0].parameters:,} | {cells} |")
        if side != HUGGING_FACE:
            pairs = ratios(found, theirs)
            cells = " | ".join(f"{ratio:.2f}" for ratio in pairs)
            lines.append(f"| … times Hugging Face in the same round | | {cells} | **{median(pairs):.2f}** |")
    return lines


def loss_lines(found: dict[str, list[float]], steps: int, seeds: list[int]) -> list[str]:
    lines = [
        "",
        f"## Validation loss a token after {steps} updates (no smoothing, computed in float32)",
        "| | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | spread of seeds |",
        "|" + "---|" * (len(seeds) + 3),
    ]
    for precision, values in found.items():
        cells = " | ".join(f"{value:.4f}" for value in [*values, mean(values), max(values) - min(values)])
        lines.append(f"| {precision} | {cells} |")
    for first, second in pairwise(found):
        difference = mean(found[second]) - mean(found[first])
        lines += ["", f"{second} less {first}, mean of seeds: {difference:+.4f}."]
    return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="Multi30k's raw files (default: multi30k in $TRANSDUCE_DATA)")
    parser.add_argument("--rounds", type=int, default=5, help="0: no throughput, only --steps")
    parser.add_argument("--seconds", type=float, default=40, help="of each block")
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--steps", type=int, help="compare the validation loss after so many updates")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add_options(parser)
    given = parser.parse_args()
    if given.data is None:
        if "TRANSDUCE_DATA" not in os.environ:
            parser.error("no data: give --data FOLDER, or set TRANSDUCE_DATA to the folder that holds multi30k")
        given.data = Path(os.environ["TRANSDUCE_DATA"]) / "multi30k"
    return given


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    lines = ["# Training speed: transduce and a plain Hugging Face loop, Transformer 3 + 3", "", machine()]
    with tempfile.TemporaryDirectory() as work:
        setting = Setting(str(given.data), work, given.threads)
        setting.prepared()  # once, before any clock starts
        if given.rounds:
            blocks = throughput(setting, given.precision, given.rounds, given.seconds)
            lines += throughput_lines(blocks)
        if given.steps:
            by_precision = losses(setting, given.precision, given.steps, given.seeds)
            lines += loss_lines(by_precision, given.steps, given.seeds)
    print("\n" + "\n".join(lines))
    Report.asked(given).write(lines)


if __name__ == "__main__":
    main()
