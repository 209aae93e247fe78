"""How good sentence vectors are on pairs of sentences: relatedness and entailment, as on SICK (Marelli et al. 2014).

N pairs, D features, C classes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.data import corpora
from transduce.wings.vectors.corpus import split
from transduce.wings.vectors.correlation import Estimate, estimate, pearson, share
from transduce.wings.vectors.representations.regression import chosen
from transduce.wings.vectors.representations.retrieval import PARAPHRASE, retrieval
from transduce.wings.vectors.table import Floats, normalised

SCORES = np.arange(1.0, 6.0)  # relatedness is from 1 to 5
NEGATIONS = {"no", "not", "n't", "nobody", "none", "nothing", "never", "without", "neither", "nor", "cannot"}
Embed = Callable[[Sequence[str]], Floats]  # N sentences to vectors [N, D]


class SentencePair(NamedTuple):
    """Two sentences, their relatedness from 1 to 5, and the label of their entailment."""

    one: str
    other: str
    score: float
    label: str


@dataclass(frozen=True)
class PairSets:
    """Pairs for training, for the choice of the regression's strength, and for measuring."""

    train: Sequence[SentencePair]
    valid: Sequence[SentencePair]
    test: Sequence[SentencePair]

    @property
    def labels(self) -> list[str]:
        """The labels of the training pairs, sorted."""
        return sorted({pair.label for pair in self.train})


@dataclass(frozen=True)
class PairResult:
    """The results of one kind of sentence vectors on the test pairs.

    ``cosine`` is Pearson's correlation of cosine and relatedness, for which nothing is learned; None for features that
    are no vectors. ``relatedness`` is that of a regression's relatedness. ``entailment`` is the accuracy of a logistic
    regression. ``retrieval`` is the share of sentences whose nearest other sentence is a paraphrase
    (``retrieval.retrieval``), among all sentences of the test pairs; None for features that are no vectors.
    """

    name: str
    width: int
    cosine: Estimate | None
    relatedness: Estimate
    entailment: Estimate
    retrieval: Estimate | None = None


def read_sick(path: str | Path) -> list[SentencePair]:
    """The pairs of a file in SICK's columns: number, sentence, sentence, relatedness, label, separated by tabs. Raises
    UserError, with the line, for another form, and for a file without pairs.
    """
    found = []
    for number, line in enumerate(corpora.text_lines(Path(path)), 1):
        fields = line.split("\t")
        try:
            _, one, other, score, label = fields
            found.append(SentencePair(one, other, float(score), label))
        except ValueError:
            raise UserError(
                f"{path}:{number}: {len(fields)} columns: a number, two sentences, a score and a label were expected, "
                "separated by tabs"
            ) from None
    if not found:
        raise UserError(f"{path} has no pairs of sentences")
    return found


def measure_vectors(name: str, embed: Embed, sets: PairSets) -> PairResult:
    """Measures sentence vectors u and v by the features |u - v| and u * v (Tai et al. 2015; Conneau et al. 2017)."""
    every = (sets.train, sets.valid, sets.test)
    u = [embed([pair.one for pair in pairs]) for pairs in every]
    v = [embed([pair.other for pair in pairs]) for pairs in every]
    features = [np.concatenate([np.abs(a - b), a * b], -1) for a, b in zip(u, v, strict=True)]
    cosine_N = (normalised(u[2].astype(np.float64)) * normalised(v[2].astype(np.float64))).sum(-1)
    scores_N = np.array([pair.score for pair in sets.test])
    found = _measured(name, u[0].shape[1], estimate(pearson, cosine_N, scores_N), features, sets)
    texts = list(dict.fromkeys(text for pair in sets.test for text in pair[:2]))
    place = {text: row for row, text in enumerate([pair.one for pair in sets.test] + [p.other for p in sets.test])}
    vectors_ND = np.concatenate([u[2], v[2]])[[place[text] for text in texts]]
    paraphrases = [(pair.one, pair.other) for pair in sets.test if pair.score >= PARAPHRASE]
    return replace(found, retrieval=retrieval(vectors_ND, texts, paraphrases))


def measure_overlap(sets: PairSets) -> PairResult:
    """Measures the features of ``overlap``: what can be said without reading the sentences."""
    features = [np.array([overlap(pair) for pair in pairs]) for pairs in (sets.train, sets.valid, sets.test)]
    return _measured("word overlap and negation", features[0].shape[1], None, features, sets)


def measure_majority(sets: PairSets) -> PairResult:
    """Measures features that are always the same: the most frequent label, and no correlation."""
    features = [np.zeros((len(pairs), 1)) for pairs in (sets.train, sets.valid, sets.test)]
    found = _measured("nothing: the most frequent label", 0, None, features, sets)
    return replace(found, relatedness=Estimate(math.nan, math.nan, math.nan))


def overlap(pair: SentencePair) -> list[float]:
    """Features of a pair without its meaning: the shares of the words of each sentence that the other one has, the
    share of common words, the difference of the lengths in words, the sentences with a negation (first, second, one
    alone), and the last of these times the share of common words.
    """
    one, other = (set(split(text.lower())) for text in pair[:2])
    common = len(one & other)
    jaccard = common / max(1, len(one | other))
    negated = [float(_negates(text)) for text in pair[:2]]
    alone = abs(negated[0] - negated[1])
    lengths = [len(split(text)) for text in pair[:2]]
    shares = [common / max(1, len(words)) for words in (one, other)]
    return [*shares, jaccard, float(lengths[0] - lengths[1]), *negated, alone, alone * jaccard]


def _negates(text: str) -> bool:
    return not NEGATIONS.isdisjoint(re.sub(r"n['’]t\b", " n't", text.lower()).split())


def _measured(name: str, width: int, cosine: Estimate | None, features: Sequence[Floats], sets: PairSets) -> PairResult:
    """Fits both regressions on the training features, chooses their strengths on the validation features, and measures
    them on the test features.
    """
    labels, scores = sets.labels, [np.array([p.score for p in pairs]) for pairs in (sets.train, sets.valid, sets.test)]
    classes = [np.array([_class(p.label, labels) for p in pairs]) for pairs in (sets.train, sets.valid, sets.test)]
    related = chosen(features[0], graded(scores[0]), lambda fit: _correlation(fit(features[1]) @ SCORES, scores[1]))
    entailing = chosen(
        features[0],
        np.eye(len(labels))[classes[0]],
        lambda fit: float((fit(features[1]).argmax(1) == classes[1]).mean()),
    )
    right = int((entailing(features[2]).argmax(1) == classes[2]).sum())
    relatedness = estimate(pearson, related(features[2]) @ SCORES, scores[2])
    return PairResult(name, width, cosine, relatedness, share(right, len(sets.test)))


def graded(score_N: Floats) -> Floats:
    """The distribution [N, 5] over the scores 1 to 5 whose mean is the relatedness: the two whole numbers next to it
    share the probability (Tai et al. 2015, section 4.2). A relatedness beyond 1 to 5 counts as 1 or 5.
    """
    distance_NC = np.abs(score_N.clip(SCORES[0], SCORES[-1])[:, None] - SCORES)
    share_NC: Floats = (1 - distance_NC).clip(min=0)
    return share_NC


def _class(label: str, labels: Sequence[str]) -> int:
    """The index of a label; one past the last for a label that training does not have, which is always wrong."""
    return labels.index(label) if label in labels else len(labels)


def _correlation(x_N: Floats, y_N: Floats) -> float:
    """Pearson's correlation, and -1 if one side is constant, so that a maximum can be taken."""
    found = pearson(x_N, y_N)
    return -1.0 if found != found else found
