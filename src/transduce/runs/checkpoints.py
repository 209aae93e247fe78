"""The checkpoints of a run: folders of weights with a checksum of each file, replaced in one atomic step.

``checkpoints/best`` has the weights that validation chose, with the value that chose them; without validation data, the
last weights. ``average`` has the mean of the last validated weights. ``last`` has all that training needs to go on
(``training_state``); for a counted model, the weights alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.files import current_folder, replace_folder
from transduce.core.text_files import read_json, read_text
from transduce.models.weights import load_tensors, save_weights, set_weights
from transduce.runs.layout import CHECKPOINTS, CHECKSUMS, MODEL, STATE


@dataclass(frozen=True)
class Rank:
    """How good a checkpoint was in validation, for comparing checkpoints. ``measure`` is the name of the measure, a
    metric or "loss". ``value`` is its result, negated if higher is better, so a lower value is better. A lower ``loss``
    decides between equal values.

    Ranks of different measures cannot be compared.
    """

    measure: str
    value: float
    loss: float

    def better_than(self, other: Rank | None) -> bool:
        """Returns True if a validation with this rank replaces ``other``, the best so far. True if there is no other,
        or if the other has a different measure.

        Always False if neither the value nor the loss is finite: such a validation has measured nothing.
        """
        if not (math.isfinite(self.value) or math.isfinite(self.loss)):
            return False
        if other is None or other.measure != self.measure:
            return True
        return (self.value, self.loss) < (other.value, other.loss)


def write_checkpoint(
    folder: Path, fill: Callable[[Path], None], state: Mapping[str, object], texts: Mapping[str, str] | None = None
) -> None:
    """Replaces the checkpoint ``folder`` in one atomic step. ``fill`` writes the weights, and what else it wants, into
    the new folder whose path it is given.

    This function then adds ``state`` as state.json, the ``texts`` of other files by name, and a file with the checksums
    of all files, which ``sha256sum --check checksums.sha256`` can verify.
    """

    def fill_all(new: Path) -> None:
        fill(new)
        (new / STATE).write_text(json.dumps(dict(state), indent=1), encoding="utf-8")
        for name, text in (texts or {}).items():
            (new / name).write_text(text, encoding="utf-8")
        lines = [f"{_checksum(path)}  {path.name}\n" for path in sorted(new.iterdir())]
        (new / CHECKSUMS).write_text("".join(lines), encoding="utf-8")

    replace_folder(folder, fill_all)


def save_weights_alone(
    folder: Path, model: nn.Module, about: Mapping[str, object], texts: Mapping[str, str] | None = None
) -> None:
    """Replaces the checkpoint ``folder`` by one without the state of training: the model's weights, ``about`` as
    state.json, and the ``texts`` of other files by name.
    """
    write_checkpoint(folder, lambda new: save_weights(model, new / MODEL), about, texts)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file in a checkpoint, by name.

    Raises FileNotFoundError if there is no file, and UserError if it is damaged: it is incomplete, or its checksum
    differs. Checkpoints of versions before the checksums are read without the comparison.
    """
    tensors = load_tensors(path)
    expected = _checksums(path.parent).get(path.name)
    if expected is not None and _checksum(path) != expected:
        raise UserError(
            f"{path} is damaged: its checksum differs from the one in {CHECKSUMS}; copy or train it again. If you "
            f"changed the file yourself, delete {path.with_name(CHECKSUMS)}"
        )
    return tensors


def load_checkpoint(model: nn.Module, path: Path, mapped: bool = False) -> None:
    """Copies the weights in the file ``path`` of a checkpoint into the model. If ``mapped`` is True, the model reads
    them from the file's pages, which all processes that map it share; nobody may then write into the file. Raises
    FileNotFoundError if there is no file, and UserError if the weights do not fit or are damaged.
    """
    set_weights(model, read_tensors(path), str(path), mapped)


def best_rank(checkpoints: Path) -> Rank | None:
    """The rank of ``best`` in the folder ``checkpoints`` of a run. None if there is no best checkpoint, or if it has no
    rank.
    """
    path = checkpoints / "best" / STATE
    if not path.exists():
        return None
    rank = read_json(path).get("rank")
    return None if rank is None else Rank(**rank)


def saved_step(folder: Path) -> int:
    """The update of the weights in the checkpoint ``folder``, which may be an average of the last ones; 0 if there is
    no such checkpoint.
    """
    path = current_folder(folder) / STATE
    with suppress(OSError, UserError):  # it is missing or damaged
        return int(read_json(path).get("step", 0))
    return 0


def has_checkpoint(run: Path) -> bool:
    """Returns True if the run directory has the checkpoint last or best."""
    folders = (current_folder(run / CHECKPOINTS / name) for name in ("last", "best"))
    return any((folder / STATE).exists() for folder in folders)


def _checksums(folder: Path) -> dict[str, str]:
    """The checksum of each file of a checkpoint, by the file's name; empty if there is no file of checksums, which
    older versions did not write.
    """
    path = folder / CHECKSUMS
    if not path.exists():
        return {}
    pairs = (line.split("  ", 1) for line in read_text(path).split("\n"))
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
