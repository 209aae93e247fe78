"""Tasks that use word vectors: what a change of the vectors, such as debiasing, costs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transduce.wings.vectors.analogies import Question, analogies
from transduce.wings.vectors.bias import Figure
from transduce.wings.vectors.corpus import split
from transduce.wings.vectors.representations.pairs import PairSets, measure_vectors
from transduce.wings.vectors.sentences import average
from transduce.wings.vectors.table import Vectors


@dataclass(frozen=True)
class Tasks:
    """The tasks to measure: ``questions`` are sections of analogies, and ``sentences`` are scored pairs of sentences
    for regressions. Either may be None.
    """

    questions: Mapping[str, Sequence[Question]] | None = None
    sentences: PairSets | None = None

    @property
    def words(self) -> set[str] | None:
        """The words that the tasks need; None for all, because any word can be the answer of an analogy."""
        if self.questions is not None:
            return None
        if self.sentences is None:
            return set()
        every = (self.sentences.train, self.sentences.valid, self.sentences.test)
        return {word for pairs in every for pair in pairs for text in pair[:2] for word in split(text)}

    def figures(self, vectors: Vectors) -> tuple[Figure, ...]:
        """The figures of the tasks: the accuracy of all analogies (3CosAdd), then, of averages of word vectors, the
        correlation with relatedness and the accuracy of entailment (``measure_vectors``).
        """
        found = []
        if self.questions is not None:
            total = analogies(vectors, self.questions)[-1]
            found.append(Figure(f"analogies, % ({total.covered} questions)", total.accuracy, 100))
        if self.sentences is not None:
            measured = measure_vectors("", lambda texts: average(vectors, texts), self.sentences)
            found.append(Figure("sentences: Pearson with relatedness", measured.relatedness))
            found.append(Figure("sentences: entailment accuracy, %", measured.entailment, 100))
        return tuple(found)
