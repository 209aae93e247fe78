"""``transduce.load``: a run directory, or several mixed as one, as a transducer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.compute.device import choose_device
from transduce.compute.precision import Precision, check_precision, hold_matrices
from transduce.data.preparation import Tokenizers
from transduce.errors import UserError
from transduce.models.mixtures import Ensemble, Fusion
from transduce.runs.layout import Checkpoint, members
from transduce.runs.run import Run
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
    """The model of a run directory as a transducer: ``load("runs/g2p")("knowledge")``.

    "RUN+RUN" mixes several runs of one vocabulary: the mean of their probabilities or, with weights in ``fusion``,
    their log-linear mixture. It uses the same ``checkpoint`` of each, and the search and settings of the first. One of
    them may be a language model, which reads no source (shallow fusion: Gulcehre et al. 2015).

    ``device`` is cpu, cuda, mps or auto. ``precision`` is float32 or bfloat16. bfloat16 is several times as fast on a
    processor that multiplies it natively, and its outputs may differ. ``settings`` (``{"search.size": 10}`` or
    ``["search.size=10"]``) and ``size`` change the search, as in ``Transducer.changed``.

    Raises FileNotFoundError if there is no such run or checkpoint. Raises UserError if weights are damaged, or if the
    runs have different vocabularies.
    """
    paths, where = members(run), choose_device(device)
    check_precision(precision)
    loaded = [Run.open(path).transducer(checkpoint, where) for path in paths]
    alone = len(loaded) == 1 and fusion is None
    transducer = loaded[0] if alone else mix(paths, loaded, fusion)
    hold_matrices(precision, transducer.model)
    changed = replace(transducer, precision=precision).changed(settings, size)
    return changed.with_search(changed.search)


def mix(runs: list[Path], loaded: list[Transducer], fusion: Sequence[float] | None) -> Transducer:
    """Joins several loaded runs to one transducer, with the search and the settings of the first. ``runs`` are their
    directories, for messages.

    Without ``fusion`` the new model is an ensemble: the mean of their probabilities. ``fusion`` has a weight for each
    run, for a log-linear mixture. Raises UserError unless the vocabularies are equal. The source vocabulary of a
    language model does not matter.
    """
    first = loaded[0]
    reader = next((number for number, each in enumerate(loaded) if each.conditional), 0)
    for path, other in zip(runs, loaded, strict=True):
        check_vocabularies(loaded[reader], runs[reader], other, path)
    models = [each.model for each in loaded]
    mixture = Ensemble(models) if fusion is None else Fusion(models, fusion)
    kind = {"type": "ensemble"} if fusion is None else {"type": "fusion", "weights": list(fusion)}
    table = {**kind, "models": [each.settings["model"] for each in loaded]}
    return Transducer(
        mixture.eval(),
        first.search,
        Tokenizers(loaded[reader].source_tokenizer, first.target_tokenizer),
        {**first.settings, "model": table},
        loaded[reader].max_source_length,
        loaded[reader].token_for_token,
        load_other=first.load_other,
    )


def check_vocabularies(one: Transducer, run: Path, other: Transducer, other_run: Path) -> None:
    """Raises UserError unless both runs have the same target vocabulary and, if both have sources, the same source
    vocabulary. ``run`` and ``other_run`` name them in the message.
    """
    if differing := one.tokenizers.differing(other.tokenizers, one.conditional and other.conditional):
        raise UserError(
            f"{run} and {other_run} have different {' and '.join(differing)} vocabularies, so their models cannot be "
            "mixed word by word; train both on the same data with the same data.units, or rerank as text: `transduce "
            "rerank` with --direct or --language-model"
        )
