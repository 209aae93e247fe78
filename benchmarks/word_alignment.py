"""Compares word aligners with other programs and with attention, by the alignment error rate against gold links.

Each system learns from the same text, without any links, and aligns it. The text has the test sentences. For en-fr it
also has the 29,000 captions of Multi30k. They are another domain, so errors are higher than published ones, which come
from a million pairs. For the other pairs the text also has the 105 validation sentences and the 1,002 training
sentences of XL-WA. Their silver links are not used. All words are in lower case.

The columns are the alignment error rate (lower is better) of each direction and of the symmetrised links, and the
precision and recall of grow-diag-final-and. Seconds are processor time, for learning from the text and aligning all of
it in both directions. "Agreement" means that both directions learn together (Liang et al. 2006); "alone" means that
they do not. eflomal (Östling and Tiedemann 2016) samples, so its figures vary by some tenths. systran-align is
fast_align (Dyer et al. 2013) as a Python package with the options -d -o -v; it gives symmetrised links only. Attention
comes from a translation model that learned from the captions only, and read each target; it has one direction.
"""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from report import Report, columns, explained, row, titled

import transduce
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.evaluation import HeadScores, scores_by_head
from transduce.wings.alignment.links import Gold, Links, symmetrise
from transduce.wings.alignment.metrics import link_statistics
from transduce.wings.counted.alignment.training import RECIPES, Recipe, count_pairs
from transduce.wings.recipes.origins.word_alignment import WordAlignment

GIVEN = ("en-fr", "en-es", "en-it", "en-et")
SYSTEMS: Mapping[str, Recipe] = {
    "ibm1": RECIPES["ibm1"],
    "ibm2": RECIPES["ibm2"],
    **{
        f"{name}, {way}": replace(RECIPES[name], agreement=way == "agreement")
        for name in ("diagonal", "hmm", "fertility")
        for way in ("alone", "agreement")
    },
}
DIRECTIONS = ("forward", "backward", "intersection", "union", "grow-diag-final-and")
FAST_ALIGN = """
import json, resource, sys
from systran_align import Aligner, generate_alignment_probabilities
text, forth, back = sys.argv[1:]
generate_alignment_probabilities(text, forth, back, favor_diagonal=True, optimize_tension=True, variational_bayes=True)
sides = zip(*(line.rstrip("\\n").split(" ||| ") for line in open(text, encoding="utf-8")))
found = Aligner(forth, back).align_batch(*([side.split() for side in each] for each in sides))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([[each["alignments"] for each in found], used.ru_utime + used.ru_stime]))
"""


@dataclass(frozen=True)
class Text:
    """The pairs to learn from. The pairs from ``first`` on have the links ``gold``, as many as ``gold`` has."""

    name: str
    pairs: list[tuple[str, str]]
    first: int
    gold: Gold

    @classmethod
    def read(cls, name: str, gold: str | None, captions: str | None, folder: Path) -> Text:
        WordAlignment(name, gold, captions).prepare(folder)  # type: ignore[arg-type]
        rows = {
            path.stem: [line.split("\t") for line in path.read_text("utf-8").splitlines()]
            for path in folder.glob("*.tsv")
        }
        pairs = [(source, target) for source, target in rows["train"]]
        return cls(name, pairs, len(rows.get("valid", ())), Gold.read([links for *_, links in rows["test"]]))

    @property
    def test(self) -> list[tuple[str, str]]:
        return self.pairs[self.first : self.first + self.gold.sure.pairs]

    def of_test(self, links: Links) -> Links:
        place_L = links.pair_L - self.first
        kept_L = (place_L >= 0) & (place_L < self.gold.sure.pairs)
        return Links.of(self.gold.sure.pairs, place_L[kept_L], links.source_L[kept_L], links.target_L[kept_L])


Found = tuple[Mapping[str, Links], float]  # the links of the test sentences by direction, and seconds


def ours(text: Text, recipe: Recipe) -> Found:
    begun = time.process_time()
    *_, counts = count_pairs(text.pairs, recipe)
    forth, back = counts.directions()
    whole = symmetrise(forth, back)
    seconds = time.process_time() - begun
    assert whole.pairs == len(text.pairs)
    return _directions(text, forth, back), seconds


def _directions(text: Text, forth: Links, back: Links) -> dict[str, Links]:
    one, other = text.of_test(forth), text.of_test(back)
    both = {name: symmetrise(one, other, name) for name in DIRECTIONS[2:]}  # type: ignore[arg-type]
    return {"forward": one, "backward": other, **both}


def programs(python: Path) -> dict[str, Callable[[Text], Found]]:
    """The other programs that are installed beside this interpreter."""

    def eflomal(text: Text) -> Found:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _joined(text, folder / "text")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            asked = [python.parent / "eflomal-align", "-m", "3", "-i", folder / "text"]
            asked += ["-f", folder / "forth", "-r", folder / "back"]
            subprocess.run([str(each) for each in asked], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            links = [Links.read((folder / side).read_text("utf-8").splitlines()) for side in ("forth", "back")]
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return _directions(text, *links), used

    def systran(text: Text) -> Found:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _joined(text, folder / "text")
            asked = [python, "-c", FAST_ALIGN, folder / "text", folder / "forth", folder / "back"]
            run = subprocess.run([str(each) for each in asked], check=True, capture_output=True, text=True)
        found, seconds = json.loads(run.stdout.splitlines()[-1])
        lines = [" ".join(f"{s}-{t}" for s, t in each) for each in found]
        return {DIRECTIONS[-1]: text.of_test(Links.read(lines))}, seconds

    return {"eflomal 2.0.0": eflomal, "systran-align 3.5.0 (fast_align)": systran}


def _joined(text: Text, path: Path) -> None:
    lines = [f"{source.lower()} ||| {target.lower()}\n" for source, target in text.pairs]
    path.write_text("".join(lines), encoding="utf-8")


def attention(text: Text, run: Path) -> tuple[dict[str, Found], HeadScores]:
    """The links by the mean of all attention, before and after a target word is read, and the scores of all heads."""
    model = transduce.load(run, device="cpu")
    rows: dict[str, Found] = {}
    for when, after in (("before", False), ("after", True)):
        begun = time.process_time()
        links = model.align(text.test, "forward", AttentionChoice(after=after)).links
        rows[f"attention, mean, {when} the word"] = {"forward": links}, time.process_time() - begun
    return rows, scores_by_head(model, text.test, text.gold)


def line(name: str, found: Found, gold: Gold) -> str:
    links, seconds = found
    scores = {
        direction: {each.name: each.score for each in link_statistics(each, gold)} for direction, each in links.items()
    }
    last = scores.get(DIRECTIONS[-1], scores.get("forward", {}))
    cells = [f"{scores[direction]['aer']:.2f}" if direction in scores else "—" for direction in DIRECTIONS]
    cells += [f"{last[name]:.2f}" for name in ("link_precision", "link_recall")]
    return f"| {name} | {' | '.join(cells)} | {seconds:.1f} |"


def main(
    report: Report,
    *,
    pairs: Annotated[Sequence[str], GIVEN] = tuple(GIVEN),
    systems: Annotated[Sequence[str], SYSTEMS] = tuple(SYSTEMS),
    peers: Annotated[Path | None, "an interpreter with eflomal and systran-align"] = None,
    run: Annotated[Path | None, "a translation model of en-fr whose attention aligns"] = None,
    folder: Annotated[str | None, "a local copy of the gold links"] = None,
    captions: Annotated[str | None, "a local copy of Multi30k"] = None,
) -> None:
    report.tell(*titled("Word alignment: models of this package, other programs, and attention"), *explained(__doc__))
    for name in pairs:
        with tempfile.TemporaryDirectory() as work:
            text = Text.read(name, folder, captions, Path(work))
        report.tell("", f"## {text.name}: {text.gold.sure.pairs} test sentences, {len(text.pairs):,} pairs of text", "")
        report.tell(*columns(row(["system", *DIRECTIONS, "precision", "recall", "seconds"])))
        for system in systems:
            report.tell(line(system, ours(text, SYSTEMS[system]), text.gold))
        for system, peer in (programs(peers) if peers else {}).items():
            report.tell(line(system, peer(text), text.gold))
        if run and text.name == "en-fr":
            found, heads = attention(text, run)
            report.tell(*(line(way, each, text.gold) for way, each in found.items()), runs=[run])
            head, *others = heads.rows()
            report.tell("", f"## {text.name}: attention by head, before and after the target word is read", "")
            report.tell(*columns(row(head)), *map(row, others))
