"""Compares corrections of running text, in which most words are right: our noisy channel and a library.

    pip install -e '.[benchmarks,recipes]' symspellpy
    python benchmarks running_text FOLDER --runs RUNS

FOLDER has the folders ``spelling``, ``gum``, ``multi30k``, ``text_publicdomain`` and ``lm_warpeace`` of the shared
data. The text has real misspellings in made places: a word for which the test part of Birkbeck's misspellings has one
gets one of them with the probability ``--share``. The first letter keeps its case, and a hash of the line and of the
word's place draws. Words of two letters or more count. The texts are the first sentences of GUM's test part (speech,
news, fiction and others), and the English captions of Multi30k's test_2016_flickr. ``--tune`` uses the valid parts
instead, with the misspellings of Birkbeck's valid part, to choose ``--errors`` and ``--unlisted``.

- the library word by word: symspellpy, for each word that its list lacks the most frequent of the nearest words within
  two edits.
- the library by its ``lookup_compound``, with its list of pairs of words, between two signs.
- the channel alone: ``spelling-channel``, counted from Birkbeck's training part, for each word that its list lacks.
- the channel and n-grams: `transduce correct`, with 3-grams of words of GUM's and Multi30k's training parts, of War and
  Peace and of public-domain texts.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from report import Report, columns, machine, row
from spelling import examples
from symspellpy import SymSpell, Verbosity

import transduce
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics
from transduce.wings.correction.corrector import LETTERS, TOKEN, Corrector, with_capitals

METRICS = ("edit_precision", "edit_recall", "edit_f05")
LETTERS_AND_SPACES = re.compile(r"((?:[^\W\d_]+ )*[^\W\d_]+)")
LIST = "frequency_dictionary_en_82_765.txt"
PAIRS = "frequency_bigramdictionary_en_243_342.txt"


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def sentences(path: Path) -> list[str]:
    """The texts of the sentences of a CoNLL-U file."""
    return [line.removeprefix("# text = ") for line in lines(path) if line.startswith("# text = ")]


def spoiled(text: str, wrong: dict[str, list[str]], share: float) -> str:
    """The text with real misspellings of some of its words."""
    parts, end = [], 0
    for place, token in enumerate(TOKEN.finditer(text)):
        word = token.group()
        drawn = int(hashlib.sha1(f"{text}\t{place}".encode(), usedforsecurity=False).hexdigest(), 16)
        choices = wrong.get(word.lower(), []) if LETTERS.fullmatch(word) else []
        new = word
        if choices and drawn % 1000 < 1000 * share:
            new = with_capitals(choices[drawn // 1000 % len(choices)], word)
        parts += [text[end : token.start()], new]
        end = token.end()
    return "".join([*parts, text[end:]])


def misspellings(path: Path) -> dict[str, list[str]]:
    """The misspellings of each word, in small letters: those of letters alone that differ from the word."""
    found: dict[str, list[str]] = {}
    for example in examples(path):
        wrong, word = example.source.lower(), example.references[0].lower()
        if LETTERS.fullmatch(wrong) and LETTERS.fullmatch(word) and wrong != word:
            found.setdefault(word, []).append(wrong)
    return found


def of_words(correct: Callable[[str], str]) -> Callable[[str], str]:
    """Corrects the words of a text, each alone."""

    def corrected(text: str) -> str:
        return TOKEN.sub(lambda t: correct(t.group()) if LETTERS.fullmatch(t.group()) else t.group(), text)

    return corrected


def by_library() -> tuple[Callable[[str], str], Callable[[str], str]]:
    checker = SymSpell(max_dictionary_edit_distance=2)
    checker.load_dictionary(str(resources.files("symspellpy") / LIST), 0, 1)
    checker.load_bigram_dictionary(str(resources.files("symspellpy") / PAIRS), 0, 2)

    def word(text: str) -> str:
        return str(checker.lookup(text, Verbosity.TOP, 2, include_unknown=True, transfer_casing=True)[0].term)

    def compound(text: str) -> str:
        parts: list[str] = []
        for place, part in enumerate(LETTERS_AND_SPACES.split(text)):
            words = place % 2 == 1  # what the brackets of the expression matched
            parts.append(checker.lookup_compound(part, 2, transfer_casing=True)[0].term if words else part)
        return "".join(parts)

    return of_words(word), compound


def by_channel(speller: transduce.Transducer, listed: set[str]) -> Callable[[str], str]:
    known: dict[str, str] = {}

    def word(text: str) -> str:
        small = text.lower()
        if small in listed:
            return text
        if small not in known:
            known[small] = next(iter(speller.predict([small])))[0].text
        return with_capitals(known[small], text)

    return of_words(word)


def line(name: str, correct: Callable[[str], str], tests: dict[str, list[Example]]) -> str:
    cells = []
    for found in tests.values():
        predictions = [Prediction(correct(example.source or "")) for example in found]
        every = statistics([metric(each) for each in METRICS], predictions, found)
        low, high = Resampling().interval(every[-1])
        cells += [f"{each.score:.1f}" for each in every[:-1]] + [f"{every[-1].score:.1f} ({low:.1f} to {high:.1f})"]
    return f"| {name} | {' | '.join(cells)} |"


def trained(folder: Path, runs: Path, threads: int) -> tuple[transduce.Transducer, transduce.Transducer]:
    """The two runs of ours; what is there already is not trained again."""
    text = runs / "text.txt"
    if not text.exists():
        runs.mkdir(parents=True, exist_ok=True)
        found = sentences(folder / "gum" / "train.conllu.gz") + lines(folder / "multi30k" / "train.en.gz")
        found += lines(folder / "text_publicdomain" / "text.txt.gz")
        for path in sorted((folder / "lm_warpeace").glob("*train*.gz")):
            found += lines(path)
        kept = [f"{line}\n" for line in found if line.strip()]
        text.write_text("".join(kept), encoding="utf-8")
        text.with_name("valid.txt").write_text("".join(kept[:100]), encoding="utf-8")  # decides nothing
    spelling = folder / "spelling"
    pairs = [f"data.{split}.path={spelling / f'birkbeck.{split}.tsv.gz'}" for split in ("train", "valid", "test")]
    words = ["data.units.target={type='words',lowercase=true,minimum_count=2}", "model.order=3"]
    texts = [f"data.train.path={text}", f"data.valid.path={text.with_name('valid.txt')}"]
    limits = ["data.lines.max_target_length=100000", "training.epochs=1"]
    pairs.append("training.validation.examples=50")
    speller = transduce.train("spelling-channel", runs / "speller", pairs, resume=True, device="cpu", threads=threads)
    language = transduce.train(
        "ptb-ngram", runs / "words", [*words, *texts, *limits], resume=True, device="cpu", threads=threads
    )
    return speller, language


def read_tests(folder: Path, split: str, texts: int, share: float) -> dict[str, list[Example]]:
    wrong = misspellings(folder / "spelling" / f"birkbeck.{split}.tsv.gz")
    captions = "test_2016_flickr" if split == "test" else split
    every = {
        "GUM": sentences(folder / "gum" / f"{split}.conllu.gz"),
        "captions": lines(folder / "multi30k" / f"{captions}.en.gz"),
    }
    return {
        name: [Example(spoiled(text, wrong, share), (text,)) for text in found[:texts]] for name, found in every.items()
    }


def described(tests: dict[str, list[Example]]) -> str:
    told = []
    for name, found in tests.items():
        right = [(e.source or "").split() for e in found], [e.references[0].split() for e in found]
        words = sum(map(len, right[1]))
        wrong = sum(a != b for old, new in zip(*right, strict=True) for a, b in zip(old, new, strict=True))
        told.append(f"{name}: {len(found):,} texts, {wrong:,} of {words:,} words wrong ({100 * wrong / words:.1f} %)")
    return "; ".join(told)


def main(
    report: Report,
    folder: Path,
    *,
    runs: Path,
    texts: int = 400,
    share: float = 0.5,
    tune: bool = False,
    errors: float = 0.01,
    unlisted: float = 1e-9,
) -> None:
    speller, language = trained(folder, runs, report.threads)
    tests = read_tests(folder, "valid" if tune else "test", texts, share)
    head = [f"{name}, {each}" for name in tests for each in ("precision", "recall", "F0.5")]
    ours = Corrector(speller, language, errors, unlisted)
    if tune:
        for rate in (0.003, 0.01, 0.03):
            for unknown in (1e-9, 1e-7, 1e-5):
                print(line(f"errors {rate:g}, unlisted {unknown:g}", ours.retuned(rate, unknown), tests), flush=True)
        return
    report.tell("# Corrections of running text", "", f"Measured on {machine()}", "", f"{described(tests)}. In percent.")
    report.tell("", *columns(row(["", *head])), runs=[runs / "speller", runs / "words"])
    word, compound = by_library()
    alone = by_channel(speller, set(ours.listed))
    report.tell(line("symspellpy, word by word", word, tests))
    report.tell(line("symspellpy, `lookup_compound`", compound, tests))
    report.tell(line("`spelling-channel`, words that the list lacks", alone, tests))
    report.tell(line(f"`transduce correct`, errors {errors:g}, unlisted {unlisted:g}", ours, tests))
