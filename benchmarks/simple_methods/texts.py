"""Texts: summaries, shorter sentences, vectors of sentences, and language models."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from nltk.lm import WittenBellInterpolated
from nltk.lm.preprocessing import padded_everygram_pipeline
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from simple_methods.base import Splits, outputs, sources, targets
from transduce.core.types import Prediction

SENTENCE = re.compile(r"(?<=[.!?])\s+")
ORDER, WIDTH = 3, 300


def first_sentence(data: Splits) -> list[Prediction]:
    return outputs([SENTENCE.split(text.strip(), maxsplit=1)[0] for text in sources(data.test)])


def all_words(data: Splits) -> list[Prediction]:
    """The source."""
    return outputs(sources(data.test))


def similarity(data: Splits) -> list[Prediction]:
    """The cosine of the two sentences of each source, of TF-IDF vectors reduced to 300 numbers."""
    texts = [text for source in sources(data.train) for text in source.split("\t")]
    counts = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True).fit(texts)
    known = counts.transform(texts)
    reduced = TruncatedSVD(min(WIDTH, known.shape[1] - 1), random_state=1).fit(known)
    return cosines(sources(data.test), lambda some: reduced.transform(counts.transform(some)))


def cosines(pairs: Sequence[str], embed: object) -> list[Prediction]:
    """The cosine of the vectors of each pair of sentences."""
    one, other = (embed([pair.split("\t")[side] for pair in pairs]) for side in (0, 1))  # type: ignore[operator]
    return outputs([f"{value:.6f}" for value in (_unit(one) * _unit(other)).sum(1)])


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def trigrams(data: Splits) -> list[Prediction]:
    """nltk's interpolated trigrams (Witten and Bell). A word that training does not have is <UNK>."""
    lines = [text.split() for text in targets(data.train)]
    model = WittenBellInterpolated(ORDER)
    model.fit(*padded_everygram_pipeline(ORDER, lines))
    found = []
    for text in targets(data.test):
        words = [*["<s>"] * (ORDER - 1), *text.split(), "</s>"]
        chances = (model.score(words[at], words[at - ORDER + 1 : at]) for at in range(ORDER - 1, len(words)))
        log_prob = sum(math.log(max(each, 1e-12)) for each in chances)
        found.append(Prediction("", forced_log_prob=log_prob, forced_length=len(words) - ORDER + 1, forced_end=True))
    return found
