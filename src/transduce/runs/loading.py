"""``transduce.load``: a run directory, or several mixed as one, as a transducer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.answers.transducer import Transducer
from transduce.compute.device import choose_device
from transduce.compute.memory import keep_freed_memory
from transduce.compute.precision import Precision, check_precision, hold_matrices
from transduce.core import config, registry
from transduce.core.errors import UserError
from transduce.core.protocols import Chain, Model, Parallel, Searching, can
from transduce.data.preparation import Tokenizers
from transduce.models.mixtures import Ensemble, Fusion
from transduce.runs.layout import Checkpoint, members
from transduce.runs.manifest import Manifest, checksum, find_export
from transduce.runs.run import Run


def load(
    run: str | Path,
    checkpoint: Checkpoint = "best",
    device: str = "auto",
    fusion: Sequence[float] | None = None,
    settings: Mapping[str, object] | Sequence[str] = (),
    precision: Precision = "float32",
    size: int | None = None,
    engine: str | None = None,
    mapped: bool = False,
) -> Transducer:
    """The model of a run directory as a transducer: ``load("runs/g2p")("knowledge")``.

    "RUN+RUN" mixes several runs of one vocabulary: the mean of their probabilities or, with weights in ``fusion``,
    their log-linear mixture. It uses the same ``checkpoint`` of each, and the search, the context and the settings of
    the first. One of them may be a language model, which reads no source (shallow fusion: Gulcehre et al. 2015).

    ``device`` is cpu, cuda, mps or auto. ``precision`` is float32, bfloat16, float16 or int8. bfloat16 is several times
    as fast in large batches on a processor that multiplies it natively, and its outputs may differ. float16 keeps
    matrices in half precision and computes in float32, only on the CPU. It is faster where few rows are computed, such
    as one sentence, and outputs hardly ever differ. int8 keeps matrices as 8-bit integers for the engine "native",
    which it chooses. ``settings`` (``{"search.size": 10}`` or ``["search.size=10"]``) and ``size`` change the search,
    as in ``Transducer.changed``.

    ``engine`` "torch" (PyTorch) runs the run itself. "onnx" and "ctranslate2" run the export that ``transduce export``
    made of the run. "native", the package's own engine in C++, does so if there is one and ``precision`` is float32;
    otherwise it converts the weights when it loads them. ``run`` can also be the folder of an export, which then runs
    with its own engine. Only "torch" runs on another device than the CPU.

    If ``mapped`` is True, the weights stay in the pages of their file, which processes share: for many processes with
    one model. Nobody may then write into the file; a training replaces it and does not write into it.

    From now on the process keeps the memory that it frees (compute/memory.py), because each step of a search needs it
    again.

    Raises FileNotFoundError if there is no such run or checkpoint. Raises UserError if weights are damaged, or if the
    runs have different vocabularies, or if the engine cannot run a model. Raises MissingPackageError if the engine is
    not installed.
    """
    paths = members(run)
    check_precision(precision)
    keep_freed_memory()
    engine = _engine_for(precision, engine)
    folders = [find_export(path, engine, precision) for path in paths]
    if engine == "native" and len(paths) > 1:  # the engine mixes weights, and no exports
        folders = [folder if folder == path else None for path, folder in zip(paths, folders, strict=True)]
    if any(folders):
        check_exported(precision)
    if any(folders) or engine == "native":
        check_on_cpu(device, "an export" if any(folders) else "the native engine")
    where = choose_device("cpu" if engine == "native" else device)
    loaded = []
    for path, folder in zip(paths, folders, strict=True):
        if folder is not None:
            loaded.append(exported(path, folder, checkpoint))
        else:
            loaded.append(Run.open(path).transducer(checkpoint, where, mapped))
    alone = len(loaded) == 1 and fusion is None
    transducer = loaded[0] if alone else mix(paths, loaded, fusion)
    if engine == "native" and not any(folders):
        transducer = converted(transducer, precision)
    if engine in (None, "torch"):
        hold_matrices(precision, transducer.model)
    transducer = replace(transducer, precision=precision)
    if settings or size is not None:
        return transducer.changed(settings, size)
    return transducer.with_search(transducer.search)  # which now gets the runs that it names


def trained(run: Path, device: str) -> Transducer:
    """The best model of a run that this process has trained, as ``load`` gives it: nothing else can be at ``run``."""
    transducer = Run.read(run).transducer(device=choose_device(device))
    hold_matrices("float32", transducer.model)
    return transducer.with_search(transducer.search)


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
    return Run.read(folder).around(registry.service("exported model")(folder, manifest))


def converted(loaded: Transducer, precision: Precision) -> Transducer:
    """A loaded run on our own engine, without an export. ``precision`` is float32 or int8.

    Raises UserError, which names the setting, for a model that the engine does not have, and MissingPackageError if the
    engine was not built.
    """
    table = config.resolve(loaded.settings["model"], Model, loaded.tokenizers.facts, "model")
    return replace(loaded, model=registry.service("native engine")(loaded.model, table, precision))


def _engine_for(precision: Precision, engine: str | None) -> str | None:
    """The engine to load for: only our own has products of int8 without an export. Raises UserError if ``engine`` is
    another one.
    """
    if precision in ("bfloat16", "float16") and engine == "native":
        raise UserError(f"precision {precision!r}: the native engine has float32 and int8; or leave --engine out")
    if precision != "int8" or engine == "native":
        return engine
    if engine in ("onnx", "ctranslate2"):
        raise UserError(
            f"precision 'int8': this is set when a run is exported (`transduce export RUN --to {engine} --precision "
            "int8`); leave it out"
        )
    if engine is not None:
        raise UserError(f"precision 'int8' is for the native engine, and not for {engine!r}: leave --engine out")
    return "native"


def check_exported(precision: Precision) -> None:
    """Raises UserError if an export is to run in another precision than its own."""
    if precision != "float32":
        raise UserError(f"precision {precision!r}: this is set when a run is exported; leave it out")


def check_on_cpu(device: str, what: str) -> None:
    """Raises UserError if ``device`` is another one than the CPU. ``what`` is the subject of the message."""
    if device not in ("auto", "cpu"):
        raise UserError(f"device {device!r}: {what} runs on the cpu; leave --device out, or use --engine torch")


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
    for path, model in zip(runs, models, strict=True):
        if can(type(model), Searching):
            raise UserError(f"{path}: its engine searches by itself, so it cannot be mixed; name runs, and no export")
    mixture: Any
    if all(can(type(model), Chain) for model in models):
        mixture = registry.find("Model", "chain-fusion")(models, fusion)
        kind: dict[str, object] = {"type": "chain-fusion", "weights": list(mixture.weights)}
    elif fusion is None and all(can(type(model), Parallel) for model in models):
        mixture, kind = registry.find("Model", "parallel-ensemble")(models), {"type": "parallel-ensemble"}
    else:
        mixture = Ensemble(models) if fusion is None else Fusion(models, fusion)
        kind = {"type": "ensemble"} if fusion is None else {"type": "fusion", "weights": list(fusion)}
    table = {**kind, "models": [each.settings["model"] for each in loaded]}
    return replace(
        loaded[reader],
        model=mixture.eval(),
        search=first.search,
        tokenizers=Tokenizers(loaded[reader].source_tokenizer, first.target_tokenizer),
        settings={**first.settings, "model": table},
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
