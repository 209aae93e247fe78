"""Writes pronunciations of words that the dictionary does not have, by a teacher, as training pairs of another model.

    pip install -e '.[recipes]' names wordfreq
    python benchmarks beyond_dictionary TEACHER FOLDER [--listed 1000000] [--invented 0] [--beam 3] [--workers 1]
    transduce train g2p-attention --minutes 60 --teacher TEACHER --set data.train.path=FOLDER/pairs.tsv
        --set data.origin.type=cmudict

TEACHER is a run of pronunciation, or several (RUN+RUN). FOLDER/pairs.tsv gets the training pairs of the first run, then
new words, each with the teacher's best output. A new word is in none of the splits of that run. It has at least four
characters: letters from a to z, with at least one vowel, or apostrophes. The new words come from the surnames and first
names of the census (``names``), then from the large English list of ``wordfreq``. The last ones are invented. They are
drawn from an n-gram model of the letters of the training words and of the most frequent new words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import names
import numpy as np
import torch
import wordfreq
from report import Report
from torch import Tensor

import transduce
from transduce.core.types import Example
from transduce.runs.layout import members
from transduce.runs.run import Run
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_lookup import NgramLookup

SPOKEN = re.compile(r"(?=.*[aeiouy])[a-z][a-z']{3,}")
FREQUENT = 120_000  # listed words that the n-grams of letters learn from
ORDER = 7
LONGEST = 20  # letters of an invented word
DRAWN = 40_000  # words drawn at a time; about half of them are new
BATCHES = 1_000  # at most
ASKED = 16_384  # words between two lines of progress
SEED = 1


def names_and_words() -> Iterator[str]:
    for file in ("last", "first:female", "first:male"):
        for line in Path(names.FILES[file]).read_text(encoding="utf-8").splitlines():
            yield line.split()[0].lower()
    yield from wordfreq.iter_wordlist("en", wordlist="large")


def inventions(like: Sequence[str]) -> Iterator[str]:
    letters = sorted(set("".join(like)))
    number = {letter: place for place, letter in enumerate(letters)}
    ngrams = NgramLookup()
    ngrams.learn(estimate([np.array([number[letter] for letter in word]) for word in like], len(letters), ORDER))
    random = torch.Generator().manual_seed(SEED)
    for _ in range(BATCHES):
        for drawn in draw(ngrams, random).tolist():
            if ngrams.end in drawn:
                yield "".join(letters[letter] for letter in drawn[: drawn.index(ngrams.end)])


def draw(ngrams: NgramLookup, random: torch.Generator) -> Tensor:
    """Draws words: ids [N, T] of letters, padded with the end. A row without an end is a word that is longer than T."""
    choice_W = torch.arange(ngrams.end + 1)  # a letter or the end
    ids_NT = torch.full((DRAWN, LONGEST + 1), ngrams.end)
    going_G, history_G = torch.arange(DRAWN), torch.full((DRAWN,), ngrams.begun)
    for place in range(LONGEST + 1):
        log_prob, after = ngrams(history_G.repeat_interleave(len(choice_W)), choice_W.repeat(len(going_G)))
        drawn_G1 = torch.multinomial(log_prob.view(-1, len(choice_W)).exp(), 1, generator=random)
        ids_NT[going_G, place] = drawn_G1[:, 0]
        on_G = drawn_G1[:, 0] != ngrams.end
        going_G, history_G = going_G[on_G], after.view(-1, len(choice_W)).gather(1, drawn_G1)[on_G, 0]
    return ids_NT


def unknown(words: Iterable[str], known: set[str]) -> Iterator[str]:
    """Yields the words that match ``SPOKEN`` and are not in ``known``, and adds each one to ``known``."""
    for word in words:
        if SPOKEN.fullmatch(word) and word not in known:
            known.add(word)
            yield word


def main(
    report: Report,
    teacher: str,
    folder: Path,
    *,
    listed: Annotated[int, "words of the lists, at most"] = 1_000_000,
    invented: Annotated[int, "words that are invented"] = 0,
    beam: int = 3,
    precision: Literal["float32", "bfloat16"] = "float32",
    workers: Annotated[int, "processes, each with a thread"] = 1,
) -> None:
    run = members(teacher)[0]
    splits: dict[str, list[Example]] = {split: Run.open(run).examples(split) for split in ("train", "valid", "test")}
    known = {each.source for split in splits.values() for each in split}
    words = list(islice(unknown(names_and_words(), known), listed))
    if invented:
        like = sorted({each.source for each in splits["train"]} | set(words[:FREQUENT]))
        words += islice(unknown(inventions(like), known), invented)
    load = partial(transduce.load, teacher, precision=precision, size=beam)
    pool: transduce.Workers[transduce.Transducer] = transduce.Workers(load, workers)
    model = replace(load(), workers=pool)
    folder.mkdir(parents=True, exist_ok=True)
    pairs, written = folder / "pairs.tsv", 0
    new = pairs.with_name("pairs.tsv.new")
    with closing(pool), new.open("w", encoding="utf-8") as file:
        for example in splits["train"]:
            file.writelines(f"{example.source}\t{reference}\n" for reference in example.references)
        for place in range(0, len(words), ASKED):
            asked = words[place : place + ASKED]
            best = (outputs[0].text for outputs in model.predict(asked, batch_size=256))
            lines = [f"{word}\t{phonemes}\n" for word, phonemes in zip(asked, best, strict=True) if phonemes]
            file.writelines(lines)
            written += len(lines)
            print(f"{place + len(asked):,} of {len(words):,} words", flush=True)
    new.rename(pairs)
    report.tell(f"{pairs}: {written:,} words, all new to {run}")
