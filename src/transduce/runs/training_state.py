"""``checkpoints/last``: everything that training needs to go on to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.files import recover_folder
from transduce.core.text_files import read_json
from transduce.data.batching import Place
from transduce.data.fingerprints import Fingerprints
from transduce.data.fingerprints import from_json as fingerprints_from_json
from transduce.models.weights import save_tensors, save_weights
from transduce.runs.checkpoints import Rank, load_checkpoint, read_tensors, write_checkpoint
from transduce.runs.layout import FINGERPRINTS, MODEL, OPTIMIZER, STATE
from transduce.runs.optimizer_state import ANOTHER, Kept, Moments, optimizer_tensors, restore_optimizer

FORMAT = 1  # of the state that training goes on from; raise it if what the state holds changes
GENERATOR, CARRY = "generator.", "carry."  # prefixes of names in OPTIMIZER
Carry = tuple[Tensor, ...] | None  # what an objective carries from batch to batch


@dataclass(frozen=True)
class State:
    """The state of training, except tensors. ``step`` is the number of updates, ``tokens`` of target tokens that they
    read.

    ``place`` is where the next batch is in the data. ``validations`` holds the value of each validation, lower being
    better. ``validated_step`` is the update of the last of them. ``best`` ranks the best model so far, which may be an
    average, and ``best_step`` is its update. ``stale`` counts the validations in a row without a better model.
    ``seconds`` include the seconds ``validating``. ``reserve`` are the seconds of the budget that the end of training
    may need for validation, and ``part`` is the part of the validation data that it uses. ``recent`` are the updates
    whose weights are kept for the average. ``events`` counts the lines of metrics.jsonl; None in a checkpoint of a
    version that did not count them. ``start`` is the loss of the first update, None if unknown. ``curve`` has the
    update and the loss of each validation.
    """

    step: int = 0
    place: Place = field(default_factory=lambda: Place(0, 0))
    tokens: int = 0
    seconds: float = 0.0
    validating: float = 0.0
    reserve: float = 0.0
    part: float = 1.0
    best_step: int = 0
    best: Rank | None = None
    validated_step: int = 0
    validations: tuple[float, ...] = ()
    stale: int = 0
    recent: tuple[int, ...] = ()
    events: int | None = 0
    start: float | None = None
    curve: tuple[tuple[int, float], ...] = ()


def save_training(
    folder: Path,
    model: nn.Module,
    optimizer: Moments | torch.optim.Optimizer,
    state: State,
    texts: Mapping[str, str],
    carry: Carry = None,
) -> None:
    """Replaces the checkpoint ``folder`` with the weights, the state of the optimiser and of the random generators,
    ``state``, the ``texts`` of other files by name, and what the objective carries to the next batch.
    """
    carried = {f"{CARRY}{place}": tensor for place, tensor in enumerate(carry or ())}
    tensors = optimizer_tensors(model, optimizer) | _generators(_device(model)) | carried

    def fill(new: Path) -> None:
        save_weights(model, new / MODEL)
        save_tensors(tensors, new / OPTIMIZER)

    write_checkpoint(folder, fill, {"format": FORMAT, **asdict(state)}, texts)


def load_training(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, kept: Kept) -> State:
    """The inverse of ``save_training``: restores a new model, a new optimiser and the random generators, in place, and
    returns the state. ``kept`` has what the optimiser keeps. Raises FileNotFoundError if a file of tensors is missing,
    and UserError if a file is damaged or does not fit.
    """
    load_checkpoint(model, folder / MODEL)
    tensors = read_tensors(folder / OPTIMIZER)
    origin = str(folder / OPTIMIZER)
    _restore_generators(tensors, _device(model), origin)
    restore_optimizer(model, optimizer, tensors, origin, kept)
    return read_state(folder)


def load_carry(folder: Path, device: torch.device) -> Carry:
    """What the objective carries to the next batch, on ``device``; None if the checkpoint ``folder`` has nothing."""
    tensors = read_tensors(folder / OPTIMIZER)
    count = sum(name.startswith(CARRY) for name in tensors)
    return tuple(tensors[f"{CARRY}{place}"].to(device) for place in range(count)) or None


def read_state(folder: Path) -> State:
    """The state in the checkpoint ``folder``; raises UserError if it is damaged, or of another format."""
    try:
        record = read_json(folder / STATE)
        if (written := record.pop("format")) != FORMAT:
            raise UserError(
                f"{folder / STATE} has format {written!r}, and this version of transduce goes on with {FORMAT}: go on "
                "with the version that began the run, or train again"
            )
        best = record["best"]
        return State(
            **record
            | {"place": Place(**record["place"]), "best": None if best is None else Rank(**best)}
            | {name: tuple(record[name]) for name in ("validations", "recent")}  # JSON has no tuples
            | {"curve": tuple((step, loss) for step, loss in record["curve"])}
        )
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / STATE} is damaged ({error!r}); resume from a copy, or train again") from error


def read_fingerprints(folder: Path) -> Fingerprints | None:
    """The fingerprints of the data that training read when it wrote the checkpoint ``folder``. None for a checkpoint of
    an earlier version. Raises UserError if they are damaged.
    """
    path = folder / FINGERPRINTS
    if not path.exists():
        return None
    try:
        return fingerprints_from_json(read_json(path))
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error!r}); resume from a copy, or train again") from error


def resume_point(checkpoints: Path) -> Path | None:
    """The folder ``checkpoints/last``; None if there is none yet. Completes or undoes replacements that a kill has
    interrupted, so hold the run's lock.
    """
    last = checkpoints / "last"
    for name in ("last", "best", "average"):
        recover_folder(checkpoints / name)
    return last if last.exists() else None


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


# ---------------------------------------------------------- random generators


def _generators(device: torch.device) -> dict[str, Tensor]:
    """The states of the random generators: of the processor's and, if ``device`` is a GPU, also of that GPU's. The keys
    are their names in the checkpoint's file.
    """
    states = {GENERATOR + "cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states[GENERATOR + "cuda"] = torch.cuda.get_rng_state(device)
    return states


def _restore_generators(tensors: Mapping[str, Tensor], device: torch.device, origin: str) -> None:
    try:
        torch.set_rng_state(tensors[GENERATOR + "cpu"])
        if device.type == "cuda" and GENERATOR + "cuda" in tensors:
            torch.cuda.set_rng_state(tensors[GENERATOR + "cuda"], device)
    except (KeyError, RuntimeError, TypeError) as error:
        raise UserError(
            f"{origin}: the state of the random generators is missing or damaged ({error}); {ANOTHER}"
        ) from error
