"""Minutes to quality of a plain Hugging Face loop, on the data and the batches of the speedrun's track ``translation``.

    pip install -e '.[benchmarks]'
    python benchmarks plain_loop --data DATA --ours RUN RUN

MarianMTModel has 3 + 3 layers, width 256, and the usual settings for a small Transformer: AdamW, a warm-up, then a
linear decay to zero, dropout 0.1, label smoothing 0.1, a gradient norm of at most 1. Each of three rates has the same
number of updates. The best one is chosen by its BLEU on validation, and only it translates the test. Sources are
translated in batches of 64 by ``generate`` with a beam of 5. ``--ours`` are runs of the same data, such as the
speedrun's; they are measured with the search that they ship with. Minutes are of the processor: theirs of the updates
alone, ours with validations.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import torch
from peers.programs import marian
from peers.sizes import LONGEST
from report import Report, columns, titled
from speedrun import TRACKS, settings_of, spent
from training_speed import batches

import transduce
from transduce.core import config, recipes
from transduce.core.types import Example, Prediction
from transduce.data.preparation import Prepared, examples, prepare
from transduce.data.settings import Data
from transduce.metrics.base import metric
from transduce.metrics.statistics import statistics
from transduce.runs.run import Run

PRECISIONS = ("float32", "bfloat16")
WARMUP, GROUP = 100, 64  # updates; sentences that are translated together


def main(
    report: Report,
    *,
    data: Path,
    updates: int = 1300,
    rates: Sequence[float] = (5e-4, 1e-3, 2e-3),
    precision: Annotated[str, PRECISIONS] = "bfloat16",
    seed: int = 1,
    ours: Annotated[Sequence[Path], "runs of the same data"] = (),
) -> None:
    torch.set_num_threads(report.threads)
    report.tell(*titled("Minutes to quality: a plain loop"))
    report.tell(*columns("| | rate | updates | minutes | BLEU on validation | on test |"))
    with tempfile.TemporaryDirectory() as work:
        settings = config.build(_table(data)["data"], Data, path="data")
        prepared = prepare(settings, Path(work))
        valid, test = (examples(settings, split, Path(work)) for split in ("valid", "test"))
        found: list[tuple[float, Any, list[str]]] = []
        for rate in rates:
            torch.manual_seed(seed)
            model, began = marian.new_model(prepared.facts.target_vocabulary), time.process_time()
            pairs = ((batch.source.values, batch.target.values) for batch in islice(batches(prepared, seed), updates))
            for _ in marian.updates(model, pairs, precision, marian.Plan(rate, WARMUP, updates)):
                pass
            minutes = (time.process_time() - began) / 60 / report.threads
            score = bleu(translated(model, prepared, valid), valid)
            cells = [f"Hugging Face, {precision}", f"{rate:g}", f"{updates:,}", f"{minutes:.1f}", f"{score:.2f}"]
            found.append((score, model, cells))
            report.tell(f"| {' | '.join(cells)} | |")
        _, model, cells = max(found, key=lambda each: each[0])
        report.tell(f"| {' | '.join(cells)} | {bleu(translated(model, prepared, test), test):.2f} |")
    for run in ours:
        steps, minutes = spent(run)
        scores = [our_bleu(run, split) for split in ("valid", "test")]
        name = f"transduce, `{run.name}`"
        told = " | ".join(f"{score:.2f}" for score in scores)
        report.tell(f"| {name} | | {steps:,} | {minutes:.1f} | {told} |", runs=[run])


def _table(data: Path) -> config.Table:
    """The recipe of the track, with its data."""
    track = TRACKS["translation-transformer"]
    return config.change(recipes.read(track.recipe), settings_of(track, "now", data.resolve(), []))


def translated(model: Any, prepared: Prepared, sources: Sequence[Example]) -> list[Prediction]:
    """The outputs of ``generate``, in the order of the sources."""
    model.eval()
    rows = prepared.source_tokenizer.encode([each.source for each in sources])
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    found = [Prediction("")] * len(rows)
    for first in range(0, len(order), GROUP):
        group = order[first : first + GROUP]
        source = marian.padded([[*map(int, rows[row])] for row in group])
        with torch.inference_mode():
            outputs = model.generate(
                source,
                attention_mask=(source != marian.PAD).long(),
                num_beams=5,
                do_sample=False,
                max_new_tokens=LONGEST,
            )
        for row, ids in zip(group, outputs.tolist(), strict=True):
            words = [each for each in ids if each not in (marian.PAD, marian.BOS, marian.EOS)]
            found[row] = Prediction(prepared.target_tokenizer.decode(words))
    return found


def bleu(outputs: Sequence[Prediction], references: Sequence[Example]) -> float:
    return statistics([metric("bleu")], outputs, references)[0].score


def our_bleu(run: Path, split: str) -> float:
    model = transduce.load(run, device="cpu")
    return model.evaluate(Run.open(run).examples(split), [metric("bleu")]).statistics[0].score
