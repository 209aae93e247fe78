"""Are the terms of a glossary in the translations, and what do they cost?

The glossary is made from the references of test_2016_flickr: a word aligner that has learned from the training set and
from the test set links their words. A term is a source word of five letters or more; its forms are the target words
that it is linked with, both ways and alone. A run translates the sentences without the glossary, with one form of each
term (the most frequent), and with all its forms. A term is right if one of the forms that the glossary has is a word of
the translation. BLEU is against the same references, from which the glossary comes: so it may rise.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from report import Report, columns, titled

import transduce
from transduce.answers.request import Request
from transduce.core.types import Example, Prediction
from transduce.metrics.base import evaluate, metric
from transduce.wings.alignment.corpus import align
from transduce.wings.counted.alignment.training import learn_aligner
from transduce.wings.documents.glossary import Glossary, units_of

Rows = list[list[str]]
LEAST = 5  # letters of a term
Pairs = list[tuple[str, str]]


def corpus(folder: Path, split: str, source: str, target: str) -> Pairs:
    files = (folder / f"{split}.{side}.gz" for side in (source, target))
    sides = [gzip.decompress(path.read_bytes()).decode().splitlines() for path in files]
    return [(" ".join(units_of(a)), " ".join(units_of(b))) for a, b in zip(*sides, strict=True)]


def terms(train: Pairs, test: Pairs) -> Rows:
    """The rows of the glossary: a term, and the words that translate it, the most frequent first."""
    aligner = learn_aligner([*train, *test], "ibm1", passes=5)
    found: dict[str, Counter[str]] = {}
    links = align(aligner, test, "intersection").links
    for pair, (source, target) in enumerate(test):
        words = source.split(), target.split()
        for one, other in links.of_pair(pair):
            if len(words[0][one]) >= LEAST and words[1][other].isalpha():
                found.setdefault(words[0][one], Counter())[words[1][other]] += 1
    return [[term, *(form for form, _ in forms.most_common())] for term, forms in sorted(found.items())]


def right(glossary: Glossary, sources: Sequence[str], outputs: Sequence[str]) -> tuple[int, int]:
    """How many terms the sources have, and how many of them have a form in the outputs."""
    count = kept = 0
    for source, output in zip(sources, outputs, strict=True):
        padded = f" {' '.join(units_of(output))} "
        for forms in glossary.forms(source):
            count += 1
            kept += any(f" {' '.join(units_of(form))} " in padded for form in forms)
    return count, kept


def main(
    report: Report,
    run: Path,
    *,
    folder: Path,
    source: str = "de",
    target: str = "en",
    sentences: int = 1000,
    beam: int = 10,
) -> None:
    test = corpus(folder, "test_2016_flickr", source, target)
    rows = terms(corpus(folder, "train", source, target), test)
    files = (folder / f"test_2016_flickr.{side}.gz" for side in (source, target))
    sources, references = (gzip.decompress(p.read_bytes()).decode().splitlines()[:sentences] for p in files)
    every, model = Glossary.of(rows), transduce.load(run, device="cpu").changed({}, size=beam)
    requests = [Request(each) for each in sources]
    ways = {
        "no glossary": requests,
        "one form of each term": list(map(Glossary.of([row[:2] for row in rows]).applied, requests)),
        "all forms": list(map(every.applied, requests)),
    }
    report.tell(*titled(f"Terms, {source} to {target}, {len(rows):,} terms, beam {beam}"))
    report.tell(*columns("| glossary | sentences | terms | right | BLEU |"), runs=[run])
    for name, asked in ways.items():
        outputs = [answer.best.text for answer in model.answer(asked)]
        count, kept = right(every, sources, outputs)
        examples = [Example(each, (reference,)) for each, reference in zip(sources, references, strict=True)]
        found = evaluate([metric("bleu")], list(map(Prediction, outputs)), examples)["bleu"]
        report.tell(f"| {name} | {len(sources):,} | {count:,} | {kept / count:.1%} | {found:.2f} |")
