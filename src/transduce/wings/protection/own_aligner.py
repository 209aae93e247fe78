"""The word aligner of a run: it learns once from the run's training pairs, and says where protected spans belong.

V output units, W source units.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from transduce.answers.answer import Answer
from transduce.answers.pipeline import Pipeline
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.config import ConfigError
from transduce.core.errors import UserError
from transduce.data.preparation import locate
from transduce.data.rows import check
from transduce.data.settings import Data
from transduce.runs.checkpoints import has_checkpoint
from transduce.runs.layout import ALIGNER, CONFIG
from transduce.runs.loading import load
from transduce.runs.run import Run, cache_folder
from transduce.training import begin
from transduce.training.callbacks import Callback, Finished, Notice
from transduce.training.request import TrainingRequest
from transduce.training.settings import Settings
from transduce.wings.alignment.alignments import EVERY, align_encoded, encode_pairs
from transduce.wings.alignment.readings import Reading
from transduce.wings.alignment.sides import Side
from transduce.wings.alignment.token_alignment import TokenAlignment
from transduce.wings.protection.projection import Numbers
from transduce.wings.protection.text import ProtectedText, units

RECIPE = "word-alignment"
MOST = 100_000  # pairs; of more, evenly spaced ones
ENDS = ("budget", "patience")


class OwnAligner(Callback):
    """Learns the word aligner of a ``run`` when its training ends, and tells the callbacks ``others``. Raises
    ConfigError if the data of the run are no pairs of texts.
    """

    def __init__(self, settings: Settings, run: Path, others: Sequence[Callback]) -> None:
        if problem := _problem(settings.data):
            raise ConfigError("training.aligner", f"{problem}: leave it out")
        self.run, self.others = run, others

    def on_finish(self, finished: Finished) -> None:
        if finished.reason not in ENDS:
            return
        try:
            text = learn(self.run)
        except (UserError, OSError) as error:
            text = f"no word aligner was learned: {error}"
        for each in self.others:
            each.on_notice(Notice(finished.step, text))


def learn(run: Path) -> str:
    """Learns the word aligner of a ``run`` from its training pairs, and keeps it in the run's folder. Returns a line
    about it. Raises UserError if the run has no pairs of texts, or if they are not there.
    """
    data = config.build(Run.open(run).settings["data"], Data, path="data")
    if problem := _problem(data):
        raise UserError(f"{run}: {problem}, so no word aligner learns from them")
    with tempfile.TemporaryDirectory() as folder:
        file, count = Path(folder) / "train.tsv", 0
        with file.open("w", encoding="utf-8", newline="\n") as lines:
            for source, target in _pairs(data, run):
                lines.write(f"{_divided(source)}\t{_divided(target)}\n")
                count += 1
        if not count:
            raise UserError(f"{run}: there are no training pairs that a word aligner could learn from")
        changes = {"data.train.path": str(file), "data.cache": str(Path(folder) / "cache")}
        begin.train(TrainingRequest(RECIPE, run / ALIGNER, changes, overwrite=True).job(), device="cpu")
    return f"a word aligner, learned from {count:,} training pairs for protected spans, is in {run / ALIGNER}"


def _problem(data: Data) -> str | None:
    if data.units.targets_only:
        return "a word aligner needs sources"
    if data.units.signal is not None:
        return "a word aligner needs sources of text"
    return None


def _pairs(data: Data, run: Path) -> Iterator[tuple[str, str]]:
    files = locate(data, cache_folder(data, run)).train
    if files is None:
        raise UserError(f"{run} names no training set, so no word aligner can learn from it")
    step = -(-sum(check(part, data.lines.max_bytes) for part in files.parts) // MOST)
    for corpus in files.parts:
        for number, row in enumerate(data.rows(corpus)):
            if number % step == 0 and row.problem is None and row.source and row.target:
                yield row.source, row.target


def _divided(text: str, ranges: Sequence[tuple[int, int]] | None = None) -> str:
    """The units of a text between spaces."""
    return " ".join(text[start:end] for start, end in (units(text) if ranges is None else ranges))


# ------------------------------------------------------------------ alignment


def own_aligner(model: Pipeline) -> Transducer | None:
    """The word aligner of the model's run; None if the run has none."""
    folder = None if model.folder is None else model.folder / ALIGNER
    if folder is None or not has_checkpoint(folder):  # perhaps its training was interrupted
        return None
    return _loaded(folder, (folder / CONFIG).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _loaded(folder: Path, _written: int) -> Transducer:
    return load(folder, device="cpu")


def readings_of_units(
    aligner: Transducer, model: Pipeline, answers: Sequence[Answer], batch_size: int
) -> list[list[Reading]]:
    """For each answer, a Reading of each output, whose tokens are the units of source and output. The weight of two
    units is the square root of the product of their posteriors in both directions.
    """
    work = [
        (_protected(answer.request), _read(model, answer.request.text), output)
        for answer in answers
        for output in answer.outputs
    ]
    pairs = [(_divided(text.text, text.units), _divided(output.text)) for text, _, output in work]
    # Not told: a word that the aligner has not learned is no word that the model does not know.
    encoded = encode_pairs(aligner, pairs, told=False)
    ways = (align_encoded(aligner, encoded, [EVERY], batch_size, turned) for turned in (False, True))
    found = iter(
        Reading(output, _units_alignment(text, read, output.text, there, back))
        for (text, read, output), (there,), (back,) in zip(work, *ways, strict=True)
    )
    return [[next(found) for _ in answer.outputs] for answer in answers]


def _protected(request: Request) -> ProtectedText:
    return request.protected or ProtectedText(request.source, ())


def _read(model: Pipeline, text: str) -> int:
    """The number of characters of a source that the model reads."""
    spans = model.source_tokenizer.spans(text)
    return (
        len(text)
        if len(spans) < model.max_source_length
        else max(end for _, end in spans[: model.max_source_length - 1])
    )


def _units_alignment(
    text: ProtectedText, read: int, output: str, forward: TokenAlignment, backward: TokenAlignment
) -> TokenAlignment:
    source, target = text.units, units(output)
    there_VW, back_VW = (_words(way, turned, len(target), len(source)) for way, turned in ((forward, 0), (backward, 1)))
    weights_VW = np.sqrt(there_VW * back_VW)
    kept = [number for number, (start, _) in enumerate(source) if start < read]
    spans = [*(source[number] for number in kept), (read, read)]
    weights_TS = torch.zeros(len(target), len(spans), dtype=torch.float64)
    weights_TS[:, : len(kept)] = torch.from_numpy(weights_VW[:, kept])
    return TokenAlignment(
        weights_TS,
        Side(text.text, spans, [None] * len(spans), False),
        Side(output, target, [None] * len(target), False),
    )


def _words(way: TokenAlignment, turned: int, rows: int, columns: int) -> Numbers:
    """[V, W] of one direction. A text that the aligner has cut leaves zeros at its end."""
    found = way.words_VI[:, 1:].double().numpy()
    found = found.T if turned else found
    whole: Numbers = np.zeros((rows, columns))
    whole[: found.shape[0], : found.shape[1]] = found[:rows, :columns]
    return whole
