"""Validation: how good the model is on data.valid while it trains."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from transduce.data.batching import Batches
from transduce.data.pairs import Pairs
from transduce.data.preparation import Prepared, examples
from transduce.metrics.base import metric
from transduce.objectives.cross_entropy import Trainable
from transduce.training.loop import Judgement
from transduce.training.settings import Settings, Training
from transduce.transducer import Transducer
from transduce.types import Example


class Judge:
    """Validates: the loss as training computes it, over data.valid, and the metrics through search in float32.

    Where the metrics look at one in so many of the examples (``one_in``), the loss does at one in so many batches.
    """

    def __init__(
        self,
        trainable: Trainable,
        valid: Pairs,
        chosen: list[Example],
        transducer: Transducer,
        training: Training,
        autocast: Callable[[], AbstractContextManager[Any]],
        one_in: int = 1,
    ) -> None:
        self.trainable = trainable
        self.valid = valid
        self.examples = chosen
        self.transducer = transducer
        self.batching = training.batching
        self.autocast = autocast
        self.one_in = one_in
        self.metrics = [metric(name) for name in training.validation.metrics]

    def __call__(self) -> Judgement:
        loss = self._loss()
        if not self.metrics:
            return Judgement(loss, {}, loss)
        scores = self.transducer.evaluate(self.examples, self.metrics, batch_size=128).scores
        first = self.metrics[0]
        value = scores[first.name]
        return Judgement(loss, scores, -value if first.higher_is_better else value, first.name)

    @torch.no_grad()
    def _loss(self) -> float:
        total, count = 0.0, 0
        for ids in Batches(self.valid, self.batching, seed=0).epoch(0)[:: self.one_in]:
            batch = self.valid.batch(ids).to(self.transducer.device)
            with self.autocast():
                loss, _ = self.trainable(batch, 1.0, None)
            total, count = total + float(loss.plain), count + loss.count
        return total / count


def judge_of(
    trainable: Trainable,
    settings: Settings,
    prepared: Prepared,
    cache: Path,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Judge | None:
    """The judge that a run's settings ask for; none where there is nothing to validate on."""
    if prepared.valid is None:
        return None
    training = settings.training
    asked = training.validation
    every = examples(settings.data, "valid", cache, told=True) if asked.metrics else []
    chosen = spread(every, asked.examples)
    transducer = Transducer(
        trainable.model,
        asked.search,
        prepared.tokenizers,
        max_source_length=settings.data.lines.max_source_length,
        token_for_token=settings.data.lines.token_for_token,
    )
    one_in = max(1, len(every) // max(1, len(chosen)))
    return Judge(trainable, prepared.valid, chosen, transducer, training, autocast, one_in)


def spread(found: list[Example], wanted: int | None) -> list[Example]:
    """So many of them, or all, evenly spaced: dictionaries are sorted, and their first entries no sample."""
    wanted = min(wanted or len(found), len(found))
    return [found[number * len(found) // wanted] for number in range(wanted)]
