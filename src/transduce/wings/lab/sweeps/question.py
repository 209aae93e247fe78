"""The question of a sweep: the models that it compares. It is kept beside the results in sweep.toml."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transduce.core import config
from transduce.core.config.errors import shown
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.wings.lab.sweeps.grid import SEED, SweepCell, SweepGrid, Vary
from transduce.wings.records.changes import PLACES

FILE = "sweep.toml"
SPLITS = ("test", "valid")
SEEDS = 3
MOST_SEEDS = 10_000


class OtherQuestionError(UserError):
    """The folder's sweep had other settings, so its cells cannot be compared with the new ones.

    It is made with the folder ``cell`` of one old cell, the ``differences`` of that cell, and the ``count`` of old
    cells that differ.
    """

    def __init__(self, cell: Path, differences: Sequence[str], count: int) -> None:
        others = f" (and {count - 1} other cells)" if count > 1 else ""
        super().__init__(
            f"{cell} is of another question{others}: {', '.join(differences[:5])}"
            f"{', ...' if len(differences) > 5 else ''}. Choose another directory (--out), or delete what differs "
            "(--overwrite)"
        )


@dataclass(frozen=True)
class Question:
    """The question of a sweep, as sweep.toml keeps it: what to train and where to measure it.

    ``recipe`` is the recipe of all cells, or None if the grids vary it. ``settings`` are shared by all cells, by dotted
    key. Each of the ``grids`` adds cells; more can be added later. ``split`` is "valid" or "test", and "test" means
    valid if there is no test; it does not change the training. Raises UserError for another split, a key that is both
    set and varied, or two cells with one name.
    """

    recipe: str | None
    settings: Mapping[str, object]
    grids: tuple[SweepGrid, ...] = field(default=())
    split: str = SPLITS[0]

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UserError(f"split = {self.split!r}: {' or '.join(SPLITS)} was expected")
        for key in itertools.chain.from_iterable(grid.vary for grid in self.grids):
            if key in self.settings:
                raise UserError(f"{key} is both set and varied: do one of the two")
        named: dict[str, SweepCell] = {}
        for cell in self.asked():
            if named.setdefault(cell.name, cell) != cell:
                raise UserError(f"two cells would be called {cell.name}: {named[cell.name].variant} and {cell.variant}")
        for grid in self.grids:
            names = [cell.name for cell in grid.cells(self.recipe)]
            if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
                raise UserError(f"two cells would be called {twice[0]}: is a value given twice?")

    def asked(self) -> list[SweepCell]:
        """The cells of all grids, one grid after the other. A cell that is in several grids comes several times."""
        return [cell for grid in self.grids for cell in grid.cells(self.recipe)]

    def cells(self) -> list[SweepCell]:
        """All cells of all grids. A cell that is in several grids comes once."""
        return list({cell.name: cell for cell in self.asked()}.values())

    def differences(self, other: Question) -> list[str]:
        """The differences of recipe and settings between this question and the newer ``other``, as "key = new (was
        old)".

        Grids, splits and the places of data (``PLACES``) do not count. If the list is not empty, the cells of the two
        questions cannot share a table.
        """
        keys = [key for key in {**self.settings, **other.settings} if key not in PLACES]
        both: list[tuple[str, object, object]] = [("recipe", self.recipe, other.recipe)]
        both += [(key, self.settings.get(key), other.settings.get(key)) for key in keys]
        return [f"{key} = {now!r} (was {was!r})" for key, was, now in both if was != now]

    def joined(self, other: Question) -> Question:
        """This question with the grids of both, and with the places of data (``PLACES``) and the split of the newer
        ``other``.
        """
        places = {key: other.settings[key] for key in PLACES if key in other.settings}
        grids = (*self.grids, *(grid for grid in other.grids if grid not in self.grids))
        return Question(self.recipe, {**self.settings, **places}, grids, other.split)

    def write(self, out: Path) -> None:
        """Writes sweep.toml into the sweep's directory ``out``, which is made if it is missing."""
        table: config.Table = {} if self.recipe is None else {"recipe": self.recipe}
        table |= {"split": self.split, "settings": dict(self.settings)}
        table |= {"grid": [{"seeds": list(grid.seeds), "vary": _lists(grid.vary)} for grid in self.grids]}
        write_text(out / FILE, config.write(table))

    @classmethod
    def read(cls, out: Path) -> Question | None:
        """The question in the sweep's directory ``out``, or None if there is none yet."""
        if not (out / FILE).exists():
            return None
        table = config.read(out / FILE)
        grids = tuple(SweepGrid(grid["vary"], tuple(grid["seeds"])) for grid in table["grid"])
        return cls(table.get("recipe"), table["settings"], grids, table.get("split", SPLITS[0]))


def ask(
    recipe: str | Path | None,
    vary: Vary,
    seeds: int | Sequence[int] | None,
    settings: Mapping[str, object] | Sequence[str],
) -> Question | None:
    """A question with one grid, from the arguments of ``sweep``. An integer n as ``seeds`` means the seeds 1 to n, and
    None means ``SEEDS`` of them.

    Returns None if there is neither a recipe nor ``vary``. Raises UserError if there are seeds or settings without
    them, or if ``settings`` has ``training.seed``.
    """
    if recipe is None and not vary:
        if seeds is not None or settings:
            raise UserError(
                "seeds and settings are of a grid, and without a recipe and vary (--vary) a sweep goes on as it was "
                "asked: say of what they are, or leave them out"
            )
        return None
    given = _mapping(settings)
    if (seed := config.flatten(given).get(SEED)) is not None:
        raise UserError(f"set {SEED}: seeds have an option of their own, --seeds {seed}, with the comma for that one")
    counted = SEEDS if seeds is None else seeds
    if isinstance(counted, int) and counted > MOST_SEEDS:
        raise UserError(f"seeds = {shown(counted)}: at most {MOST_SEEDS:,} were expected; list them as 1,5,7")
    listed = tuple(range(1, counted + 1)) if isinstance(counted, int) else tuple(counted)
    return Question(None if recipe is None else str(recipe), given, (SweepGrid(_lists(vary), listed),))


def _mapping(settings: Mapping[str, object] | Sequence[str]) -> dict[str, object]:
    """Settings by dotted key, from a mapping or from a list of "key=value"."""
    if isinstance(settings, Mapping):
        return {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    parsed = {}
    for setting in [settings] if isinstance(settings, str) else settings:
        config.override({}, setting)  # raises ConfigError if it is invalid
        key, _, text = setting.partition("=")
        parsed[key.strip()] = config.override({}, f"value={text}")["value"]
    return parsed


def _lists(vary: Mapping[str, Sequence[object]]) -> config.Table:
    return {key: list(values) for key, values in vary.items()}
