"""Does a translation model that grows learn another language from few pairs, and what does it forget?

PARENT is a run of ``translation`` from German to English. The first pairs of French and English in Multi30k train four
systems with equally many updates: the recipe from nothing, with 2,000 pieces of its own; PARENT, whose vocabulary grows
by the letters and pieces of the new pairs; the same with 30 % of the pairs from PARENT's data; and PARENT
with low-rank updates beside its matrices, whose embeddings alone are trained whole. BLEU is on
test_2016_flickr from French, and from German, which PARENT knew. The same command again continues interrupted runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from report import Report, columns, row, titled

import transduce
from transduce.core.files import write_lines
from transduce.core.types import Example
from transduce.data.corpora import lines
from transduce.metrics.base import metric
from transduce.wings.recipes.origins.multi30k import Language, Multi30k

SHORT = "training.schedule.warmup=50"  # of all systems, because the budget is short
UNITS = 'data.units={joint={type="bpe", size=2000}}'
FROM_NOTHING = [UNITS, "model.encoder.dropout=0.4", "model.decoder.dropout=0.4", SHORT]
GROWN = ["init.vocabulary=extend", SHORT]
WHOLE = '["encoder.embedding", "decoder.embedding", "decoder.projection"]'
LOW_RANK = f'training.adapter={{type="low-rank", rank=16, whole={WHOLE}}}'
SYSTEMS: dict[str, list[str]] = {
    "from nothing": FROM_NOTHING,
    "grown": [*GROWN, "init.keep_old=0"],
    "grown, 30 % old pairs": [*GROWN, "init.keep_old=0.3"],
    "grown, low rank": [*GROWN, "training.optimizer.rate=3e-3", LOW_RANK, "init.keep_old=0"],
}


@dataclass(frozen=True)
class Data:
    """Multi30k, from a local ``folder`` if there is one. Its changed files stand below ``runs``."""

    folder: str | None
    runs: Path

    def prepared(self, language: Language) -> Path:
        Multi30k(language, "en", self.folder).prepare(self.runs / "multi30k")
        return self.runs / "multi30k"

    def settings(self, language: Language, pairs: int) -> list[str]:
        """Writes the first pairs of a language, and the validation. Returns the settings that name the files."""
        folder = self.runs / f"{language}-{pairs}"
        folder.mkdir(parents=True, exist_ok=True)
        whole = self.prepared(language)
        for side in (language, "en"):
            for split in ("train", "valid"):
                every = [line.decode() for line in lines(whole / f"{split}.{side}")]
                write_lines(folder / f"{split}.{side}", every[:pairs])
        return [
            f'data.{split}={{source="{folder / split}.{language}", target="{folder / split}.en"}}'
            for split in ("train", "valid")
        ]

    def tests(self, language: Language) -> list[Example]:
        """The test sentences from this language into English."""
        place = self.prepared(language) / "test_2016_flickr"
        sides = ([line.decode() for line in lines(place.with_suffix(f".{side}"))] for side in (language, "en"))
        return [Example(source, (target,)) for source, target in zip(*sides, strict=True)]


def bleu(run: Path, tests: list[list[Example]]) -> list[str]:
    """BLEU of a run on each of the tests."""
    transducer = transduce.load(run, device="cpu")
    found = (transducer.evaluate(test, [metric("bleu")]).statistics[0] for test in tests)
    return [f"{each.score:.2f}" for each in found]


def main(
    report: Report,
    parent: Path,
    *,
    runs: Path,
    folder: str | None = None,
    language: Language = "fr",
    pairs: int = 2000,
    updates: int = 300,
    seed: int = 1,
) -> None:
    data = Data(folder, runs)
    files = data.settings(language, pairs)
    tests = [data.tests(each) for each in (language, "de")]
    report.tell(
        *titled(f"A German-English model learns {language}-en from {pairs:,} pairs, {updates:,} updates"),
        *columns(f"| system | BLEU {language}-en | BLEU de-en |"),
        row(["PARENT", *bleu(parent, tests)]),
        runs=[parent],
    )
    common = [f"training.steps={updates}", "training.aligner=false", f"training.seed={seed}"]
    common += ["training.validation.times=4", "training.clock=processor"]
    for system, own in SYSTEMS.items():
        run = runs / system.replace(" %", "").replace(", ", "-").replace(" ", "-")
        init = None if own is FROM_NOTHING else parent
        made = [*files, *own, *common]
        transduce.train("translation", run, made, init=init, resume=True, device="cpu", threads=report.threads)
        report.tell(row([system, *bleu(run, tests)]), runs=[run])
