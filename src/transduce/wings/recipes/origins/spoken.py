"""Spoken digits, single and in strings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import held_out
from transduce.wings.recipes.origins.chance import Chance, chance_of, one
from transduce.wings.recipes.origins.recordings import RATE, Recording, Spoken, recordings, spoken_splits, wav
from transduce.wings.signals.tokenizers.sound import Samples, resampled


@dataclass(frozen=True)
class SpokenDigits:
    """The Free Spoken Digit Dataset (Jackson et al. 2018): recordings of English digits and the word for each, from
    GitHub.

    There are 3,000 recordings by six speakers, at 8,000 samples a second. For each digit and speaker, recordings 0 to 4
    are for test (300), 5 to 7 for valid (180), and the rest for training (2,520). ``leave_out`` names a speaker whose
    500 recordings become the test set and are in no other split; then recordings 0 to 4 of the other speakers are in no
    split. ``folder`` holds a local copy (a checkout, or wav.tar.gz) that replaces the download. The checksum of all
    recordings is checked.
    """

    folder: str | None = None
    leave_out: str | None = None

    def prepare(self, folder: Path) -> Splits:
        read = _once(self.folder, self.leave_out)
        return spoken_splits(folder, lambda split: (Spoken(each.name, each.wav, each.word) for each in read()[split]))


@dataclass(frozen=True)
class SpokenStrings:
    """Strings of ``shortest`` to ``longest`` digits by one speaker each, such as "three one four".

    They are made from the recordings of the same split of ``spoken-digits``; ``folder`` and ``leave_out`` are as there.
    ``strings`` are for training; valid and test have a tenth of that each, at least 100. ``pause`` is the least and the
    most silence around and between digits, in seconds. ``noise`` is the least and the most distance of the white noise
    over the whole string, in decibels below the string. ``speed`` 0.1 makes the digits of a training string up to a
    tenth shorter (and higher) or longer (and lower), all by the same ratio. The same ``seed`` gives the same strings.
    Raises DataError for a value that is not allowed.
    """

    strings: int = 2000
    shortest: int = 3
    longest: int = 7
    pause: tuple[float, float] = (0.05, 0.3)
    noise: tuple[float, float] = (15.0, 30.0)
    speed: float = 0.0
    seed: int = 1
    folder: str | None = None
    leave_out: str | None = None

    def __post_init__(self) -> None:
        if self.strings < 1:
            raise DataError(f"strings = {self.strings}: at least one is needed to learn from")
        if not 1 <= self.shortest <= self.longest:
            raise DataError(f"shortest = {self.shortest}, longest = {self.longest}: a string has a digit at least")
        if not 0 <= self.pause[0] <= self.pause[1]:
            raise DataError(f"pause = {list(self.pause)}: expected seconds, the least and the most")
        if not self.noise[0] <= self.noise[1]:
            raise DataError(f"noise = {list(self.noise)}: expected decibels, the least and the most")
        if not 0 <= self.speed < 1:
            raise DataError(f"speed = {self.speed}: expected 0 (as it is) to less than 1")

    def prepare(self, folder: Path) -> Splits:
        read = _once(self.folder, self.leave_out)
        return spoken_splits(folder, lambda split: self._strings(split, read()[split]))

    def _strings(self, split: Split, found: list[Recording]) -> Iterator[Spoken]:
        spoken: dict[str, dict[int, list[Recording]]] = defaultdict(lambda: defaultdict(list))
        for each in found:
            spoken[each.speaker][each.digit].append(each)
        speakers = sorted(spoken)
        for number in range(self.strings if split == "train" else held_out(self.strings)):
            chance = chance_of(self.seed, split, number)
            digits = spoken[one(speakers, chance)]
            length = int(chance.integers(self.shortest, self.longest + 1))
            chosen = [one(digits[one(sorted(digits), chance)], chance) for _ in range(length)]
            fastest = self.speed if split == "train" else 0.0
            x_N = self._joined([each.samples for each in chosen], chance.uniform(1 - fastest, 1 + fastest), chance)
            yield Spoken(f"{number:06}", wav(x_N), " ".join(each.word for each in chosen))

    def _joined(self, digits: list[Samples], ratio: float, chance: Chance) -> Samples:
        """The digits, each stretched to ``ratio`` times its length, with pauses and noise. If a sample is beyond 1, all
        are divided by the largest.
        """
        parts = [self._silence(chance)]
        for x_N in digits:
            parts += [resampled(x_N, ratio), self._silence(chance)]
        clean_N = np.concatenate(parts)
        level = np.sqrt(np.mean(clean_N**2)) * 10 ** (-chance.uniform(*self.noise) / 20)
        noisy_N: Samples = clean_N + np.float32(level) * chance.standard_normal(len(clean_N), np.float32)
        return noisy_N / np.float32(max(1.0, np.abs(noisy_N).max()))

    def _silence(self, chance: Chance) -> Samples:
        return np.zeros(round(chance.uniform(*self.pause) * RATE), np.float32)


def _once(folder: str | None, leave_out: str | None) -> Callable[[], dict[Split, list[Recording]]]:
    """A function that reads the recordings of all splits at its first call and remembers them."""
    return cache(lambda: recordings(folder, leave_out))
