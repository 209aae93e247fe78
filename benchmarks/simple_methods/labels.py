"""A label for a text, or for a pair of texts: logistic regression of weighted counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scipy.sparse import hstack
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from simple_methods.base import Splits, outputs, right, sources, targets
from transduce.core.types import Prediction

STRENGTHS = (1.0, 3.0, 10.0, 30.0)
"""Values of C: the larger, the less regularisation."""


def of_texts(data: Splits) -> list[Prediction]:
    """TF-IDF of one and two words and of two to five characters."""
    return _classified(data, _counts().fit(sources(data.train)).transform)


def of_pairs(data: Splits) -> list[Prediction]:
    """TF-IDF of both texts, and how they overlap."""
    counts = _counts().fit([text for source in sources(data.train) for text in source.split("\t", 1)])
    shared = DictVectorizer().fit([_overlap(*source.split("\t", 1)) for source in sources(data.train)])

    def features(pairs: Sequence[str]) -> Any:
        first, second = zip(*(pair.split("\t", 1) for pair in pairs), strict=True)
        one, other = counts.transform(first), counts.transform(second)
        overlap = shared.transform([_overlap(*both) for both in zip(first, second, strict=True)])
        return hstack([one, other, abs(one - other), one.multiply(other), overlap]).tocsr()

    return _classified(data, features)


def _counts() -> FeatureUnion:
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True)
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=2)
    return FeatureUnion([("words", words), ("letters", letters)])


def _overlap(one: str, other: str) -> dict[str, float]:
    """Shares of shared words, lengths, and the words that only one of the texts has."""
    first, second = set(one.lower().split()), set(other.lower().split())
    found = {"shared": len(first & second) / len(first | second), "longer": len(first) / len(second)}
    return (
        found
        | {f"only one {word}": 1.0 for word in first - second}
        | {f"only other {word}": 1.0 for word in second - first}
    )


def _classified(data: Splits, features: Callable[[Sequence[str]], Any]) -> list[Prediction]:
    learn, choose, ask = (features(sources(each)) for each in (data.train, data.valid, data.test))

    def trained(strength: float) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=1000).fit(learn, targets(data.train))

    best = max(map(trained, STRENGTHS), key=lambda model: right(model.predict(choose), data.valid))
    return outputs(best.predict(ask))
