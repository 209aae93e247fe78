"""Trains, decodes and checks the laws on a GPU: float32, bfloat16, ``torch.compile`` and CUDA graphs.

Without a GPU it ends with status 1 and says that nothing has run. ``--device cpu`` tests the benchmark itself, without
CUDA graphs; its figures say nothing about a GPU.

For each precision, a new run trains for ``--updates`` updates. Then it decodes the first ``--lines`` sources of its
validation split in batches of 64, greedily and with a beam of 5. Then the laws are checked on the device with that run:

- company: a line's output is the same alone and in a batch.
- score: an output's log-probability is the model's own, by teacher forcing.
- chunk: the model gives the same logits if it reads the target in two parts.
- processor: the same run in float32 on the CPU writes the same outputs.

Last, the loss of one batch and its gradient are computed for ``--seconds``: without a compiler, with ``torch.compile``,
and with ``mode="reduce-overhead"``, which records CUDA graphs. If a way fails, its row has the error.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import torch
from report import Report, columns, row, titled

from transduce import api
from transduce.answers.transducer import Transducer
from transduce.compute.precision import Precision, autocast
from transduce.core import config
from transduce.core.protocols import Autoregressive
from transduce.core.types import Batch, Padded
from transduce.data.batching import Batches
from transduce.objectives.base import Trainable
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.runs.loading import load
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.search.forcing import force, shifted
from transduce.search.greedy import Greedy
from transduce.training.callbacks import Callback, Update
from transduce.training.request import TrainingRequest
from transduce.training.settings import Training

CUDA = torch.device("cuda")
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
BATCH, LONGEST, LINES_OF_LAWS = 64, 100, 32
MODES: dict[str, dict[str, Any] | None] = {
    "no compiler": None,
    "torch.compile": {},
    "torch.compile, CUDA graphs": {"mode": "reduce-overhead"},
}


@dataclass
class Pace(Callback):
    """The target tokens per second of each report after the first."""

    found: list[float]

    def on_update(self, update: Update) -> None:
        self.found.append(update.tokens_per_second)

    @property
    def median(self) -> float:
        later = sorted(self.found[1:] or self.found)
        return later[len(later) // 2] if later else float("nan")


@dataclass(frozen=True)
class Trial:
    """A run that was trained on the device in one precision, and its sources."""

    run: Path
    precision: Precision
    device: torch.device
    tokens_per_second: float
    memory: float

    @property
    def transducer(self) -> Transducer:
        return load(self.run, device=str(self.device), precision=self.precision)

    def sources(self, count: int) -> list[str]:
        return [example.source for example in Run.open(self.run).examples("valid")][:count]


def trained(recipe: str, settings: Sequence[str], device: torch.device, precision: Precision, folder: Path) -> Trial:
    pace = Pace([])
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    run = api.train_run(
        TrainingRequest(recipe, folder / precision, [*settings, f"training.precision={precision}"]),
        callbacks=[pace],
        device=str(device),
        progress=False,
    )
    return Trial(run, precision, device, pace.median, peak(device))


def peak(device: torch.device) -> float:
    """The device's largest allocated memory in MiB; not a number on the CPU."""
    return torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else float("nan")


def decoding(trial: Trial, lines: int) -> Iterator[str]:
    """A row for each search: sentences per second, loading excluded."""
    transducer, sources = trial.transducer, trial.sources(lines)
    for name, search in (("greedy", Greedy(LONGEST)), ("beam 5", Beam(5, max_length=LONGEST))):
        list(transducer.predict(sources[:BATCH], search, BATCH))
        began = time.perf_counter()
        written = len(list(transducer.predict(sources, search, BATCH)))  # these are texts, so the device has finished
        yield f"| {trial.precision} | {name} | {written / (time.perf_counter() - began):,.1f} |"


# ------------------------------------------------------------------ laws


def laws(trial: Trial) -> Iterator[str]:
    """A row for each law: the number of lines that differ, or the largest difference of a number."""
    transducer, sources = trial.transducer, trial.sources(LINES_OF_LAWS)
    search = Beam(5, max_length=LONGEST)
    alone = [next(transducer.predict([source], search, 1))[0] for source in sources]
    together = [outputs[0] for outputs in transducer.predict(sources, search, BATCH)]
    differing = sum(one.text != other.text for one, other in zip(alone, together, strict=True))
    yield f"| {trial.precision} | company | {differing} of {len(sources)} lines |"
    source = transducer.padded(transducer.source_tokenizer.encode(sources))
    target = transducer.padded([output.ids for output in together])
    with torch.no_grad(), autocast(trial.precision, trial.device)():
        forced = force(cast(Autoregressive[Any], transducer.model), source, target)
        most = max(abs(row.log_prob - float(out.log_prob or 0)) for row, out in zip(forced, together, strict=True))
        yield f"| {trial.precision} | score | {most:.1e} |"
        yield f"| {trial.precision} | chunk | {chunked(transducer.model, source, target):.1e} |"
    plain = load(trial.run, device="cpu", precision="float32")
    differing = sum(
        outputs[0].text != other.text
        for outputs, other in zip(plain.predict(sources, search, BATCH), together, strict=True)
    )
    yield f"| {trial.precision} | processor | {differing} of {len(sources)} lines |"


def chunked(model: Any, source: Any, target: Padded) -> float:
    """The largest difference of a logit between reading the target in two parts and at once."""
    read_BT = shifted(target)
    half = read_BT.shape[1] // 2
    whole, _ = model.extend(read_BT, model.start(source))
    first, state = model.extend(read_BT[:, :half], model.start(source))
    second, _ = model.extend(read_BT[:, half:], state)
    parts = torch.cat([model.readout(first), model.readout(second)], 1)
    return float((parts - model.readout(whole)).abs().amax())


# -------------------------------------------------------------- compilers


def compiled(trial: Trial, seconds: float) -> Iterator[str]:
    """A row for each way to compute the loss of one batch and its gradient."""
    batch, base = one_batch(trial.run).to(trial.device), float("nan")
    for name, options in MODES.items():
        if options and trial.device.type != "cuda":
            yield f"| {trial.precision} | {name} | not run: no GPU | |"
            continue
        try:
            speed, loss = updates(trial, batch, options, seconds)
        except Exception as error:  # a compiler that is missing or fails is a result, too
            reason = str(error).strip().splitlines()[0][:100].replace("|", "/") if str(error).strip() else ""
            yield f"| {trial.precision} | {name} | failed: {type(error).__name__}: {reason} | |"
            continue
        base = loss if options is None else base
        yield f"| {trial.precision} | {name} | {speed:,.1f} | {abs(loss - base):.1e} |"


def one_batch(run: Path) -> Batch:
    """The first training batch of the run."""
    pairs = Run.open(run).prepared().train
    training = {"steps": 1, "batching": Run.open(run).settings["training"]["batching"]}
    return pairs.batch(Batches(pairs, config.build(training, Training).batching, 1).epoch(0)[0])


def updates(trial: Trial, batch: Batch, options: dict[str, Any] | None, seconds: float) -> tuple[float, float]:
    """Gradients per second, and the loss per token without dropout."""
    model = load(trial.run, device=str(trial.device)).model
    trainable: Any = Trainable(model, CrossEntropy(0.1))
    if options is not None:
        trainable = torch.compile(trainable, **options)
    computing, finished = autocast(trial.precision, trial.device), synchronised(trial.device)

    def gradient() -> Any:
        with computing():
            loss, _ = trainable(batch)
        model.zero_grad(set_to_none=True)
        loss.total.backward()
        return loss

    value = float(gradient().total.detach()) / batch.target.lengths.sum().item()
    for _ in range(3):
        gradient()
    finished()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        gradient()
        finished()
        count += 1
    return count / (time.perf_counter() - began), value


def synchronised(device: torch.device) -> Callable[[], None]:
    """Returns a function that waits until the device has finished."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


# ------------------------------------------------------------------- page


def heading(device: torch.device) -> list[str]:
    name = torch.cuda.get_device_name() if device.type == "cuda" else "the processor: a test of this benchmark, no GPU"
    return titled(f"Training, decoding and laws on {name}")


def main(
    report: Report,
    *,
    recipe: str = "reverse",
    settings: Sequence[str] = (),
    updates: int = 300,
    lines: int = 256,
    seconds: Annotated[float, "of each way to compute a gradient"] = 5,
    device: torch.device = CUDA,
) -> None:
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU here, so nothing has run; --device cpu only tests the benchmark itself")
    report.split = "valid"
    with tempfile.TemporaryDirectory() as folder:
        common = [*settings, f"training.steps={updates}", "training.validation.times=1"]
        trials = [trained(recipe, common, device, precision, Path(folder)) for precision in PRECISIONS]
        sections: dict[str, tuple[str, str, Callable[[Trial], Iterator[str]]]] = {
            "Decoding": ("precision | search", "sentences/s", lambda trial: decoding(trial, lines)),
            "Laws": ("precision | law", "differs", laws),
            "Gradients of one batch": (
                "precision | way | gradients/s",
                "loss differs by",
                lambda trial: compiled(trial, seconds),
            ),
        }
        report.tell(*heading(device), f"## Training: {recipe}, {updates} updates")
        report.tell(*columns("| precision | tokens/s | memory, MiB |"))
        for each in trials:
            report.tell(row([each.precision, f"{each.tokens_per_second:,.0f}", f"{each.memory:,.0f}"]), runs=[each.run])
        for title, (left, right, rows) in sections.items():
            report.tell("", f"## {title}", *columns(f"| {left} | {right} |"))
            for trial in trials:
                report.tell(*rows(trial))
