"""Imports a checkpoint of another toolkit: makes a run directory of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from transduce.core.errors import MissingPackageError, UserError
from transduce.runs.from_model import check_empty, write_run
from transduce.wings.engines.foreign.hugging_face import write_original
from transduce.wings.engines.foreign.original import Original
from transduce.wings.engines.importing import hugging_face, joeynmt, joeynmt_files, marian_checkpoint
from transduce.wings.engines.importing.agreement import Agreement, check, compare
from transduce.wings.engines.importing.base import Foreign
from transduce.wings.engines.importing.building import Built, build
from transduce.wings.engines.importing.refusals import check_toolkit


@dataclass(frozen=True)
class Imported:
    """The result of an import: the run directory, how its logits agree with the original's, and lines for people.

    ``agreement`` is None if nothing was compared: transformers is not installed, or the checkpoint is JoeyNMT's.
    """

    run: Path
    agreement: Agreement | None
    notes: tuple[str, ...] = ()


def import_run(folder: str | Path, out: str | Path) -> Imported:
    """Makes the directory ``out`` a run of the Marian, OPUS-MT or JoeyNMT checkpoint in ``folder``.

    The folder has the files of Hugging Face's format (``hugging_face.read``), of Marian itself
    (``marian_checkpoint.read``) or of JoeyNMT (``joeynmt_files.read``). If transformers is installed, both models
    compute the logits of a random sample, and the run is written only if they agree. A checkpoint of Marian itself is
    compared with Hugging Face's model of the same weights. Nothing is compared for JoeyNMT.

    Raises FileNotFoundError if a file is missing. Raises UserError if the checkpoint is none that this version imports,
    if it is damaged, if the models disagree, or if ``out`` has files.
    """
    place, run = Path(folder).expanduser(), Path(out).expanduser()
    check_empty(run)
    if joeynmt_files.present(place):
        built, agreement, notes = _uncompared(joeynmt_files.read(place))
    else:
        built, agreement, notes = _compared(_read(place))
    about = {"step": 0, "what": "imported", "from": place.name}
    write_run(run, built.settings, built.tokenizers, built.model, about)
    return Imported(run, agreement, notes)


def _uncompared(found: joeynmt_files.Checkpoint) -> tuple[Built, Agreement | None, tuple[str, ...]]:
    """The model of a checkpoint of JoeyNMT, and a line that says that nothing was compared."""
    return joeynmt.build(found), None, (joeynmt.NOTE,)


def _compared(found: Foreign) -> tuple[Built, Agreement | None, tuple[str, ...]]:
    """The model of a checkpoint of Marian, its agreement with the original, and lines for people."""
    built = build(found)
    try:
        agreement = compare(built, _original(found))
    except MissingPackageError:
        note = "transformers is not installed, so the logits were not compared with the original's"
        return built, None, (*found.notes, note)
    check(agreement)
    return built, agreement, found.notes


def _read(folder: Path) -> Foreign:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder: name the folder of a checkpoint")
    if (folder / "config.json").is_file():
        return hugging_face.read(folder)
    if any(folder.glob("*.npz")):
        return marian_checkpoint.read(folder)
    check_toolkit(folder)
    raise UserError(
        f"{folder} is no checkpoint that can be imported: it has neither config.json (Hugging Face's Marian), nor a "
        ".npz file (Marian itself), nor config.yaml and a .ckpt file (JoeyNMT)"
    )


def _original(found: Foreign) -> Original:
    """The original model. For a checkpoint of Marian itself, Hugging Face's model of the same weights."""
    if (found.folder / "config.json").is_file():
        return Original(found.folder)
    with tempfile.TemporaryDirectory() as scratch:
        write_original(Path(scratch), found.config, found.tensors)
        return Original(Path(scratch), found.numerics)
