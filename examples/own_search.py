"""A search of one's own: it draws several outputs and writes the one that most of them agree on.

    python examples/own_search.py

A search is a frozen dataclass whose fields are its options. It calls three verbs of a model and returns hypotheses, and
never asks which model it holds. So this one works for a GRU, a Transformer, an n-gram model or an ensemble.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import transduce
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import Hypothesis, Padded
from transduce.search.forcing import force
from transduce.search.sampling import Sampling


@dataclass(frozen=True)
class MostFrequent:
    """Draws ``draws`` outputs from the model's own distribution, and returns the ``nbest`` most frequent ones.

    The score of an output is its count. Its log-probability stays the model's.
    """

    draws: int = 20
    nbest: int = 1
    max_length: int = 200
    seed: int = 1

    def __call__(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
        drawn = Sampling(self.draws, max_length=self.max_length, seed=self.seed)(model, source, prefix)
        return [self._best(hypotheses) for hypotheses in drawn]

    def _best(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        counts = Counter(each.tokens for each in hypotheses)
        by_tokens = {each.tokens: each for each in hypotheses}
        return [replace(by_tokens[tokens], score=float(n)) for tokens, n in counts.most_common(self.nbest)]

    def force(self, model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
        """The model's own log-probability of given targets: no search is needed."""
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> MostFrequent:
        """The same search with another number of draws or outputs, as ``predict --beam`` and ``--nbest`` ask for it."""
        return replace(self, draws=size or self.draws, nbest=nbest or self.nbest)


transduce.register("Search", "most-frequent", MostFrequent)  # now a configuration can say search.type = "most-frequent"


def main() -> list[str]:
    """Trains the recipe ``reverse`` for a short time, and compares the new search with the beam of the recipe."""
    with tempfile.TemporaryDirectory() as folder:
        model = transduce.train("reverse", Path(folder) / "run", {"training.steps": 250}, device="cpu", progress=False)
    words = ["transduce", "sequence", "hypothesis"]
    agreed = model.with_search(MostFrequent(max_length=30))
    for word in words:
        print(f"{word}: beam {model(word)}, most frequent of 20 {agreed(word)}")
    return [agreed(word) for word in words]


if __name__ == "__main__":
    main()
