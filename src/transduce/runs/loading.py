"""``transduce.load``: a run directory, or several mixed as one, as a transducer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.compute.device import choose_device
from transduce.compute.precision import Precision, check_precision, hold_matrices
from transduce.data.preparation import Tokenizers
from transduce.engines.manifest import Manifest, checksum, find_export
from transduce.engines.opening import open_model
from transduce.errors import UserError
from transduce.models.chain_fusion import ChainFusion
from transduce.models.mixtures import Ensemble, Fusion
from transduce.protocols import Chain, can
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
    engine: str | None = None,
    mapped: bool = False,
) -> Transducer:
    """The model of a run directory as a transducer: ``load("runs/g2p")("knowledge")``.

    "RUN+RUN" mixes several runs of one vocabulary: the mean of their probabilities or, with weights in ``fusion``,
    their log-linear mixture. It uses the same ``checkpoint`` of each, and the search, the context and the settings of
    the first. One of them may be a language model, which reads no source (shallow fusion: Gulcehre et al. 2015).

    ``device`` is cpu, cuda, mps or auto. ``precision`` is float32, bfloat16 or float16. bfloat16 is several times as
    fast in large batches on a processor that multiplies it natively, and its outputs may differ. float16 keeps matrices
    in half precision and computes in float32, only on the CPU. It is faster where few rows are computed, such as one
    sentence, and outputs hardly ever differ. ``settings`` (``{"search.size": 10}`` or ``["search.size=10"]``) and
    ``size`` change the search, as in ``Transducer.changed``.

    ``engine`` "native", "onnx" or "ctranslate2" runs the export that ``transduce export`` made of the run; "torch" runs
    the run itself. ``run`` can also be the folder of an export, which then runs with its own engine. An export runs on
    the CPU.

    If ``mapped`` is True, the weights stay in the pages of their file, which processes share: for many processes with
    one model. Nobody may then write into the file; a training replaces it and does not write into it.

    Raises FileNotFoundError if there is no such run or checkpoint. Raises UserError if weights are damaged, or if the
    runs have different vocabularies.
    """
    paths = members(run)
    check_precision(precision)
    folders = [find_export(path, engine) for path in paths]
    if any(folders):
        check_exported(device, precision)
    where = choose_device(device)
    loaded = [
        Run.open(path).transducer(checkpoint, where, mapped) if folder is None else exported(path, folder, checkpoint)
        for path, folder in zip(paths, folders, strict=True)
    ]
    alone = len(loaded) == 1 and fusion is None
    transducer = loaded[0] if alone else mix(paths, loaded, fusion)
    hold_matrices(precision, transducer.model)
    changed = replace(transducer, precision=precision).changed(settings, size)
    return changed.with_search(changed.search)


def exported(run: Path, folder: Path, checkpoint: Checkpoint) -> Transducer:
    """The model of an export, with its own search and tokenizers. ``run`` is the run directory, or the folder itself.

    Raises UserError if the run's weights have changed since the export, or if it is of another checkpoint.
    """
    manifest = Manifest.read(folder)
    if run != folder:
        if manifest.checkpoint != checkpoint:
            raise UserError(f"{folder} was made of the checkpoint {manifest.checkpoint}, not {checkpoint}: export it")
        if checksum(Run.open(run).weights(checkpoint)) != manifest.weights:
            raise UserError(
                f"{run} has other weights than when it was exported: repeat `transduce export {run} --to "
                f"{manifest.engine}`"
            )
    return Run.read(folder).around(open_model(folder, manifest))


def check_exported(device: str, precision: Precision) -> None:
    """Raises UserError unless an export can run on this device in this precision."""
    if device not in ("auto", "cpu"):
        raise UserError(f"device {device!r}: an export runs on the cpu; leave --device out, or use --engine torch")
    if precision != "float32":
        raise UserError(f"precision {precision!r}: this is set when a run is exported; leave it out")


def mix(runs: list[Path], loaded: list[Transducer], fusion: Sequence[float] | None) -> Transducer:
    """Joins several loaded runs to one transducer, with the search and the settings of the first. ``runs`` are their
    directories, for messages.

    Without ``fusion`` the new model is an ensemble: the mean of their probabilities. ``fusion`` has a weight for each
    run, for a log-linear mixture. Chains (``crf``, ``hmm``) are always mixed log-linearly, by default with equal
    weights that sum to 1. Raises UserError unless the vocabularies are equal. The source vocabulary of a language model
    does not matter.
    """
    first = loaded[0]
    reader = next((number for number, each in enumerate(loaded) if each.conditional), 0)
    for path, other in zip(runs, loaded, strict=True):
        check_vocabularies(loaded[reader], runs[reader], other, path)
    models = [each.model for each in loaded]
    mixture: ChainFusion | Ensemble | Fusion
    if all(can(type(model), Chain) for model in models):
        mixture = ChainFusion(models, fusion)
        kind: dict[str, Any] = {"type": "chain-fusion", "weights": list(mixture.weights)}
    else:
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
        context=first.context,
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
