"""The candidates for a task, by the written rules in tasks.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from transduce.core import config, recipes
from transduce.core.errors import UserError
from transduce.core.recipes import Recipe

RULES = "tasks.toml"
VALIDATIONS = 8  # in a training: candidates are compared after the same shares of their budgets
COLUMNS = {"source": "source", "target": "target"}  # of the files that ``splits`` writes


@dataclass(frozen=True)
class Candidate:
    """A recipe with settings of its own. ``instant`` means that it is ready after seconds. ``why`` is for people."""

    name: str
    recipe: str
    settings: config.TableView = field(default_factory=dict)
    instant: bool = False
    why: str = ""

    def table(self, data: Mapping[str, str], steps: int | None = None) -> config.Table:
        """The settings of a run on the files ``data``. The budget is the recipe's updates, or ``steps``: no clock ends
        a training, so that every machine finds the same.
        """
        targets_only = {"target": "target"}
        alone = "source" not in self._units() and "joint" not in self._units()
        columns = targets_only if alone else COLUMNS
        own = recipes.read(self.recipe)
        budget = own.get("training", {})
        changes: config.Table = {"data.columns": columns, **self.settings, **data}
        if steps is not None or "steps" in budget:
            changes |= {"training.steps": steps or budget["steps"], "training.validation.times": VALIDATIONS}
        return recipes.merged(self.recipe, changes).table

    def measuring(self, metric: str) -> Candidate:
        """The candidate with this metric among those that its runs measure."""
        own = self.settings.get("metrics", recipes.read(self.recipe).get("metrics", []))
        return self if metric in own else replace(self, settings={**self.settings, "metrics": [*own, metric]})

    def steps(self) -> int | None:
        """The updates of the recipe's budget; None for a counted model."""
        given = self.settings.get("training.steps", recipes.read(self.recipe).get("training", {}).get("steps"))
        return None if given is None else int(given)

    def _units(self) -> config.Table:
        units = self.settings.get("data.units")
        found: config.Table = units if units is not None else recipes.read(self.recipe)["data"]["units"]
        return found


@dataclass(frozen=True)
class Task:
    """A task of the rules: its ``title`` for people, the ``metric`` that chooses, and its candidates."""

    name: str
    title: str
    metric: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class _Rule:
    recipe: str
    why: str
    name: str | None = None
    settings: config.TableView = field(default_factory=dict)
    instant: bool = False
    from_: int = 0
    below: int | None = None


def task(name: str, pairs: int, rules: Path | None = None) -> Task:
    """The task of this name with the candidates for this number of training pairs, each model once. ``rules`` is a
    file of the user's, None for the rules of the package. Raises UserError if there is none.
    """
    text = (resources.files(__package__) / RULES).read_text(encoding="utf-8") if rules is None else None
    table = config.parse(text.encode(), RULES) if text is not None else config.read(Path(str(rules)))
    tasks = table.get("task", {})
    if name not in tasks:
        raise UserError(f"no rule for the task {name!r}: there are {', '.join(tasks)}")
    found = tasks[name]
    kept = dict[str, Candidate]()
    for entry in found.get("candidate", []):
        rule = _Rule(**{("from_" if key == "from" else key): value for key, value in entry.items()})
        if pairs < rule.from_ or (rule.below is not None and pairs >= rule.below):
            continue
        recipe = sized(rule.recipe, pairs)
        settings = {**({"data.units": found["units"]} if "units" in found else {}), **rule.settings}
        name_of_it = rule.name or (recipe if rule.recipe != recipe else rule.recipe)
        kept.setdefault(name_of_it, Candidate(name_of_it, recipe, settings, rule.instant, rule.why))
    if not kept:
        raise UserError(f"no candidate of the task {name!r} is for {pairs:,} pairs")
    return Task(name, found["title"], found["metric"], tuple(kept.values()))


def sized(recipe: str, pairs: int) -> str:
    """The recipe that ``transduce train`` takes for this number of pairs: by the recipe's own ``sizes``."""
    fitting = [size for size in Recipe.of(recipe).sizes if pairs < size.below]
    return min(fitting, key=lambda size: size.below).recipe if fitting else recipe


def only(task: Task, chosen: Sequence[str]) -> Task:
    """The task with the ``chosen`` candidates alone. Raises UserError for a name that is none of them."""
    if not chosen:
        return task
    known = {each.name: each for each in task.candidates}
    if unknown := [name for name in chosen if name not in known]:
        raise UserError(f"no candidate {unknown[0]!r} for {task.title}: there are {', '.join(known)}")
    return replace(task, candidates=tuple(known[name] for name in chosen))
