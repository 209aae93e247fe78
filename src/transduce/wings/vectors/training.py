"""Training of word vectors by the library gensim: CBOW, skip-gram, and both with subwords (fastText)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import numpy as np

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.files import write_file
from transduce.core.stages import Stage
from transduce.wings.vectors import files
from transduce.wings.vectors.corpus import Corpus
from transduce.wings.vectors.table import Vectors

if TYPE_CHECKING:
    from gensim.models import FastText, Word2Vec

Method = Literal["skip-gram", "cbow"]
MOST = {
    "width": 100_000,
    "window": 10_000,
    "minimum_count": 2**31 - 1,
    "epochs": 1_000_000,
    "negative": 10_000,
    "rate": 100.0,
}
"""The largest value of each number. gensim waits for ever for threads that a larger one has ended."""


@dataclass(frozen=True)
class VectorTraining:
    """The settings of the training of word vectors.

    The ``method`` "skip-gram" predicts the words around a word. The ``method`` "cbow" predicts a word from the words
    around it. Both look up to ``window`` words away (Mikolov et al. 2013). The objective is negative sampling with
    ``negative`` noise words. If ``subwords`` is True, a word's vector is the sum of the vectors of its character
    n-grams of 3 to 6 characters (Bojanowski et al. 2017), so every word has a vector. Words rarer than
    ``minimum_count`` have no vector of their own. ``rate`` is the first learning rate; it falls linearly to nearly 0
    over the ``epochs``. Raises UserError for an unknown method, and for a number that is not positive or is larger
    than ``MOST`` says.
    """

    method: Method = "skip-gram"
    subwords: bool = False
    width: int = 100
    window: int = 5
    minimum_count: int = 5
    epochs: int = 5
    negative: int = 5
    rate: float = 0.025
    seed: int = 1

    def __post_init__(self) -> None:
        if self.method not in ("skip-gram", "cbow"):
            raise UserError(f'method = {self.method!r}: expected "skip-gram" or "cbow"')
        for name, most in MOST.items():
            if not 0 < getattr(self, name) <= most:  # True for NaN
                raise UserError(f"{name} = {getattr(self, name)}: a number above 0, at most {most:,}, was expected")


@dataclass(frozen=True)
class TrainedVectors:
    """Trained vectors, and their ``model`` in the library gensim. ``write`` saves them in a file."""

    vectors: Vectors
    model: Word2Vec | FastText
    subwords: bool

    def write(self, path: Path) -> None:
        """Writes the vectors as word2vec text, without subwords. If the name ends with .bin, vectors with subwords
        become fastText's .bin, and vectors without subwords become word2vec binary.
        """
        if self.subwords and path.suffix == ".bin":
            library = files.fasttext_library()
            write_file(path, lambda scratch: library.save_facebook_model(self.model, str(scratch)))
        else:
            files.save(self.vectors, path)


def train(
    corpus: Corpus, how: VectorTraining, threads: int = 1, after_epoch: Callable[[int], None] | None = None
) -> TrainedVectors:
    """Trains word vectors on a corpus. ``after_epoch`` is called after each epoch with the number of epochs that are
    done.

    One thread gives the same vectors each time; several threads do not. Raises UserError if no word of the corpus
    occurs ``how.minimum_count`` times, and MissingPackageError if gensim is not installed.
    """
    library = _library()
    counts = corpus.counts()
    frequent = sum(count >= how.minimum_count for count in counts.values())
    if not frequent:
        raise UserError(
            f"no word of the corpus occurs {how.minimum_count} times (the most frequent one: {max(counts.values())}): "
            "give more text, or lower the minimum count"
        )
    kind = library.FastText if how.subwords else library.Word2Vec
    model = kind(
        vector_size=how.width,
        window=how.window,
        min_count=how.minimum_count,
        sg=int(how.method == "skip-gram"),
        negative=how.negative,
        alpha=how.rate,
        epochs=how.epochs,
        seed=how.seed,
        workers=threads,
    )
    model.build_vocab_from_freq(dict(counts), corpus_count=sum(1 for _ in corpus))
    with Stage("passes", how.epochs) as now:

        def count(done: int) -> None:
            now.done = done
            if after_epoch:
                after_epoch(done)

        calls = [_epoch_callback(count)]
        total = sum(counts.values())
        model.train(corpus, total_examples=model.corpus_count, total_words=total, epochs=how.epochs, callbacks=calls)
    words = tuple(model.wv.index_to_key)
    matrix_VD = np.array(model.wv.vectors, dtype=np.float32)
    subwords = model.wv.get_vector if how.subwords else None
    return TrainedVectors(Vectors(words, matrix_VD, subwords, "trained vectors"), model, how.subwords)


def _library() -> ModuleType:
    try:
        return import_module("gensim.models")
    except ImportError as error:
        raise MissingPackageError(f"training of word vectors needs gensim: {files.GENSIM}") from error


def _epoch_callback(after_epoch: Callable[[int], None]) -> object:
    """The library's callback that calls ``after_epoch``."""
    from gensim.models.callbacks import CallbackAny2Vec

    class Epochs(CallbackAny2Vec):  # type: ignore[misc]
        done = 0

        def on_epoch_end(self, model: object) -> None:
            self.done += 1
            after_epoch(self.done)

    return Epochs()
