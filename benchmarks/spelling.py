"""Compares spelling correction by a noisy channel, by an encoder-decoder of letters, and by a library's corrector.

    pip install -e '.[benchmarks,recipes]' symspellpy
    python benchmarks spelling FOLDER --runs RUNS

FOLDER has birkbeck.train.tsv.gz, birkbeck.valid.tsv.gz, birkbeck.test.tsv.gz and aspell.test.tsv.gz. They have real
misspellings: each line is a misspelling, a tab and its word. The model of ``spelling`` learns from made misspellings
and from birkbeck.train. It trains in RUNS/spelling for ``--minutes`` of processor time; the same command again
continues it. ``spelling-channel`` is counted from birkbeck.train, as the recipe says.

The library's corrector is ``symspellpy`` with its own list of 82,765 words. It chooses the nearest word within two
edits, and the most frequent one of several. The words of Birkbeck's test set are not in its training set. The test set
"aspell, new" is Aspell without the pairs that birkbeck.train has too. Parentheses have 95 % intervals by bootstrap. The
column "can be written" is the share of the words that a list has, or whose tokens a model has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from report import Report, columns, titled
from symspellpy import SymSpell, Verbosity

import transduce
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.types import UNK, Example, Prediction
from transduce.data.corpora import Files
from transduce.data.rows import read
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import statistics
from transduce.wings.recipes.origins.misspellings import english_counts

COUNTED = "spelling-channel"
METRICS = ("exact", "cer")


def examples(path: Path) -> list[Example]:
    return [Example(row.source or "", (row.target or "",)) for row in read(Files(path=str(path)))]


def read_tests(folder: Path) -> dict[str, list[Example]]:
    """The test sets by name."""
    known = {(example.source, example.references) for example in examples(folder / "birkbeck.train.tsv.gz")}
    birkbeck, aspell = (examples(folder / f"{name}.test.tsv.gz") for name in ("birkbeck", "aspell"))
    new = [example for example in aspell if (example.source, example.references) not in known]
    return {"birkbeck": birkbeck, "aspell": aspell, "aspell, new": new}


def settings_of(recipe: str, folder: Path, minutes: float) -> list[str]:
    """The settings that this comparison changes in a recipe."""
    if recipe == COUNTED:
        return [f"data.{split}.path={folder / f'birkbeck.{split}.tsv.gz'}" for split in ("train", "valid", "test")]
    collected = f"data.origin.collected={folder / 'birkbeck.train.tsv.gz'}"
    return ["training.clock=processor", f"training.minutes={minutes}", collected]


def library() -> tuple[Callable[[Sequence[str]], list[str]], Callable[[str], bool]]:
    """The library's corrector, and a function that tells whether it knows a word."""
    checker = SymSpell(max_dictionary_edit_distance=2)
    checker.load_dictionary(str(resources.files("symspellpy") / "frequency_dictionary_en_82_765.txt"), 0, 1)

    def correct(sources: Sequence[str]) -> list[str]:
        options = {"max_edit_distance": 2, "include_unknown": True, "transfer_casing": True}
        return [checker.lookup(source, Verbosity.TOP, **options)[0].term for source in sources]

    return correct, lambda word: word.lower() in checker.words


def corrected(transducer: Transducer, sources: Sequence[str]) -> list[str]:
    return [outputs[0].text for outputs in transducer.predict(sources)]


def writable(transducer: Transducer) -> Callable[[str], bool]:
    """Returns a function that tells whether every token of a word is in a model's vocabulary."""
    return lambda word: UNK not in transducer.target_tokenizer.encode([word])[0]


def listed() -> Callable[[str], bool]:
    """Returns a function that tells whether a word is in the list of the noisy channel."""
    words = english_counts().keys()
    return lambda word: word.lower() in words


def row(
    name: str,
    tests: dict[str, list[Example]],
    correct: Callable[[Sequence[str]], list[str]],
    known: Callable[[str], bool],
) -> str:
    cells = []
    for found in tests.values():
        predictions = [Prediction(text) for text in correct([example.source for example in found])]
        exact, cer = statistics([metric(each) for each in METRICS], predictions, found)
        low, high = Resampling().interval(exact)
        share = sum(known(example.references[0]) for example in found) / len(found)
        cells.append(f"{exact.score:.1f} ({low:.1f} to {high:.1f}) | {cer.score:.1f} | {100 * share:.1f}")
    return f"| {name} | {' | '.join(cells)} |"


def main(
    report: Report,
    folder: Path,
    *,
    runs: Path,
    recipes: Sequence[str] = (COUNTED, "spelling"),
    minutes: float = 15.0,
    settings: Sequence[str] = (),
) -> None:
    if any(each.startswith("training.minutes") for each in settings):
        raise UserError("--set training.minutes: --minutes says how long")
    tests = read_tests(folder)
    report.tell(
        *titled(f"Spelling: {', '.join(recipes)} and a library's corrector"),
        f"{minutes:g} minutes of the processor for each model that is trained; "
        + ", ".join(f"{name} has {len(found):,} misspellings" for name, found in tests.items())
        + ". In percent.",
        "",
        *columns(f"| | {' | '.join(f'{name}, exact | CER | can be written' for name in tests)} |"),
        row("symspellpy", tests, *library()),
    )
    for recipe in recipes:
        made = [*settings_of(recipe, folder, minutes), *settings]
        trained = transduce.train(recipe, runs / recipe, made, resume=True, device="cpu", threads=report.threads)
        known = listed() if recipe == COUNTED else writable(trained)
        report.tell(row(f"`{recipe}`", tests, partial(corrected, trained), known), runs=[runs / recipe])
