"""Native exports from strangers: an export whose tensors or numbers do not fit is refused in a line, and never read.

``scripts/sanitize`` runs the slow test here with the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from test_native import written
from test_native_families import TABLES, searches
from test_native_mixers import MODELS as MIXERS
from torch import Tensor

from families import sources
from libraries import needs_library
from transduce.compute.library import library
from transduce.core import config
from transduce.core.errors import UserError
from transduce.models.weights import load_tensors, save_tensors
from transduce.wings.engines.native.opening import read_model

pytestmark = needs_library

KINDS: dict[str, config.Table] = {
    name: TABLES[name]
    for name in (
        "transformer, pre-norm",
        "luong, gru, scaled dot, fed",
        "bahdanau, peepholes, residual",
        "transformer to recurrent",
        "convs2s",
        "edits",
        "ctc and attention",
        "instant, transformer, tied",
        "classifier, gru, last state",
        "crf, lstm",
        "fusion, not renormalised",
        "recurrent with counts",
        "language model, transformer, no attention",
    )
} | MIXERS
WRONG: list[Any] = [0, -1, 1, 2, 3, 200_000, 2**40, 10**400, 0.5, float("nan"), True, None, "x", "", [], {}, [1], [{}]]
TRIES = {"fast": 3, "slow": 80}  # mutations of each kind


def places(notes: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value of a description, of tables and lists too."""
    if path:
        yield path
    inside = notes.items() if isinstance(notes, dict) else enumerate(notes) if isinstance(notes, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


def mutated_notes(notes: dict[str, Any], random_numbers: random.Random) -> dict[str, Any]:
    """A description with one value that is wrong or missing."""
    changed = copy.deepcopy(notes)
    *above, last = random_numbers.choice([path for path in places(notes) if path[0] != "counted"])
    within: Any = changed
    for key in above:
        within = within[key]
    if random_numbers.random() < 0.3:
        del within[last]
    else:
        within[last] = random_numbers.choice(WRONG)
    return changed


def mutated_tensors(tensors: dict[str, Tensor], random_numbers: random.Random) -> dict[str, Tensor]:
    """Tensors of which one is missing, shorter, longer, of another type or shape, or not finite."""
    changed = dict(tensors)
    name = random_numbers.choice([name for name in tensors if not name.startswith("counted.")])
    tensor, axis = tensors[name], random_numbers.randrange(max(tensors[name].dim(), 1))
    match random_numbers.randrange(7):
        case 0:
            del changed[name]
        case 1:
            changed[name] = tensor.narrow(axis, 0, random_numbers.randrange(tensor.shape[axis])).clone()
        case 2:
            changed[name] = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
        case 3:
            changed[name] = tensor.double() if random_numbers.random() < 0.5 else tensor.to(torch.int16)
        case 4:
            changed[name] = tensor.flatten().clone() if tensor.dim() > 1 else tensor[None].clone()
        case 5:
            changed[name] = torch.full_like(tensor, float("nan")) if tensor.is_floating_point() else tensor + 99
        case 6:
            changed[name] = tensor.t().contiguous() if tensor.dim() == 2 else tensor[:1].clone()
    return changed


def opens(folder: Path, notes: dict[str, Any], tensors: dict[str, Tensor], table: config.Table) -> bool:
    """True if the export is opened, and then predicts; False if it is refused in a line."""
    save_tensors(tensors, folder / "weights.safetensors")
    try:
        model = read_model(library(), folder, notes)
    except UserError as error:
        told = str(error)
    else:
        told = ""
    if told:
        assert "export the run again" in told
        assert "\n" not in told
        return False
    with suppress(UserError):  # a model with fewer positions
        for search in searches(table):
            search(model, sources([5, 9, 2]))
    return True


def attack(name: str, folder: Path, tries: int, seed: int) -> int:
    """Opens mutated exports of a model. Returns how many were refused."""
    random_numbers = random.Random(seed)
    _, notes = written(KINDS[name], folder, random_numbers.choice(["float32", "int8"]))
    tensors = load_tensors(folder / "weights.safetensors")
    assert opens(folder, notes, tensors, KINDS[name])
    refused = 0
    for _ in range(tries):
        refused += not opens(folder, mutated_notes(notes, random_numbers), tensors, KINDS[name])
        refused += not opens(folder, notes, mutated_tensors(tensors, random_numbers), KINDS[name])
    return refused


@pytest.mark.parametrize("name", KINDS)
def test_an_export_that_does_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    assert attack(name, tmp_path, TRIES["fast"], seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_exports_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    assert attack(name, tmp_path, TRIES["slow"], seed=2) > TRIES["slow"]


@pytest.mark.parametrize(
    ("name", "tensor", "shape"),
    [
        ("transformer, pre-norm", "decoder.0.project.weight", (96, 1)),
        ("transformer, pre-norm", "encoder.positions", (2048, 1)),
        ("luong, gru, scaled dot, fed", "keys.weight", (1, 1)),
        ("edits", "remember.weight", (1, 1)),
    ],
)
def test_the_line_names_the_tensor_and_its_shape(
    name: str, tensor: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    _, notes = written(KINDS[name], tmp_path, "float32")
    tensors = load_tensors(tmp_path / "weights.safetensors")
    save_tensors(tensors | {tensor: torch.zeros(shape)}, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match=rf"{tensor} has shape \[{shape[0]}, {shape[1]}\].*were expected"):
        read_model(library(), tmp_path, notes)
