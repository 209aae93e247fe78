"""Pronunciations of words that the dictionary does not have, as an ensemble gives them, for another model to learn.

    pip install -e '.[recipes]' names wordfreq
    python benchmarks/beyond_dictionary.py TEACHER FOLDER [--beam 3] [--threads 1] [--most 1000000]
    transduce train g2p-large --teacher TEACHER --set data.train.path=FOLDER/pairs.tsv

TEACHER is a run of pronunciation, or several (RUN+RUN). FOLDER/pairs.tsv will have the pairs that the first of them was
trained on, and behind them words that are in none of its splits, each with the teacher's best output: the surnames and
first names of the census (``names``), then the large English list of ``wordfreq``; of four letters or more, all of them
a to z or an apostrophe, a vowel's among them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import names
import torch
import wordfreq

import transduce
from transduce import config
from transduce.directory import members
from transduce.training.data import split_of
from transduce.types import Example

SPOKEN = re.compile(r"(?=.*[aeiouy])[a-z][a-z']{3,}")


def listed() -> Iterator[str]:
    for file in ("last", "first:female", "first:male"):
        for line in Path(names.FILES[file]).read_text(encoding="utf-8").splitlines():
            yield line.split()[0].lower()
    yield from wordfreq.iter_wordlist("en", wordlist="large")


def unknown(known: set[str]) -> Iterator[str]:
    """What the lists have, each once, and the dictionary does not."""
    for word in dict.fromkeys(listed()):
        if SPOKEN.fullmatch(word) and word not in known:
            yield word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beam", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--most", type=int, default=1_000_000)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    run = members(given.teacher)[0]
    settings = config.read(run / "config.toml")
    splits: dict[str, list[Example]] = {split: split_of(settings, run, split) for split in ("train", "valid", "test")}
    words = list(islice(unknown({each.source for split in splits.values() for each in split}), given.most))
    teacher = transduce.load(given.teacher, precision="bfloat16", size=given.beam)
    taught = [outputs[0].text for outputs in teacher.predict(words, batch_size=256)]
    given.folder.mkdir(parents=True, exist_ok=True)
    with (given.folder / "pairs.tsv").open("w", encoding="utf-8") as file:
        for example in splits["train"]:
            file.writelines(f"{example.source}\t{reference}\n" for reference in example.references)
        file.writelines(f"{word}\t{phonemes}\n" for word, phonemes in zip(words, taught, strict=True) if phonemes)
    print(f"{given.folder / 'pairs.tsv'}: {len(words):,} words that {run} has not seen")


if __name__ == "__main__":
    main()
