"""Finds the units of a recurrent model that follow a property of the text, by correlation and by a linear probe of all
units (Karpathy, Johnson and Fei-Fei, "Visualizing and understanding recurrent networks", 2015).

N characters, U units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.wings.looking.inspection.cells import CellTrace

OPEN, CLOSED = "([{", ")]}"
SHOWN = 10  # units in a list
PENALTY = 1e-4  # weight of the probe's squared weights in its loss
STEPS = 60  # of L-BFGS

Floats = NDArray[np.float64]


def quotes(text: str) -> Floats:
    """1 inside of double quotes, with the opening mark, and 0 outside. An empty line ends a quotation."""
    inside, values = False, []
    for before, each in zip(["", *text], text, strict=False):
        if each == "\n" and before == "\n":
            inside = False
        if each in '"“”':
            inside = each == "“" or (each == '"' and not inside)
        values.append(float(inside))
    return np.array(values)


def brackets(text: str) -> Floats:
    """The number of brackets that are open after each character. It never falls below 0."""
    depth, values = 0, []
    for each in text:
        depth = max(0, depth + (each in OPEN) - (each in CLOSED))
        values.append(float(depth))
    return np.array(values)


def indentation(text: str) -> Floats:
    """The number of spaces at the beginning of the character's line, up to this character."""
    values: list[float] = []
    for line in text.split("\n"):
        spaces = len(line) - len(line.lstrip(" "))
        values += [float(min(place + 1, spaces)) for place in range(len(line) + 1)]
    return np.array(values[:-1])


def place(text: str) -> Floats:
    """The position of each character in its line, counted from 1. A line feed belongs to the line that it ends."""
    values: list[float] = []
    for line in text.split("\n"):
        values += map(float, range(1, len(line) + 2))
    return np.array(values[:-1])


PROPERTIES: dict[str, Callable[[str], Floats]] = {
    "quotes": quotes,
    "brackets": brackets,
    "indentation": indentation,
    "place": place,
}


@dataclass(frozen=True)
class Tracking:
    """The units that follow the property ``name`` best, and how well. Units and probe were chosen on the first half of
    the text. All figures are measured on the second half.

    ``units`` are pairs of a unit and its correlation with the property, the strongest first. ``explained`` is the share
    of the property's variance that the probe explains (R²). ``f1`` is the probe's F1, in percent, for the characters
    whose property is more than 0.
    """

    name: str
    units: tuple[tuple[int, float], ...]
    explained: float
    f1: float
    characters: int

    @property
    def best(self) -> int:
        """The unit with the strongest correlation in the first half."""
        return self.units[0][0]

    def lines(self, found: CellTrace) -> list[str]:
        """Lines for the terminal: the units with their correlations, and the probe's scores."""
        rows = [f"{correlation:+.3f}  {found.name(unit)}" for unit, correlation in self.units]
        about = f"all units together: F1 {self.f1:.1f} %, R² {self.explained:.3f}, on {self.characters:,} characters"
        return [f"correlation with {self.name}", *rows, about]

    def record(self) -> dict[str, object]:
        """The figures as a JSON object."""
        return {
            "property": self.name,
            "units": [{"unit": unit, "correlation": correlation} for unit, correlation in self.units],
            "explained": self.explained,
            "f1": self.f1,
            "characters": self.characters,
        }


def track(found: CellTrace, name: str) -> Tracking:
    """The units of the trace that follow the property ``name``: quotes, brackets, indentation or place. Raises
    UserError for another name, or if the property does not change in one of the halves.
    """
    if name not in PROPERTIES:
        raise UserError(f"property {name!r}: expected {', '.join(PROPERTIES)}")
    values_N = PROPERTIES[name](found.text)
    half = len(values_N) // 2
    for part, where in ((values_N[:half], "first"), (values_N[half:], "second")):
        if not len(part) or part.min() == part.max():
            raise UserError(f"{name} has one value in the {where} half of the text: give a longer text")
    units_NU = np.asarray(found.values_NU, dtype=np.float64)
    chosen_U = np.argsort(-np.abs(correlations(units_NU[:half], values_N[:half])))[:SHOWN]
    after_U = correlations(units_NU[half:, chosen_U], values_N[half:])
    probe_N = _probe(units_NU, values_N, half)
    explained = 1 - ((values_N[half:] - probe_N) ** 2).mean() / values_N[half:].var()
    truth_N, guess_N = values_N[half:] > 0, probe_N > 0.5
    both = truth_N.sum() + guess_N.sum()
    f1 = 100 * 2 * (truth_N & guess_N).sum() / both if both else np.nan
    units = tuple((int(unit), float(each)) for unit, each in zip(chosen_U, after_U, strict=True))
    return Tracking(name, units, float(explained), float(f1), len(values_N) - half)


def correlations(units_NU: Floats, values_N: Floats) -> Floats:
    """Pearson's correlation of each unit with the values [U]. It is 0 for a unit that does not change."""
    units_NU = units_NU - units_NU.mean(0)
    values_N = values_N - values_N.mean()
    norms_U = np.linalg.norm(units_NU, axis=0) * np.linalg.norm(values_N)
    return units_NU.T @ values_N / np.where(norms_U > 0, norms_U, 1)


def _probe(units_NU: Floats, values_N: Floats, half: int) -> Floats:
    """The predictions for the second half by a linear probe of all units, which learns from the first half. If all
    values are 0 or 1, it is a logistic regression and predicts probabilities. Otherwise it is a ridge regression.
    """
    deviation_U = units_NU[:half].std(0)
    scaled_NU = torch.tensor(
        (units_NU - units_NU[:half].mean(0)) / np.where(deviation_U > 1e-9, deviation_U, 1)
    ).float()
    wanted_N = torch.tensor(values_N[:half]).float()
    binary = set(np.unique(values_N)) <= {0.0, 1.0}
    layer = nn.Linear(scaled_NU.shape[1], 1)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, 0.0 if binary else float(wanted_N.mean()))
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=STEPS, line_search_fn="strong_wolfe")
    loss = nn.functional.binary_cross_entropy_with_logits if binary else nn.functional.mse_loss

    def closure() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = loss(layer(scaled_NU[:half])[:, 0], wanted_N) + PENALTY * layer.weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        said_N = layer(scaled_NU[half:])[:, 0]
        found_N: Floats = (said_N.sigmoid() if binary else said_N).double().numpy()
    return found_N
