"""How the settings of a run differ from a shipped recipe, then and now."""

from __future__ import annotations

from transduce.core import config, recipes
from transduce.core.types import Facts
from transduce.training.settings import Settings
from transduce.wings.records.record import Change, TrainedModel

PLACES = ("data.cache", "data.origin.folder")  # where the same data lie on this machine
UNCOUNTED = (*PLACES, "training.aligner")  # which is made after training, and which no measure reads
SPLIT_FILES = tuple(f"data.{split}." for split in ("train", "valid", "test"))
CONDITIONS = ("training.clock", "training.precision", "training.seed")  # no choice of settings
BUDGET = tuple(f"training.{limit}" for limit in recipes.BUDGET)
WORK = 0.15  # a budget in minutes made as many updates as a budget in updates if they differ by at most this share
IN_VALIDATION = "training.validation.search"  # without it, the limits of the run's own search hold there
OWN_TEXT = {"plays": "data.origin.path", "sentences": "data.origin.text"}  # what users give to these origins of data


def differing_settings(wanted: config.Table, run: config.Table, facts: Facts) -> dict[str, Change]:
    """The settings in which a run differs from wanted settings, by dotted key, sorted. ``Change.recipe`` is the wanted
    value, ``Change.run`` the run's.

    Missing defaults are filled in on both sides, with the run's ``facts``. The keys ``UNCOUNTED`` do not count, and a
    wanted precision of "auto" agrees with any. The units do not count if the run took them from the run that it started
    from.
    """
    then, now = (config.flatten(config.resolve(table, Settings, facts)) for table in (wanted, run))
    if then.get("training.precision") == "auto":
        then["training.precision"] = now.get("training.precision")
    compared = (then.keys() | now.keys()) - set(UNCOUNTED)
    if now.get("init.vocabulary", "own") != "own":  # the run has the units of the run that it started from
        compared = {key for key in compared if not key.startswith("data.units.")}
    return {key: Change(then.get(key), now.get(key)) for key in sorted(compared) if then.get(key) != now.get(key)}


def differences(recipe: config.Table, run: config.Table, facts: Facts) -> dict[str, Change]:
    """The settings in which a run differs from a recipe, by dotted key, as ``differing_settings`` finds them.

    If the recipe has no origin of data, the files that the run names for its splits do not count. Nor does an origin
    that the run does not use, because it names its training files: the recipe for more data has that origin.
    """
    found = differing_settings(recipe, run, facts)
    if "origin" in recipe.get("data", {}):
        return found
    uncounted = (*SPLIT_FILES, *(("data.origin.",) if own_files(run) else ()))
    return {key: change for key, change in found.items() if not (key.startswith(uncounted) and change.recipe is None)}


def own_files(run: config.Table) -> bool:
    """Returns True if a run names its training files, so that it reads nothing from an origin of data."""
    return any(run.get("data", {}).get("train", {}).get(key) for key in ("path", "source", "target"))


def nearest_recipe(run: config.Table, facts: Facts, preferred: str = "") -> tuple[str, dict[str, Change]]:
    """The name of the shipped recipe with the fewest differences from a run, and these differences. Recipes without a
    model are left out.

    If several recipes are equally near, the one named ``preferred`` wins, then the first by name.
    """
    found = {}
    for name in recipes.names():
        table = recipes.read(name)
        if "model" in table:  # else it is the base of others
            found[name] = differences(table, run, facts)
    name = min(found, key=lambda each: (len(found[each]), each != preferred, each))
    return name, found[name]


def changed_since(model: TrainedModel) -> dict[str, Change]:
    """The changes of the shipped recipe since a model was recorded, by dotted key. ``Change.recipe`` is the value
    today, ``Change.run`` the value then. The keys ``UNCOUNTED`` do not count.

    A setting that is new in the package counts only if the recipe sets it, because its default keeps the old behaviour.
    The search in validation, which only chooses the best checkpoint, counts only if the recipe sets it. A budget counts
    by its work: it is unchanged if the run has made about as many updates as the recipe allows. It does not count if
    the run had a budget of its own. A recipe that is gone, or that can no longer be resolved, is one change.
    """
    if model.recipe not in recipes.names():
        return {"recipe": Change(None, model.recipe)}
    table, then = recipes.read(model.recipe), _recipe_settings(model)
    copies, entries, placeholders = (
        next((tuple(value) for key, value in then.items() if key.endswith(f".{fact}")), ())
        for fact in ("copies", "target_entries", "placeholders")
    )
    facts = Facts(**model.facts, copies=copies, target_entries=entries, placeholders=placeholders)
    try:
        now = config.flatten(config.resolve(table, Settings, facts))
    except config.ConfigError as error:
        return {error.path or "recipe": Change(str(error), None)}
    written = config.flatten(table)
    if now["training.precision"] == "auto" and "training.precision" not in model.difference:
        now["training.precision"] = then["training.precision"]
    if not any(key.startswith(IN_VALIDATION) for key in written):  # the run's own search, without a choice
        then = {key: value for key, value in then.items() if not key.startswith(IN_VALIDATION)}
    if _same_work(model, written.get("training.steps")) or not model.difference.keys().isdisjoint(BUDGET):
        then |= {key: now.get(key) for key in BUDGET if key in now or key in then}
    keys = (key for key in sorted(then.keys() | now.keys()) if key in then or key in written)
    found = {key: Change(now.get(key), then.get(key)) for key in keys if key not in UNCOUNTED}
    return {key: change for key, change in found.items() if change.recipe != change.run}


def _same_work(model: TrainedModel, steps: int | None) -> bool:
    """Returns True if a run has made about as many updates as a budget of ``steps`` allows."""
    return steps is not None and model.effort is not None and abs(model.effort.updates / steps - 1) <= WORK


def choices(model: TrainedModel) -> dict[str, Change]:
    """The differences of a run from its recipe that are choices of settings. Its seed, clock and precision are none,
    nor is a text that the recipe leaves to the user.
    """
    origin = model.configuration.get("data", {}).get("origin") or {}
    uncounted = (*CONDITIONS, OWN_TEXT.get(origin.get("type", "")))
    return {key: change for key, change in model.difference.items() if key not in uncounted}


def as_shipped(model: TrainedModel) -> bool:
    """Returns True if a run has the recipe's own settings."""
    return not choices(model)


def _recipe_settings(model: TrainedModel) -> config.Table:
    """The recipe's settings when the model was recorded: its configuration without its changes."""
    then = config.flatten(model.configuration)
    for key, change in model.difference.items():
        then.pop(key, None)
        if change.recipe is not None:
            then[key] = change.recipe
    named = any(key.startswith("data.train.") for key in model.difference)  # files in the place of the recipe's data
    if "data.origin.type" not in then or (own_files(model.configuration) and not named):
        then = {key: value for key, value in then.items() if not key.startswith((*SPLIT_FILES, "data.origin."))}
    return {key: value for key, value in then.items() if key not in UNCOUNTED}
