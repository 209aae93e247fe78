"""Does a translation model gain from parts of speech beside its source? Our own tagger tags the English sources.

TAGGER is a run of ``tagging`` or ``tagging-hmm`` on English, such as GUM. Words and punctuation marks of the English
captions are divided, tagged, and cut into subwords (BPE of 4,000 entries). Each piece gets the tag of its word, as in
Sennrich and Haddow 2016. The model comes from ``multi30k-de-en-gru``, but translates English to German. Both systems
read the same pieces: "words" has 256 features for each piece, and "words and tags" has 224 for a piece and 32 for its
tag. Each has the same minutes of processor time. ``--updates`` gives each the same updates instead, because a minute
has fewer updates while a machine has other work. Parentheses have 95 % intervals by bootstrap over the sentences of
test_2016_flickr; the last column is the difference. The same command again continues interrupted runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from report import Report, columns, titled

import transduce
from transduce.core.files import write_lines
from transduce.data.corpora import lines
from transduce.data.tokenizers.text import Bpe, TextTokenizer
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling, middle
from transduce.metrics.statistics import Statistics
from transduce.runs.run import Run
from transduce.wings.recipes.origins.multi30k import Multi30k

SIZE = 4000  # entries of the source's subwords
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
RECIPE = "multi30k-de-en-gru"
TARGET = 'target={type="unigram", size=4000}'
SPLITS = ("train", "valid", "test")
SYSTEMS = {
    "words": [f'data.units={{source={{type="symbols"}}, {TARGET}}}'],
    "words and tags": [
        f'data.units={{source={{type="factored", factors=2}}, {TARGET}}}',
        'model.encoder.embedding={type="concatenated", widths=[224, 32]}',
        "training.batching.tokens=1792",  # tags count too, so an update has as many target tokens as without tags
    ],
}


def prepare(tagger: transduce.Transducer, runs: Path, folder: str | None, pairs: int) -> None:
    """Writes the three splits into ``runs``, unless they are there: SPLIT.words, SPLIT.tagged and SPLIT.de."""
    if all((runs / f"{split}.tagged").exists() for split in SPLITS):
        return
    Multi30k("en", "de", folder).prepare(runs / "multi30k")
    english, german = dict[str, list[str]](), dict[str, list[str]]()
    for split in SPLITS:
        file = runs / "multi30k" / ("test_2016_flickr" if split == "test" else split)
        english[split], german[split] = (
            [line.decode() for line in lines(file.with_suffix(f".{language}"))] for language in ("en", "de")
        )
        english[split] = [" ".join(WORD.findall(line)) for line in english[split]]
    english["train"], german["train"] = english["train"][:pairs], german["train"][:pairs]
    cutter = Bpe(SIZE).learn(english["train"])
    for split in SPLITS:
        tags = tagger(english[split])
        cut = [pieces(cutter, line, own) for line, own in zip(english[split], tags, strict=True)]
        write_lines(runs / f"{split}.de", german[split])
        write_lines(runs / f"{split}.words", [" ".join(piece for piece, _ in line) for line in cut])
        write_lines(runs / f"{split}.tagged", [" ".join(f"{piece}|{tag}" for piece, tag in line) for line in cut])


def pieces(cutter: TextTokenizer, line: str, tags: str) -> list[tuple[str, str]]:
    """The subwords of a line, each with the tag of its word."""
    words = line.split()
    ids = cutter.encode(words)
    return [
        (piece.replace("|", "&#124;"), tag)
        for own, tag in zip(ids, tags.split(), strict=True)
        for piece in cutter.tokens(own[:-1])
    ]


def translated(system: str, seed: int, runs: Path, budget: str, threads: int) -> Statistics:
    """The BLEU statistics of one system on test. Trains it first if it is not finished."""
    run, source = runs / f"{system.replace(' ', '-')}-{seed}", "tagged" if "tags" in system else "words"
    settings = [f'data.{split}={{source="{runs / split}.{source}", target="{runs / split}.de"}}' for split in SPLITS]
    settings += [*SYSTEMS[system], budget, f"training.seed={seed}", "training.clock=processor"]
    transducer = transduce.train(RECIPE, run, settings, resume=True, device="cpu", threads=threads)
    return transducer.evaluate(Run.open(run).examples("test"), [metric("bleu")]).statistics[0]


def rows(seed: int, found: dict[str, Statistics]) -> list[str]:
    """The lines of the table for one seed."""
    resampling = Resampling()
    drawn = {system: resampling.bootstrap(each) for system, each in found.items()}
    written = []
    for system, each in found.items():
        low, high = middle(drawn[system])
        gain = "–"
        if system != "words":
            least, most = middle(drawn[system] - drawn["words"])
            gain = f"{each.score - found['words'].score:+.2f} ({least:+.2f} to {most:+.2f})"
        written.append(f"| {seed} | {system} | {each.score:.2f} ({low:.2f} to {high:.2f}) | {gain} |")
    return written


def main(
    report: Report,
    tagger: Path,
    *,
    runs: Path,
    folder: str | None = None,
    pairs: int = 29_000,
    minutes: float = 5.0,
    updates: Annotated[int | None, "the budget of each system, instead of minutes"] = None,
    seeds: Sequence[int] = (1,),
) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    prepare(transduce.load(tagger, device="cpu"), runs, folder, pairs)
    report.tell(*titled("Parts of speech beside the source, Multi30k, English to German"))
    report.tell(*columns("| seed | source | BLEU | gain |"), runs=[tagger])
    budget = f"training.steps={updates}" if updates else f"training.minutes={minutes}"
    for seed in seeds:
        found = {system: translated(system, seed, runs, budget, report.threads) for system in SYSTEMS}
        made = [runs / f"{system.replace(' ', '-')}-{seed}" for system in SYSTEMS]
        report.tell(*rows(seed, found), runs=made)
