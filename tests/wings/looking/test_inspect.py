"""Inspection: the attention weights are the model's own, and aligned with the tokens, for every family."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from families import FAMILIES, FAST, build, pyramidal
from selection import mostly_slow
from transduce.answers.transducer import Transducer
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.search.greedy import Greedy
from transduce.wings.looking.inspection.attention import AttentionMap, attention, plot

ATTENDING = [name for name in FAMILIES if "no attention" not in name and "edits" not in name]  # edits have a pointer
FAST_ATTENDING = [name for name in ATTENDING if name in FAST]
SOURCE, TARGET = "abcde", "vwxyz"  # equally long: weights over the source and over the past are easy to confuse


def transducer(family: str) -> Transducer:
    letters = Characters()
    return Transducer(
        build(FAMILIES[family]), Greedy(7), Tokenizers(letters.learn(["abcde"]), letters.learn(["tuvwxyz"]))
    )


@pytest.mark.parametrize("family", mostly_slow(ATTENDING, fast=FAST_ATTENDING))
@pytest.mark.parametrize("target", [None, "", "v", TARGET, "vwxyzvwxyz"])
def test_rows_are_distributions_over_the_source(family: str, target: str | None) -> None:
    found = attention(transducer(family), SOURCE, target)
    assert found.source_tokens == (*SOURCE, "</s>")
    assert found.target_tokens[-1] == "</s>"
    if target is not None:
        assert found.target_tokens == (*target, "</s>")
    for weights_TS in [*found.weights.values(), found.mean()]:
        assert weights_TS.shape == (len(found.target_tokens), len(found.source_tokens))
        assert (weights_TS >= 0).all()
        torch.testing.assert_close(weights_TS.sum(-1), torch.ones(len(weights_TS)))


@pytest.mark.parametrize("family", mostly_slow(ATTENDING, fast=FAST_ATTENDING))
def test_what_is_written_later_changes_nothing(family: str) -> None:
    whole, start = (attention(transducer(family), SOURCE, target) for target in ("vwxyzyx", "vw"))
    assert whole.weights.keys() == start.weights.keys()
    for name, weights_TS in start.weights.items():
        torch.testing.assert_close(weights_TS, whole.weights[name][: len(weights_TS)])


def test_every_layer_that_reads_the_source_and_nothing_else() -> None:
    found = attention(transducer("transformer, pre-norm"), SOURCE, TARGET)
    assert list(found.weights) == ["decoder.layers.0.memory.heads", "decoder.layers.1.memory.heads"]
    assert list(attention(transducer("luong, dot"), SOURCE).weights) == ["decoder.wiring.attention"]


def test_states_of_a_pyramid_stand_for_several_tokens() -> None:
    letters = Characters()
    table = FAMILIES["bahdanau, additive"] | {"encoder": pyramidal()}
    model = Transducer(build(table), Greedy(7), Tokenizers(letters.learn(["abcde"]), letters.learn(["tuvwxyz"])))
    found = attention(model, SOURCE, TARGET)
    assert found.source_tokens == ("abcd", "e</s>")
    torch.testing.assert_close(found.mean().sum(-1), torch.ones(len(found.target_tokens)))
    assert attention(model, "abc", TARGET).source_tokens == ("abc</s>",)


@pytest.mark.parametrize("target", [None, TARGET])
def test_a_long_source_is_cut_as_it_is_when_it_is_answered(target: str | None) -> None:
    short = replace(transducer("bahdanau, additive"), max_source_length=4)  # three letters and the end
    found, expected = (attention(short, source, target) for source in (SOURCE, "abc"))
    assert found.source_tokens == expected.source_tokens == (*"abc", "</s>")
    assert found.target_tokens == expected.target_tokens
    torch.testing.assert_close(found.mean(), expected.mean())
    if target is None:
        assert found.target_tokens == next(short.predict([SOURCE]))[0].tokens


def test_the_weights_are_those_the_context_was_made_with() -> None:
    model = transducer("bahdanau, additive")
    contexts, states = [], []
    hooks = [
        model.model.decoder.wiring.attention.register_forward_hook(lambda _m, _i, out: contexts.append(out[0])),
        model.model.encoder.register_forward_hook(lambda _m, _i, out: states.append(out.states.values)),
    ]
    found = attention(model, SOURCE, TARGET)
    for hook in hooks:
        hook.remove()
    (weights_TS,) = found.weights.values()
    context_TD = torch.cat(contexts, 1)[0, : len(weights_TS)]
    torch.testing.assert_close(weights_TS @ states[0][0].float(), context_TD.float())


def test_heads_one_by_one_average_to_all() -> None:
    model = transducer("transformer, pre-norm")
    every, first, second = (attention(model, SOURCE, TARGET, head) for head in (None, 0, 1))
    torch.testing.assert_close((first.mean() + second.mean()) / 2, every.mean())
    assert not torch.allclose(first.mean(), second.mean())
    with pytest.raises(ValueError, match="head = 2: there are 2, numbered from 0"):
        attention(model, SOURCE, TARGET, 2)


def test_no_hook_is_left_behind() -> None:
    model = transducer("transformer, pre-norm")
    attention(model, SOURCE)
    assert not any(module._forward_hooks for module in model.model.modules())


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - set(ATTENDING)))
def test_a_model_without_attention_says_so(family: str) -> None:
    with pytest.raises(ValueError, match="has no attention to its source"):
        attention(transducer(family), SOURCE)


MAP = AttentionMap(("a", "b", "</s>"), ("$x$", "</s>"), {"only": torch.tensor([[1.0, 0.0, 0.0], [0.3, 0.0, 0.7]])})


def test_lines_shade_by_weight() -> None:
    assert MAP.lines() == [
        "       a    b   </s>",
        " $x$  ████",
        "</s>  ░░░░      ▓▓▓▓",
    ]


def test_lines_stand_under_each_other_whatever_is_written() -> None:
    wide = replace(MAP, source_tokens=("我", "e\u0301", "</s>"), target_tokens=("日本", "\t"))
    assert wide.lines() == [
        "       我   e\u0301   </s>",
        "日本  ████",
        "  \\t  ░░░░      ▓▓▓▓",
    ]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    plot(MAP, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    plot(attention(transducer("transformer, pre-norm"), SOURCE), tmp_path / "layers.svg")
    drawn = (tmp_path / "layers.svg").read_text()
    assert "decoder.layers.1.memory.heads" in drawn


@pytest.mark.parametrize("name", ["map", "map.docx", ".png"])
def test_a_name_that_says_no_kind_of_picture_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    with pytest.raises(ValueError, match=rf"{name}: pictures are drawn as .png, .svg or .pdf; end the name"):
        plot(MAP, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'transduce\[plots\]'"):
        plot(MAP, tmp_path / "map.png")
