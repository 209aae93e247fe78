"""A linear classifier of pairs of sentences, estimated in seconds."""

from __future__ import annotations

from transduce.core.types import Padded
from transduce.wings.labels.linear import LinearLabels, check_least
from transduce.wings.labels.ngram_features import Bag
from transduce.wings.labels.pair_features import pair_bags


class LinearPairClassifier(LinearLabels):
    """p(y | x) = softmax(W f(x) + b), where f(x) are what two sentences share and what only one of them has.

    The source's unit is "pair". The first features are words and pairs of words that both sentences have. The two words
    of a pair stand 1 to ``apart`` places apart, and both ends of a sentence count as words. Then come the words that
    only one sentence has, once with the sentence's number and once without it. A cross feature is a word that only the
    first sentence has together with a word that only the second has, once with their order and once without it. If a
    sentence has more than ``crossed`` words of its own, its pair has no cross features. The last features are numbers
    of words.

    Values, weights and their regularisation are as in "linear-classifier" with ``unknown``. Each kind of features has
    its own norm. Features in fewer than ``minimum_count`` training pairs have no weight. Raises UserError if
    ``minimum_count`` is below 1, or another number below 0, and for a source with one sentence.
    """

    what = "linear classifier of pairs"

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        source_words: int,
        minimum_count: int = 2,
        apart: int = 2,
        crossed: int = 12,
    ) -> None:
        check_least("apart", apart, 0)
        check_least("crossed", crossed, 0)
        super().__init__(source_vocabulary, target_vocabulary, source_words, minimum_count, unknown=True)
        self.apart, self.crossed = apart, crossed

    def bags(self, source: Padded) -> tuple[Bag, ...]:
        return pair_bags(source, self.alphabet, self.apart, self.crossed)
