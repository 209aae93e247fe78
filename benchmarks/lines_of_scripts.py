"""Reads lines of print in scripts that run from right to left, beside Latin letters, with equal updates.

    pip install -e '.[recipes,plots,vision]' wordfreq
    python benchmarks lines_of_scripts en he ar --runs runs/scripts

A text has the frequent words of a language (wordfreq), drawn by chance. One word in twenty is a number, some numbers
have a point, a comma or a sign, and one in ten of all words stands in brackets or has a mark after it. The origin
``text-lines`` draws lines of one to three words in two fonts that have all of these scripts (DejaVu Sans). The recipe
is ``ocr-lines``: only the text, the fonts, the number of updates and what --set says are set. "signs and digits
wrong" looks at lines with brackets or digits. A line is wrong if its brackets and digits differ from the reference, in
number or order.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import wordfreq
from report import Report, columns, row, titled

import transduce
from transduce.answers.transducer import Transducer
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.recipes.origins.fonts import fonts

WORDS = 5_000  # the most frequent words of a language
LENGTH = 100_000  # words of a text
FORMS = ("{}", "{},{:03}", "{}.{}", "{}%", "{}-{}", "{}/{}")
COLUMNS = (
    "language",
    "lines of test",
    "cer",
    "lines right, %",
    "signs and digits wrong, %",
    "updates",
    "times the first",
)
SIGNS = re.compile(r"[\d()\[\]]")


def text(language: str) -> str:
    """A text of frequent words, the same one each time."""
    chance = random.Random(f"lines of {language}")
    words = [word for word in wordfreq.top_n_list(language, WORDS) if word.isalpha()]
    return " ".join(_word(chance.choice(words), chance) for _ in range(LENGTH))


def _word(word: str, chance: random.Random) -> str:
    if chance.random() < 0.05:
        word = chance.choice(FORMS).format(chance.randrange(1000), chance.randrange(1000))
    drawn = chance.random()
    if drawn < 0.05:
        return chance.choice(("({})", "[{}]")).format(word)
    return word + chance.choice(".,:;!?") if drawn < 0.1 else word


def trained(language: str, runs: Path, updates: int, more: Sequence[str], threads: int) -> Path:
    """The run of a language, trained now or before, with ``more`` settings."""
    run, drawn, chosen = runs / language, runs / f"{language}.txt", runs / "fonts"
    chosen.mkdir(parents=True, exist_ok=True)
    for font in fonts():
        if font.name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"):
            shutil.copy(font, chosen)
    drawn.write_text(text(language), encoding="utf-8")
    settings = [f'data.origin.text="{drawn}"', f'data.origin.fonts="{chosen}"', f"training.steps={updates}"]
    settings += ["training.clock=processor", *more]
    transduce.train("ocr-lines", run, settings, resume=True, device="cpu", threads=threads)
    return run


def measured(run: Path) -> tuple[int, float, float, float]:
    """The number of lines of test, the character error, the lines that are right, and those with brackets or digits
    whose brackets and digits are wrong, in percent.
    """
    transducer: Transducer = transduce.load(run, device="cpu")
    examples = Run.open(run).examples("test")
    scores = transducer.evaluate(examples, [metric("cer"), metric("exact")]).scores
    outputs = [best.text for best, *_ in transducer.predict([example.source for example in examples])]
    expected = [SIGNS.findall(example.references[0]) for example in examples]
    wrong = [signs != SIGNS.findall(output) for signs, output in zip(expected, outputs, strict=True) if signs]
    return len(examples), scores["cer"], scores["exact"], 100 * sum(wrong) / len(wrong)


def main(
    report: Report, languages: Sequence[str], *, runs: Path, updates: int = 1000, settings: Sequence[str] = ()
) -> None:
    report.tell(*titled("Lines of print in other scripts"), *columns(row(COLUMNS)))
    first = None
    for language in languages:
        run = trained(language, runs, updates, settings, report.threads)
        count, cer, exact, wrong = measured(run)
        first = first or cer
        cells = [f"{count:,}", f"{cer:.2f}", f"{exact:.1f}", f"{wrong:.1f}", f"{updates:,}", f"{cer / first:.2f}"]
        report.tell(row([language, *cells]), runs=[run])
