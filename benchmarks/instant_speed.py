"""How much faster is it to write all characters at once than one after another? The task is to restore accents.

Compares three models on the data of the recipe ``accents``. They are the recipe's tagger, the same encoder with an LSTM
decoder with attention, and a Transformer with two layers on either side. Quality does not matter here, so each model
trains for a single update. The filter ``length`` forces each output to have as many characters as its source, like
every right answer. So every model writes the same number of characters, and takes the time of a trained model. The
autoregressive models search greedily, which is their fastest search. The sentences are the first ones of test.

Seconds are processor time. The models take turns, and the speed is the median of the rounds. The column "times" is the
tagger's speed divided by the model's: the median over the rounds, the smallest and the largest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from report import Report, columns, titled

import transduce
from transduce.runs.run import Run

GREEDY = '{type="greedy", max_length=400, filters=[{type="length", minimum_ratio=1.0, maximum_ratio=1.0}]}'
AUTOREGRESSIVE = ['objective={type="cross-entropy"}', f"search={GREEDY}", "training.validation.search=greedy"]
WIRING = 'wiring={type="luong", attention={type="global", energy="general"}}'
ENCODER = 'encoder={type="recurrent", cell="lstm", embedding_width=48, width=160, layers=2}'
DECODER = (
    f'decoder={{type="recurrent", cell="lstm", bridge="linear", embedding_width=48, width=160, layers=1, {WIRING}}}'
)
TRANSFORMER = '{type="transformer", positions="sinusoidal", width=160, heads=4, layers=2, feedforward=640}'
MODELS = {
    "tagger, all at once": list[str](),
    "LSTM with attention": [*AUTOREGRESSIVE, f'model={{type="encoder-decoder", {ENCODER}, {DECODER}}}'],
    "Transformer": [
        *AUTOREGRESSIVE,
        f'model={{type="encoder-decoder", encoder={TRANSFORMER}, decoder={TRANSFORMER}}}',
    ],
}


def prepared(name: str, runs: Path, folder: str | None, threads: int) -> transduce.Transducer:
    """The model after one update. Trains the run first if it is not finished."""
    settings = [*MODELS[name], "training.steps=1", "training.validation.examples=8", "training.precision=float32"]
    if folder is not None:
        settings.append(f"data.origin.folder={folder}")
    run = runs / name.split(",")[0].replace(" ", "-").lower()
    return transduce.train("accents", run, settings, resume=True, device="cpu", threads=threads, progress=False)


def seconds(transducer: transduce.Transducer, sources: Sequence[str], batch: int) -> float:
    began = time.process_time()
    lengths = [len(found[0].tokens) - 1 for found in transducer.predict(sources, batch_size=batch)]
    taken = time.process_time() - began
    if lengths != [*map(len, sources)]:
        raise ValueError("an output does not have its source's length, so the speeds cannot be compared")
    return taken


def main(
    report: Report,
    *,
    runs: Path,
    folder: str | None = None,
    sentences: int = 200,
    rounds: int = 5,
    batches: Sequence[int] = (64, 1),
) -> None:
    models = {name: prepared(name, runs, folder, report.threads) for name in MODELS}
    paths = [path.parent for path in sorted(runs.glob("*/config.toml"))]
    sources = [example.source for example in Run.open(paths[0]).examples("test")][:sentences]
    report.tell(*titled("Accents at once, and one after another"))
    report.tell(*columns("| model | parameters | batch | sentences a second | times |"), runs=paths)
    for batch in batches:
        taken = {name: list[float]() for name in models}
        for transducer in models.values():
            seconds(transducer, sources[:batch], batch)  # the first call is slower
        for _ in range(rounds):
            for name, transducer in models.items():
                taken[name].append(seconds(transducer, sources, batch))
        instant = taken[next(iter(models))]
        for name, transducer in models.items():
            times = [own / ours for own, ours in zip(taken[name], instant, strict=True)]
            share = f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"
            size = sum(parameter.numel() for parameter in transducer.model.parameters())
            speed = len(sources) / statistics.median(taken[name])
            report.tell(f"| {name} | {size:,} | {batch} | {speed:,.0f} | {share} |")
