"""Trains each family of models on one task with equal minutes, for the records behind the table of docs/families.md.

TASK is pronunciation or inflection. The first command trains RUNS/FAMILY: the recipe ``g2p-attention`` or
``inflection`` with the model, the objective and the search of benchmarks/families/FAMILY.toml. It trains for
``--minutes`` of processor time. The same command again continues an interrupted run. Counted families have passes and
no minutes. Translation does not need this script, because its families are the recipes ``multi30k-de-en-FAMILY``.
benchmarks/results/families.toml says which record fills which cell of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from report import Report

from transduce import api
from transduce.core import config
from transduce.training.request import TrainingRequest

MODELS = Path(__file__).parent / "families"
BASES = {"pronunciation": "g2p-attention", "inflection": "inflection"}
FAMILIES = sorted(file.stem for file in MODELS.glob("*.toml"))


def recipe(task: str, family: str, minutes: float) -> config.Table:
    """The recipe of a task with the model of a family. A budget of the family replaces ``minutes``."""
    table = config.read(MODELS / f"{family}.toml")
    training = {"minutes": minutes} | table.get("training", {})
    if "epochs" in training:
        del training["minutes"]
    return {"base": BASES[task]} | table | {"training": training}


def main(
    report: Report,
    task: Annotated[str, BASES],
    runs: Path,
    *,
    minutes: float = 4,
    families: Annotated[Sequence[str], FAMILIES] = FAMILIES,
    settings: Sequence[str] = (),
) -> None:
    files = runs.with_name(f"{runs.name}-recipes")
    files.mkdir(parents=True, exist_ok=True)
    for family in families:
        file = files / f"{family}.toml"
        file.write_text(config.write(recipe(task, family, minutes)), encoding="utf-8")
        request = TrainingRequest(file, runs / family, [*settings, "training.clock=processor"], resume=True)
        api.train_run(request, device="cpu", threads=report.threads)
    both = f"{runs}/lstm-attention+{runs}/joint-ngram"
    report.tell(f"transduce compare {runs}/* {both} --record families-{task}.json")
