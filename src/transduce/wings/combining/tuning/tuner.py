"""Tuning as a part of training: search, merge the n-best lists, optimise the weights, and search again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.answers.answer import Answer
from transduce.answers.request import requests_for
from transduce.answers.transducer import Transducer
from transduce.core.config.errors import ConfigError
from transduce.core.protocols import Deriving
from transduce.core.types import Example
from transduce.data.preparation import Prepared, examples
from transduce.metrics.base import metric
from transduce.training.settings import Settings
from transduce.training.tuning import Tuned, Tuning
from transduce.wings.combining.tuning.candidates import Merged
from transduce.wings.combining.tuning.mert import optimise

Numbers = NDArray[np.float64]

BATCH = 32  # sentences
ENOUGH = 1e-4  # weights hardly change if no change is larger than this share of the largest weight


@dataclass(frozen=True)
class Tuner:
    """Tunes the weights of the transducer's model, in place, on the examples. A call yields the result of each
    iteration.

    The last result belongs to the last weights. After the last result, the model has the best weights of all results.
    """

    transducer: Transducer
    examples: Sequence[Example]
    tuning: Tuning
    seed: int

    def __call__(self) -> Iterator[Tuned]:
        tuning, measure = self.tuning, metric(self.tuning.metric)
        merged, results, random = Merged(measure, self.examples), list[Tuned](), np.random.default_rng(self.seed)
        for iteration in range(tuning.iterations + 1):
            weights_F = self._weights.double().cpu().numpy()
            answers = self._answers()
            new = merged.add(answers)
            score = measure.score(merged.best(answers).sum(0).tolist())
            results.append(Tuned(iteration, measure.name, score, len(merged), weights_F))
            yield results[-1]
            if not new or iteration == tuning.iterations:
                break
            tuned_F, _ = optimise(merged.candidates(), weights_F, tuning.starts, tuning.rounds, random)
            self._set(tuned_F)
            if np.abs(tuned_F - weights_F).max() < ENOUGH * np.abs(weights_F).max():
                break
        sign = 1 if measure.higher_is_better else -1
        self._set(max(results, key=lambda each: sign * each.score).weights_F)

    def _answers(self) -> list[Answer]:
        sources = [example.source for example in self.examples]
        search = self.transducer.search.resized(nbest=self.tuning.nbest)
        return list(self.transducer.answer(requests_for(sources), search, BATCH))

    def _set(self, weights_F: Numbers) -> None:
        weights = self._weights
        weights.data = torch.from_numpy(weights_F).to(weights)

    @property
    def _weights(self) -> Tensor:
        return cast(Deriving, self.transducer.model).weights


def tuner_of(model: nn.Module, settings: Settings, prepared: Prepared, cache: Path) -> Tuner:
    """The tuner that a run's settings describe, which have a ``tuning``. Raises ConfigError if there are no
    validation data, or if the search has its own language model. ``cache`` is the folder of prepared data.
    """
    assert settings.tuning is not None
    if prepared.valid is None:
        raise ConfigError("tuning", "weights are tuned on data.valid, and there is none: give it, or leave tuning out")
    if getattr(settings.search, "language_model", None) is not None:
        raise ConfigError(
            "search.language_model",
            "tuning weighs the model's own features only: train without it, and give it to predict (--set "
            "search.language_model=RUN), or leave tuning out",
        )
    lines = settings.data.lines
    transducer = Transducer(model, settings.search, prepared.tokenizers, max_source_length=lines.max_source_length)
    found = examples(settings.data, "valid", cache, told=True)
    return Tuner(transducer, found, settings.tuning, settings.training.seed)
