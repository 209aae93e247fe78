"""Numbers as a unit: from text to scaled numbers and back, errors for bad input, and embeddings of numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from transduce.core.types import EOS, Padded
from transduce.data.corpora import DataError, Files, LineError
from transduce.data.pairs import Pairs
from transduce.data.preparation import prepare
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.storage import load
from transduce.data.tokenizers.text import Characters
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.wings.labels.tokenizer import Labelled
from transduce.wings.looking.survey import survey
from transduce.wings.signals.modules.numbers import NumberEmbedding, grouped
from transduce.wings.signals.tokenizers.numbers import Numbers, NumbersTokenizer, steps
from transduce.wings.syntax.tokenizers.features import Features

LINES = ["1,100 2,300 6,200", "3,400", " -2,0  0,500\t"]

# ---------------------------------------------------------------------- unit


def table() -> np.ndarray:
    return np.array([[1, 100], [2, 300], [6, 200], [3, 400], [-2, 0], [0, 500]], float)


@pytest.mark.parametrize(
    ("scaling", "mean", "scale"),
    [
        ("channel", table().mean(0), table().std(0)),
        ("global", [table().mean()] * 2, [table().std()] * 2),
        ("none", [0, 0], [1, 1]),
    ],
)
def test_numbers_are_scaled_as_the_training_set_is(scaling, mean, scale):
    tokenizer = Numbers(scaling).learn(iter(LINES))
    assert (tokenizer.numeric, tokenizer.factors, tokenizer.labels, len(tokenizer)) == (True, 2, 0, 2)
    (row,) = tokenizer.encode(["5,250 -1,1e2"])
    expected = (np.array([[5, 250], [-1, 100]]) - mean) / scale
    assert row == pytest.approx([*expected.flat, EOS])
    assert tokenizer.decode(row) == "5,250 -1,100"
    assert tokenizer.tokens(row) == ["5", "250", "-1", "100", "</s>"]


def test_a_number_too_large_for_the_model_is_told_with_its_place():
    tokenizer = Numbers().learn(["1 2 3", "2 3 4"])
    with pytest.raises(DataError, match=r"has a number for step 3, channel 1 that is .*e\+30 after scaling"):
        tokenizer.encode(["1 2 1e30"])
    gaps = Numbers(missing=True).learn(["1 2 3"])
    assert np.isnan(gaps.encode(["1 nan 3"])[0][1])


def test_a_mean_far_from_zero_costs_no_digits():
    numbers = np.random.default_rng(1).normal(size=200) + 1e9
    tokenizer = Numbers().learn([" ".join(map(repr, map(float, part))) for part in numbers.reshape(20, 10)])
    assert tokenizer.as_json()["scale"] == pytest.approx([numbers.std()], rel=1e-6)
    assert tokenizer.decode([0.5, EOS]) == f"{round(numbers.mean() + 0.5 * numbers.std(), 7):.15g}"


def test_a_channel_that_never_changes_is_left_in_its_scale():
    tokenizer = Numbers().learn(["1,0.1 2,0.1 3,0.1"])
    assert tokenizer.as_json()["scale"][1] == 1
    assert tokenizer.decode(tokenizer.encode(["2,0.3"])[0]) == "2,0.3"


NUMBER = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(NUMBER, min_size=n, max_size=n), min_size=1, max_size=9)))
def test_round_trip(rows: list[list[float]]) -> None:
    """The round trip is exact to about a millionth of the scale, and it returns the normalised line."""
    line = " ".join(",".join(map(repr, row)) for row in rows)
    tokenizer = Numbers("global").learn([line, ",".join(["0"] * len(rows[0])), ",".join(["1000"] * len(rows[0]))])
    text = tokenizer.decode(tokenizer.encode([line])[0])
    scale = tokenizer.as_json()["scale"][0]
    assert_close(torch.tensor(steps(text)), torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1.01e-6 * scale)
    assert tokenizer.normalize(line) == tokenizer.normalize(text) == text


def test_saved_and_loaded_it_is_the_same(tmp_path):
    tokenizer = Numbers().learn(LINES)
    tokenizer.save(tmp_path / "t.json")
    loaded = load(tmp_path / "t.json")
    assert isinstance(loaded, NumbersTokenizer)
    assert loaded.fingerprint == tokenizer.fingerprint != Numbers("none").learn(LINES).fingerprint
    assert loaded.encode(LINES) == tokenizer.encode(LINES)


def test_it_is_extended_by_its_like_alone():
    tokenizer = Numbers().learn(LINES)
    assert tokenizer.extended(Numbers().learn(["7,7 8,8"])) is tokenizer
    for other in (Numbers().learn(["1 2"]), Characters().learn(["1 2"])):
        with pytest.raises(DataError, match="2 channels are not extended by 1, nor by text"):
            tokenizer.extended(other)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2 3,nan", r"has 'nan' for step 2, channel 2: a number was expected; fill in what is missing"),
        ("1,2 ,3", r"has '' for step 2, channel 1"),
        ("1,2 3,inf", r"has 'inf' for step 2"),
        ("1,2 three,4", r"has 'three' for step 2, channel 1"),
        ("1,2 3", r"has '3' for step 2, expected 2 numbers, separated by commas"),
        ("1,2,3", r"has '1,2,3' for step 1, expected 2 numbers"),
        ("  ", r"has no numbers"),
    ],
)
def test_what_is_no_number_is_named(line, message):
    for fails in (lambda: Numbers().learn(["1,2", line]), lambda: Numbers().learn(["1,2"]).encode([line])):
        with pytest.raises(LineError, match=message) as caught:
            fails()
        assert caught.value.line == line


@pytest.mark.parametrize("line", ["1e308 -1e308", "1e200 1 2"])
def test_numbers_without_a_finite_scale_are_told_by_file_and_line(tmp_path, line):
    with pytest.raises(DataError, match=r"train\.tsv:2: '1e\d+ .* too large for a spread to be computed"):
        prepare(data(tmp_path, ["1 2 3\t4", f"{line}\t4", "1 2\t3"]), tmp_path)


def test_units_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match=r'scaling = "series": numbers are scaled by "channel"'):
        Numbers("series")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the training set is empty"):
        Numbers().learn([])
    for unit, line in ((Labelled(Numbers()), "a\t1 2"), (Features(Numbers()), "a\t1 2")):
        with pytest.raises(DataError, match="told by ids, and these are numbers"):
            unit.learn([line])


# --------------------------------------------------------------- preparation


def data(tmp_path: Path, lines: list[str]) -> Data:
    (tmp_path / "train.tsv").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return Data(Units(joint=Numbers()), train=Files(path=str(tmp_path / "train.tsv")))


def test_prepared_numbers_are_float32_and_padded_with_zeros(tmp_path):
    prepared = prepare(data(tmp_path, ["1 2 3\t4", "5 6\t-7 3"]), tmp_path)
    pairs: Pairs = prepared.train
    batch = pairs.batch(np.array([0, 1]))
    scaled = prepared.source_tokenizer.encode(["1 2 3", "5 6", "4", "-7 3"])
    expected = torch.tensor([scaled[0], [*scaled[1], 0]])
    assert batch.source.values.dtype == torch.float32
    assert_close(batch.source.values, expected)
    assert_close(batch.target.values, torch.tensor([[*scaled[2], 0], scaled[3]]))
    assert batch.source.lengths.tolist() == [4, 3]
    assert (prepared.facts.source_vocabulary, prepared.facts.source_factors) == (1, 1)


def test_a_missing_number_is_told_by_file_and_line(tmp_path):
    with pytest.raises(DataError, match=r"train\.tsv:2: '5 NaN' has 'NaN' for step 2, channel 1"):
        prepare(data(tmp_path, ["1 2 3\t4", "5 NaN\t7"]), tmp_path)


def test_no_number_is_an_unknown_token(tmp_path):
    """The id of unknown tokens is 3."""
    unscaled = Data(Units(joint=Numbers("none")), train=data(tmp_path, ["3 3\t3"]).train)
    assert survey(unscaled, tmp_path).splits["train"].tally.unknown["source"].tokens == 0


# ----------------------------------------------------------------- embedding


def test_rows_are_grouped_into_steps():
    rows = Padded(torch.tensor([[1.0, 2, 3, 4, EOS], [5, 6, EOS, 0, 0]]), torch.tensor([5, 3]))
    found = grouped(rows, 2)
    assert found.lengths.tolist() == [2, 1]
    assert found.values[0].tolist() == [[1, 2], [3, 4]]
    assert found.values[1, 0].tolist() == [5, 6]
    cut = Padded(torch.tensor([[1.0, 2, 3, EOS]]), torch.tensor([4]))
    assert grouped(cut, 2).values.tolist() == [[[1, 2]]]
    assert grouped(cut, 2).lengths.tolist() == [1]


def test_the_embedding_is_linear():
    torch.manual_seed(0)
    ours = NumberEmbedding(2, 5, scaled=True, source_factors=2).double()
    torch.nn.init.normal_(ours.bias)
    x = torch.randn(3, 4, 2)
    expected = sum(x[..., c, None].double() * ours.weight[c] for c in range(2)) + ours.bias
    assert_close(ours(x), expected)
    wide = NumberEmbedding(8, 4000, scaled=False, source_factors=8)(torch.randn(64, 8))
    assert wide.var().item() == pytest.approx(1, abs=0.15)


def test_tokens_and_numbers_are_not_taken_for_each_other():
    with pytest.raises(ValueError, match=r"the source has tokens, 9 in its vocabulary: .*data\.units\.source"):
        NumberEmbedding(9, 4, scaled=False, source_factors=1)
    with pytest.raises(ValueError, match=r'given numbers; .*model\.encoder\.embedding = "numbers"'):
        TokenEmbedding(1, 4, scaled=False)(torch.zeros(1, 2))


def test_a_written_number_has_no_negative_zero():
    tokenizer = NumbersTokenizer([0.0], [10.0])
    assert tokenizer.decode([-1e-9, EOS]) == "0"
    assert tokenizer.decode([math.pi, EOS]) == "31.41593"
