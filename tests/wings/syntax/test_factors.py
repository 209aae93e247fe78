"""Factors of tokens: the unit, its embeddings, and its preparation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from families import FACTORED, build, copying, factored, recurrent, sources, transformer
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.protocols import Encoder, Model
from transduce.core.types import EOS, SPECIALS, UNK, Facts, Padded
from transduce.data.corpora import DataError, Files, LineError
from transduce.data.preparation import Tokenizers, prepare
from transduce.data.settings import Data, Lines, Units
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.search.greedy import Greedy
from transduce.training.inheritance import vocabulary_axes
from transduce.wings.looking.inspection.attention import attention
from transduce.wings.syntax.factors import ConcatenatedFactors, SummedFactors, grouped
from transduce.wings.syntax.tokenizers.factors import Factored

LINES = ["dogs|dog|NOUN bark|bark|VERB", "bark|bark|NOUN", "|".join(SPECIALS[1:4])]


CONCATENATED = {"type": "concatenated", "widths": [5, 3]}

# ---------------------------------------------------------------------- unit


def test_a_token_is_its_factors_side_by_side() -> None:
    tokenizer = Factored(3).learn(iter(LINES))
    assert (tokenizer.factors, tokenizer.labels) == (3, 0)
    assert len(tokenizer) == 4 + 3 + 3 + 3
    first, second, third = tokenizer.encode(LINES)
    assert tokenizer.tokens(first) == ["dogs", "|dog", "|NOUN", "bark", "|bark", "|VERB", "</s>"]
    assert first[3:5] == second[:2]
    assert first[2] == second[2]
    assert len({first[3], first[4]}) == 2  # "bark" as a word is not "bark" as a lemma
    assert min(third[:3]) > UNK  # they are spelled like special tokens, and are none
    assert [row[-1] for row in (first, second, third)] == [EOS] * 3
    assert tuple(tokenizer.tokens(range(4))) == SPECIALS
    assert [tokenizer.decode(row) for row in (first, second, third)] == LINES
    assert len(set(tokenizer.entries)) == len(tokenizer)


FACTOR = st.text("ab\\&<>/é", min_size=1)


@given(st.lists(st.lists(st.tuples(FACTOR, FACTOR))))
def test_round_trip(lines: list[list[tuple[str, str]]]) -> None:
    texts = [" ".join("|".join(token) for token in line) for line in lines]
    tokenizer = Factored().learn(texts)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(texts)] == texts
    assert [tokenizer.normalize(text) for text in texts] == texts
    assert [tokenizer.normalize(f"  {text.replace(' ', '   ')}\t") for text in texts] == texts


def test_the_separator_is_a_choice() -> None:
    tokenizer = Factored(separator="￨").learn(["|￨PUNCT a|b￨X"])
    assert tokenizer.tokens(tokenizer.encode(["|￨X"])[0]) == ["|", "￨X", "</s>"]
    for separator in ("", " ", "a b", "\u00a0"):
        with pytest.raises(DataError, match=r"separator = .*something other than spaces"):
            Factored(separator=separator)


def test_a_factor_never_met_or_too_rare_is_unknown_and_the_others_are_not() -> None:
    tokenizer = Factored(minimum_count=2).learn(["a|X b|X", "a|Y"])
    (ids,) = tokenizer.encode(["b|X c|Y a|Z"])
    assert [i == UNK for i in ids] == [True, False, True, True, False, True, False]
    assert tokenizer.decode(ids) == "<unk>|X <unk>|<unk> a|<unk>"


def test_size_keeps_the_most_frequent_of_each_factor() -> None:
    assert Factored(size=1).learn(["b|X a|Y", "b|Y"]).entries == (*SPECIALS, (0, "b"), (1, "Y"))
    with pytest.raises(DataError, match="size = 0: at least one value"):
        Factored(size=0)


def test_factors_are_compared_composed() -> None:
    tokenizer = Factored().learn(["e\u0301|X"])
    assert UNK not in tokenizer.encode(["\u00e9|X"])[0]
    assert tokenizer.normalize("e\u0301|X") == "\u00e9|X"


@pytest.mark.parametrize("wrong", ["dogs", "dogs|N|x", "|N", "dogs|", "|"])
def test_a_token_without_its_factors_is_named(wrong: str) -> None:
    unit, line = Factored(), f"the|D {wrong} bark|V"
    for fails in (lambda: unit.learn([line]), lambda: unit.learn(["a|X"]).encode(["a|X", line])):
        with pytest.raises(LineError) as caught:
            fails()
        assert f"has {wrong!r} for token 2, expected 2 factors separated by '|'" in str(caught.value)
        assert caught.value.line == line


def test_a_word_alone_has_no_factors() -> None:
    with pytest.raises(DataError, match=r"factors = 1: a word and a tag are 2; .*symbols"):
        Factored(1)


def test_a_cut_row_and_ids_of_a_model_are_read_as_far_as_they_go() -> None:
    tokenizer = Factored(3).learn(LINES)
    ids = tokenizer.encode(LINES)[0]
    assert tokenizer.decode([*ids[:4], EOS, 0]) == "dogs|dog|NOUN bark"
    with pytest.raises(DataError, match="id 13 is not in a vocabulary of 13"):
        tokenizer.decode([13])


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    tokenizer = Factored(3).learn(LINES)
    tokenizer.save(tmp_path / "t.json")
    loaded = load(tmp_path / "t.json")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.fingerprint != Factored(3).learn(LINES[:2]).fingerprint
    assert (loaded.factors, loaded.encode(LINES)) == (3, tokenizer.encode(LINES))


def test_an_extended_vocabulary_knows_the_factors_of_both() -> None:
    old = Factored().learn(["a|X"])
    extended = old.extended(Factored().learn(["b|X a|Y"]))
    assert extended.entries == (*SPECIALS, (0, "a"), (0, "b"), (1, "X"), (1, "Y"))
    assert extended.decode(extended.encode(["b|Y"])[0]) == "b|Y"
    for other in (Factored(3).learn(["a|X|x"]), Factored(separator="_").learn(["a_X"]), Symbols().learn(["a"])):
        with pytest.raises(DataError, match=r"2 factors separated by '\|' can be extended by their like alone"):
            old.extended(other)


# ---------------------------------------------------------------- embeddings


def test_rows_are_grouped_by_token_and_what_was_cut_is_left_out() -> None:
    rows = torch.tensor([[4, 5, 6, 7, 8, 9, 2], [4, 5, 6, 2, 0, 0, 0], [4, 5, 6, 7, 8, 2, 0], [2, 9, 9, 9, 9, 9, 9]])
    found = grouped(Padded(rows, torch.tensor([7, 4, 6, 1])), 3)
    assert found.lengths.tolist() == [3, 2, 2, 1]
    tokens = [ids[:length].tolist() for ids, length in zip(found.values, found.lengths, strict=True)]
    end = [EOS] * 3
    assert tokens == [[[4, 5, 6], [7, 8, 9], end], [[4, 5, 6], end], [[4, 5, 6], end], [end]]


@pytest.mark.parametrize("scaled", [False, True])
def test_vectors_are_side_by_side_or_added_up(scaled: bool) -> None:
    ids_BSF = torch.randint(0, 9, (2, 5, 3))
    beside = ConcatenatedFactors(9, 16, scaled, 3, (10, 4, 2)).double()
    added = SummedFactors(9, 16, scaled, 3).double()
    tables = [beside.weight, *beside.tags]
    assert [tuple(table.shape) for table in tables] == [(9, 10), (9, 4), (9, 2)]
    scale = 4 if scaled else 1
    for row, place in ((0, 0), (1, 3), (1, 4)):
        ids = ids_BSF[row, place].tolist()
        parts = [table[i] for table, i in zip(tables, ids, strict=True)]
        assert_close(beside(ids_BSF)[row, place], torch.cat(parts) * scale)
        assert_close(
            added(ids_BSF)[row, place], (added.weight[ids[0]] + added.weight[ids[1]] + added.weight[ids[2]]) * scale
        )


@pytest.mark.parametrize("scaled", [False, True])
def test_vectors_are_drawn_as_those_of_plain_tokens(scaled: bool) -> None:
    """The distribution is N(0, 1/width), or N(0, 1) if scaled. A tolerance of 1 % is over five standard errors."""
    ids_NF = torch.arange(6000).view(-1, 3)
    for embedding in (ConcatenatedFactors(6000, 64, scaled, 3, (40, 20, 4)), SummedFactors(6000, 64, scaled, 3)):
        assert embedding(ids_NF).std().item() == pytest.approx(1 if scaled else 1 / 8, rel=0.01)


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_an_encoder_reads_one_vector_a_token(name: str) -> None:
    """The result is the same as for plain tokens with these vectors. Every factor changes the result."""
    table = factored(name, CONCATENATED)
    encoder: Any = config.build(table, Encoder, FACTORED, "encoder").double().eval()
    plain = {key: value for key, value in table.items() if key != "embedding"}
    other: Any = config.build(plain, Encoder, Facts(81, 11), "encoder").double().eval()
    own = encoder.state_dict()
    other.load_state_dict(
        {key: value for key, value in own.items() if key in other.state_dict()}
        | {
            "embedding.weight": torch.cat(
                [own["embedding.weight"].repeat_interleave(9, 0), own["embedding.tags.0"].repeat(9, 1)], -1
            )
        }
    )
    source = sources([7, 3, 5])
    found = encoder(source)
    tokens = grouped(source, 2)
    expected = other(Padded(tokens.values[..., 0] * 9 + tokens.values[..., 1], tokens.lengths))
    assert found.states.lengths.tolist() == [4, 2, 3]
    mask = tokens.mask
    assert_close(found.states.values[mask], expected.states.values[mask])
    for place in (0, 1):
        changed = source.values.clone()
        changed[0, place] = 8 if changed[0, place] != 8 else 7
        assert (encoder(Padded(changed, source.lengths)).states.values[0, 0] != found.states.values[0, 0]).any()


def test_embeddings_fit_their_source_and_their_encoder() -> None:
    for widths, message in (
        ([8], r"widths = \[8\]: one for each of the source's 2 factors"),
        ([8, 0], r"widths = \[8, 0\]: one for each"),
        ([8, 3], r"widths = \[8, 3\] add up to 11, but the encoder reads vectors of 8"),
    ):
        with pytest.raises(config.ConfigError, match=rf"encoder\.embedding: {message}"):
            config.build(
                factored("recurrent", {"type": "concatenated", "widths": widths}), Encoder, FACTORED, "encoder"
            )
    for embedding in ("summed", {"type": "concatenated", "widths": [8]}):
        with pytest.raises(config.ConfigError, match=r'without factors: set data\.units\.source to "factored"'):
            config.build(factored("transformer", embedding), Encoder, Facts(9, 11), "encoder")


def test_tables_of_unlike_vocabularies_are_not_shared() -> None:
    for embedding, shape in (("summed", r"\(9, 8\)"), (CONCATENATED, r"\(9, 5\)")):
        table = transformer(tie="all") | {"encoder": factored("transformer", embedding)}
        with pytest.raises(config.ConfigError, match=rf"source embedding with the target's: they are {shape}.*joint"):
            config.build(table, Model, FACTORED, "model")
        tied: Any = config.build(table | {"tie": "target"}, Model, FACTORED, "model")
        assert tied.decoder.embedding.weight is tied.decoder.projection.weight


def test_words_with_factors_are_not_copied() -> None:
    table = copying(transformer(), {"type": "multi-head", "heads": 2}) | {"encoder": factored("transformer", "summed")}
    with pytest.raises(config.ConfigError, match="the source has 9 and the target 11 words"):
        config.build(table, Model, FACTORED, "model")


def test_tables_of_factors_grow_with_the_vocabulary() -> None:
    known = Tokenizers(Factored().learn(["a|X b|Y"]), Characters().learn(["abc"]))
    found = vocabulary_axes(recurrent("plain") | {"encoder": factored("recurrent", CONCATENATED)}, known)
    assert {name: axis.entries for name, axis in found.items() if name.startswith("encoder")} == {
        "encoder.embedding.weight": known.source.entries,
        "encoder.embedding.tags.0": known.source.entries,
    }


def test_attention_is_shown_by_token() -> None:
    table = transformer() | {"encoder": factored("transformer", CONCATENATED)}
    source, target = Factored().learn(["a|X b|Y c|Y"]), Characters().learn(["tuvwxyz"])
    assert replace(Tokenizers(source, target).facts, target_entries=()) == FACTORED
    found = attention(Transducer(build(table), Greedy(7), Tokenizers(source, target)), "b|Y a|Y", "xy")
    assert found.source_tokens == ("b|Y", "a|Y", "</s>")
    assert found.mean().shape == (3, 3)


# --------------------------------------------------------------- preparation


def files(folder: Path, source: str) -> Files:
    (folder / "s").write_text(source, encoding="utf-8")
    (folder / "t").write_text("x\n" * source.count("\n"))
    return Files(source=str(folder / "s"), target=str(folder / "t"))


def test_factors_go_through_preparation(tmp_path: Path) -> None:
    lines = "a|X b|Y\nb|X\na|X a|X a|X\n"
    units = Units(source=Factored(), target=Characters())
    data = Data(units, train=files(tmp_path, lines), lines=Lines(max_source_length=6, overlong="truncate"))
    prepared = prepare(data, tmp_path / "cache")
    rows = prepared.train.batch([0, 1, 2]).source
    assert rows.lengths.tolist() == [5, 3, 6]
    assert [prepared.source_tokenizer.decode(row.tolist()) for row in rows.values] == ["a|X b|Y", "b|X", "a|X a|X a"]
    expected = Facts(source_vocabulary=8, target_vocabulary=5, source_factors=2)
    assert replace(prepared.facts, target_entries=()) == expected
    assert len(prepared.facts.target_entries) == 5
    prepared.tokenizers.save(tmp_path)
    assert Tokenizers.load(tmp_path).facts == prepared.facts
    with pytest.raises(DataError, match=r"s:2: 'b\|X a' has 'a' for token 2"):
        prepare(replace(data, train=files(tmp_path, "a|X\nb|X a\n")), tmp_path / "cache")
