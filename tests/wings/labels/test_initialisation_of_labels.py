"""What the wing labels adds to test_initialisation.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_initialisation import build, start, tokenizers

from families import FAMILIES, FAST, PARALLEL
from selection import mostly_slow
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.training.inheritance import vocabulary_axes
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


@pytest.mark.parametrize(
    "family",
    mostly_slow(
        [family for family in FAMILIES if "factors" not in family and family != "synchronous"],
        fast=[each for each in FAST if each in FAMILIES and "factors" not in each and each != "synchronous"],
    ),
)
def test_what_grows_with_a_vocabulary_are_embeddings_and_readouts(family: str) -> None:
    joint = "pointer" in family
    known = tokenizers("abcdefg" if joint else "abcde")
    model = build(FAMILIES[family], known)
    tables: dict[str, Tokenizer] = {}
    for name, module in model.named_modules():
        side = known.source if "encoder" in name.split(".") else known.target
        if isinstance(module, TokenEmbedding):
            tables[f"{name}.weight"] = side
        if isinstance(module, Readout):
            tables |= {f"{name}.weight": side, f"{name}.bias": side}
    expected = {name: (0, side.entries) for name, side in tables.items()}
    if family == "cold fusion":  # it reads the language model's log-probabilities
        expected["decoder.read.weight"] = (1, known.target.entries)
    before = torch.get_rng_state()
    found = vocabulary_axes(FAMILIES[family], known)
    assert torch.equal(torch.get_rng_state(), before)
    assert {name: (axis.number, axis.entries) for name, axis in found.items()} == expected
