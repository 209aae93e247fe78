"""A run directory, or several as one, as a transducer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from transduce import config
from transduce.compute.device import choose_device
from transduce.compute.precision import Precision, check_precision, hold_matrices
from transduce.data.preparation import Tokenizers
from transduce.data.settings import Lines
from transduce.directory import CONFIG, TOKENIZERS, Checkpoint, find_weights, members
from transduce.errors import UserError
from transduce.models.mixtures import Ensemble, Fusion
from transduce.models.weights import load_weights
from transduce.protocols import Model, Search
from transduce.transducer import Transducer


def load(
    run: str | Path,
    checkpoint: Checkpoint = "best",
    device: str = "auto",
    fusion: Sequence[float] | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    precision: Precision = "float32",
    size: int | None = None,
) -> Transducer:
    """The model of a run directory: ``load("runs/g2p")("knowledge")``.

    "RUN+RUN" are several of one vocabulary as one, the mean of their probabilities, or with weights in ``fusion`` their
    log-linear mixture: the same checkpoint of each, with the search and the settings of the first. A language model
    among them reads no source (shallow fusion: Gulcehre et al. 2015). ``device`` is cpu, cuda, mps or auto;
    ``precision`` float32, or bfloat16, in which products are several times as fast where the processor multiplies it
    natively, and outputs may differ. ``settings`` (``{"search.size": 10}`` or ``["search.size=10"]``) and ``size``
    change the search, as ``Transducer.changed`` does.
    """
    runs, where = members(run), choose_device(device)
    check_precision(precision)
    every = [_load(each, checkpoint, where) for each in runs]
    alone = len(every) == 1 and fusion is None
    loaded = every[0] if alone else _mixed(runs, every, fusion)
    hold_matrices(precision, loaded.model)
    return replace(loaded, precision=precision).changed(settings, size)


def _load(run: Path, checkpoint: Checkpoint, device: torch.device) -> Transducer:
    path = find_weights(run, checkpoint)
    settings = config.read(run / CONFIG)
    tokenizers = Tokenizers.load(run / TOKENIZERS)
    model: Any = config.build(settings.get("model", {}), Model, tokenizers.facts, "model")
    load_weights(model, path)
    search: Search[Any] = config.build(settings.get("search", {}), Search, path="search")
    lines = config.build(settings.get("data", {}).get("lines", {}), Lines, path="data.lines")
    model.to(device).eval()
    limits = lines.max_source_length, lines.token_for_token
    return Transducer(model, search, tokenizers, settings, *limits)


def _mixed(runs: list[Path], every: list[Transducer], fusion: Sequence[float] | None) -> Transducer:
    """Several as one, with what belongs to the first."""
    first = every[0]
    reader = next((number for number, each in enumerate(every) if each.conditional), 0)
    for path, other in zip(runs, every, strict=True):
        check_vocabularies(every[reader], runs[reader], other, path)
    models = [each.model for each in every]
    mixture = Ensemble(models) if fusion is None else Fusion(models, fusion)
    kind = {"type": "ensemble"} if fusion is None else {"type": "fusion", "weights": list(fusion)}
    table = {**kind, "models": [each.settings["model"] for each in every]}
    return Transducer(
        mixture.eval(),
        first.search,
        Tokenizers(every[reader].source_tokenizer, first.target_tokenizer),
        {**first.settings, "model": table},
        every[reader].max_source_length,
        every[reader].token_for_token,
    )


def check_vocabularies(one: Transducer, run: Path, other: Transducer, other_run: Path) -> None:
    """Raise ValueError unless two runs cut text into the same ids: their models' words must be each other's, those of
    a source only where there is one."""
    if differing := one.tokenizers.differing(other.tokenizers, one.conditional and other.conditional):
        raise UserError(
            f"{run} and {other_run} have different {' and '.join(differing)} vocabularies, so their models cannot be "
            "mixed word by word; train both on the same data with the same data.units, or rerank as text: `transduce "
            "rerank` with --direct or --language-model"
        )
