"""Trains each family of models on one task with equal minutes, for the records behind the table of docs/families.md.

    python benchmarks/compare_families.py TASK RUNS [--minutes 4] [--families transformer ...]
                                          [--set data.train.path=... ...]
    transduce compare RUNS/* RUNS/lstm-attention+RUNS/joint-ngram
        --record benchmarks/results/records/families-TASK.json

TASK is pronunciation or inflection. The first command trains RUNS/FAMILY: the recipe ``g2p-attention`` or
``inflection`` with the model, the objective and the search of benchmarks/families/FAMILY.toml. It trains for
``--minutes`` of processor time. The same command again continues an interrupted run. Counted families have passes and
no minutes. Translation does not need this script, because its families are the recipes ``multi30k-de-en-FAMILY``.
benchmarks/results/families.toml says which record fills which cell of the table.
"""

from __future__ import annotations

from pathlib import Path

from report import parser_of

from transduce import api
from transduce.core import config
from transduce.training.request import TrainingRequest

MODELS = Path(__file__).parent / "families"
BASES = {"pronunciation": "g2p-attention", "inflection": "inflection"}


def families() -> list[str]:
    return sorted(file.stem for file in MODELS.glob("*.toml"))


def recipe(task: str, family: str, minutes: float) -> config.Table:
    """The recipe of a task with the model of a family. A budget of the family replaces ``minutes``."""
    table = config.read(MODELS / f"{family}.toml")
    training = {"minutes": minutes} | table.get("training", {})
    if "epochs" in training:
        del training["minutes"]
    return {"base": BASES[task]} | table | {"training": training}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("task", choices=list(BASES))
    parser.add_argument("runs", type=Path)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--families", nargs="+", default=families(), choices=families())
    parser.add_argument("--set", action="append", default=[], help="a setting, such as data.train.path=train.tsv")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    files = given.runs.with_name(f"{given.runs.name}-recipes")
    files.mkdir(parents=True, exist_ok=True)
    for family in given.families:
        file = files / f"{family}.toml"
        file.write_text(config.write(recipe(given.task, family, given.minutes)), encoding="utf-8")
        settings = [*given.set, "training.clock=processor"]
        api.train_run(
            TrainingRequest(file, given.runs / family, settings, resume=True), device="cpu", threads=given.threads
        )
    both = f"{given.runs}/lstm-attention+{given.runs}/joint-ngram"
    print(f"transduce compare {given.runs}/* {both} --record families-{given.task}.json")


if __name__ == "__main__":
    main()
