"""benchmarks/tagged_sources.py: the factors of words and of their pieces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from transduce.core import recipes
from transduce.data.batching import Batches, Batching
from transduce.data.tokenizers.text import Bpe

pytestmark = pytest.mark.usefixtures("benchmarks")

CONLLU = """# sent_id = 1
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur|Case=Nom\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""
TAGS = {"Dogs": "NOUN;Number=Plur", "bark": "VERB", "a|b": "SYM"}


def test_sentences_have_forms_lemmas_and_tags_with_morphology(tmp_path: Path) -> None:
    from tagged_sources import sentences

    file = tmp_path / "some.conllu"
    file.write_text(CONLLU, encoding="utf-8")
    assert list(sentences(file)) == [
        [("Dogs", "dog", "NOUN;Number=Plur;Case=Nom"), ("bark", "bark", "VERB")],
        [("Yes", "yes", "INTJ")],
    ]


def test_each_word_has_its_tag_its_lemma_and_its_morphology() -> None:
    from tagged_sources import facts_of_words

    def tagger(captions: Sequence[str]) -> list[str]:
        return [" ".join(TAGS[word] for word in caption.split()) for caption in captions]

    asked: list[str] = []

    def lemmatiser(forms: Sequence[str]) -> list[str]:
        asked.extend(forms)
        return ["dog" if form.endswith("Dogs") else "" for form in forms]

    found = facts_of_words(["Dogs bark", "bark a|b"], cast(Any, tagger), cast(Any, lemmatiser))
    assert found == [
        [("NOUN", "dog", "Number=Plur"), ("VERB", "bark", "_")],
        [("VERB", "bark", "_"), ("SYM", "a&#124;b", "_")],
    ]
    assert asked == ["NOUN;Number=Plur\tDogs", "SYM\ta|b", "VERB\tbark"]  # each pair of word and tag once


def test_each_piece_has_the_factors_of_its_word() -> None:
    from tagged_sources import pieces

    cutter = Bpe(40).learn(["Dogs bark", "Dog barks"])
    dogs, bark = ("NOUN", "dog", "Number=Plur"), ("VERB", "bark", "_")
    found = pieces(cutter, "Dogs bark", [dogs, bark])
    words = [[piece for piece, own in found if own == each] for each in (dogs, bark)]
    assert ["".join(each).lstrip("▁") for each in words] == ["Dogs", "bark"]
    assert len(found) == len(words[0]) + len(words[1])


def test_all_systems_read_the_same_batches() -> None:
    """Tags make a source longer. A limit of tokens would give the model with tags fewer pairs in each update."""
    from tagged_sources import RECIPE

    batching = Batching(**recipes.read(RECIPE)["training"]["batching"])
    assert [plain.tolist() for plain in Batches(lengths(1), batching, seed=1).epoch(0)] == [
        tagged.tolist() for tagged in Batches(lengths(4), batching, seed=1).epoch(0)
    ]


def lengths(factors: int) -> Any:
    """Stands for pairs whose source has so many factors; only the lengths are asked."""
    import numpy as np

    drawn = np.random.default_rng(1)
    words, target = drawn.integers(3, 30, 1000), drawn.integers(3, 30, 1000).astype(np.int32)

    class Lengths:
        source_lengths = (words * factors + 1).astype(np.int32)
        target_lengths = target
        corpora = (1000,)

        def __len__(self) -> int:
            return 1000

    return Lengths()
