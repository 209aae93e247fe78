"""Back-translation: a model of the opposite direction makes sources for targets that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.answers.answer import Answer, with_warnings
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.metrics.units import one_line

Pair = tuple[str, str]


@dataclass(frozen=True)
class WordNoise:
    """Noise on the words of a text (Edunov et al. 2018, section 3). White space separates words.

    Each word is removed with probability ``remove``; one word at least stays. Then each remaining word is replaced by
    ``filler`` with probability ``replace``. Then words change places: no word moves more than ``distance`` places. The
    noise on text number n depends on ``seed`` and on n. Raises UserError if ``remove`` or ``replace`` is not from 0 to
    less than 1, if ``distance`` is below 0, or if ``filler`` is not one word.
    """

    remove: float = 0.1
    replace: float = 0.1
    distance: int = 3
    filler: str = "<gap>"
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("remove", "replace"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: a probability from 0 to less than 1 was expected")
        if self.distance < 0:
            raise UserError(f"distance = {self.distance}: at least 0 places were expected")
        check_word("filler", self.filler)

    def __call__(self, text: str, number: int) -> str:
        """The text with noise; ``number`` is its number in the data."""
        words = np.array(text.split(), object)
        if not len(words):
            return text
        random = np.random.default_rng([self.seed, number])
        stays = random.random(len(words)) >= self.remove
        stays[int(random.integers(len(words)))] = True
        words = words[stays]
        words[random.random(len(words)) < self.replace] = self.filler
        return " ".join(words[self._order(len(words), random)])

    def _order(self, words: int, random: np.random.Generator) -> NDArray[np.int64]:
        """The places of the words in their new order. A number from 0 to ``distance`` + 1 is added to each place, and
        the sums are sorted (Lample et al. 2018, section 2.3).
        """
        return np.argsort(np.arange(words) + random.uniform(0, self.distance + 1, words), kind="stable")


def back_translated(
    reverse: Transducer,
    targets: Iterable[str],
    batch_size: int = 64,
    told: Callable[[Iterator[Answer]], Iterator[Answer]] = with_warnings,
) -> Iterator[Pair]:
    """Yields a pair (source, target) for each target, in order. ``reverse`` reads a target and writes its source, by
    its own search. A pair is left out if its target is empty or cannot be answered, or if the reverse model writes
    nothing. ``told`` passes the answers on, and tells their problems.
    """
    requests = (Request(target) for target in targets if target.strip())
    for answer in told(reverse.answer(requests, batch_size=batch_size, tolerant=True)):
        source = "" if answer.problem else one_line(answer.best.text).strip()
        if source:
            yield source, answer.request.source


def noised(pairs: Iterable[Pair], noise: WordNoise) -> Iterator[Pair]:
    """Yields the pairs with ``noise`` on their sources. The first pair has the number 0."""
    for number, (source, target) in enumerate(pairs):
        yield noise(source, number), target


def tagged(pairs: Iterable[Pair], tag: str) -> Iterator[Pair]:
    """Yields the pairs with the word ``tag`` and a space before each source, so that a model can tell synthetic pairs
    from real ones (Caswell et al. 2019). Raises UserError if ``tag`` is not one word.
    """
    check_word("tag", tag)
    for source, target in pairs:
        yield f"{tag} {source}", target


def mixed(real: Sequence[Pair], synthetic: Iterable[Pair], weight: int = 1) -> Iterator[Pair]:
    """Yields the real pairs ``weight`` times, then the synthetic pairs. Training draws pairs in random order, so a real
    pair counts ``weight`` times as much as a synthetic one. Raises UserError if ``weight`` is below 1.
    """
    if weight < 1:
        raise UserError(f"weight = {weight}: a real pair occurs at least once")
    for _ in range(weight):
        yield from real
    yield from synthetic


def check_word(name: str, word: str) -> None:
    """Raises UserError unless ``word`` is one word. ``name`` is what the message calls it."""
    if len(word.split()) != 1 or word != word.strip():
        raise UserError(f"{name} = {word!r}: one word without white space was expected")
