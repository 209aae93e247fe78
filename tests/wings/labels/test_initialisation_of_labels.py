"""What the wing labels adds to test_initialisation.py."""

from __future__ import annotations

from pathlib import Path

import torch
from test_initialisation import start

from families import PARALLEL
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.labels.spelled import Spelled


def test_known_words_are_matched_by_themselves(tmp_path: Path) -> None:
    def knowing(text: str) -> Tokenizers:
        return Tokenizers(Spelled(Characters(), Symbols()).learn([text]), Symbols().learn(["X Y"]))

    table, before, known = PARALLEL["tagger, known words"], knowing("a cb"), knowing("cb aa a")
    model, old, found = start(table, table, tmp_path, known, before)
    words, letters = model.encoder.embedding.known.weight, model.encoder.embedding.weight
    name = "encoder.embedding.known.weight"
    assert found.by_token[name] == (3, 4)
    assert [known.source.tokens([n])[0] for n in (7, 8, 9)] == ["<a>", "<aa>", "<cb>"]
    assert torch.equal(words[[0, 1, 3]], old[name])
    assert torch.equal(letters, old["encoder.embedding.encoder.embedding.weight"])
