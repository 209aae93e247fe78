"""The command align: word aligners by posteriors, other models by attention, scores against gold links, pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from families import FAMILIES, build
from transduce.answers.request import Extras, Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.types import UNK, Padded
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Symbols, Words
from transduce.search.greedy import Greedy
from transduce.wings.alignment.alignments import pair_alignments
from transduce.wings.alignment.attention_weights import AttentionChoice, attention_weights
from transduce.wings.alignment.corpus import align
from transduce.wings.alignment.evaluation import HeadScores, scores_by_head
from transduce.wings.alignment.links import Gold
from transduce.wings.alignment.report import PairLinks, page, write
from transduce.wings.counted.alignment.training import RECIPES, learn_aligner
from transduce.wings.looking.inspection.attention import attention

Call = Callable[..., tuple[int, str, str]]


class Equal(nn.Module):
    """An aligner of ids. Equal ids have weight 1, and the null word has weight ``null``. The reverse aligner gives
    weight 1 to a target id that is one higher.
    """

    def __init__(self, null: float = 0.5, step: int = 0) -> None:
        super().__init__()
        self.null, self.step = null, step
        self.parameter = nn.Parameter(torch.zeros(1))

    def reverse(self) -> Equal:
        return Equal(self.null, 1)

    def align(self, source: Padded, target: Padded) -> Tensor:
        words = [
            side.mask & (torch.arange(side.values.shape[1]) < side.lengths[:, None] - 1) for side in (source, target)
        ]
        equal_BTS = source.values[:, None] + self.step == target.values[..., None]
        weight_BTI = torch.cat([torch.full((*target.values.shape, 1), self.null), equal_BTS * words[0][:, None]], -1)
        return weight_BTI / weight_BTI.sum(-1, keepdim=True) * words[1][..., None]


def transducer(model: Any, unit: Any = None) -> Transducer:
    sides = [(unit or Symbols()).learn(["a b c d e"]) for _ in range(2)]
    return Transducer(model, Greedy(7), Tokenizers(*sides))


PAIRS = [("a b c", "b a e"), ("", "a"), ("c d", "d c c"), ("a", "")]


# ------------------------------------------------------------------ word aligners


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_an_aligner_answers_exactly(batch_size: int) -> None:
    found = align(transducer(Equal()), PAIRS, "forward", batch_size=batch_size)
    assert found.links.write() == ["1-0 0-1", "", "1-0 0-1 0-2", ""]
    assert found.record(0) == {
        "source": ["a", "b", "c"],
        "target": ["b", "a", "e"],
        "links": [(1, 0), (0, 1)],
        "forward": [[0.333333, 0, 0.666667, 0], [0.333333, 0.666667, 0, 0], [1, 0, 0, 0]],
    }


def test_backward_links_keep_source_and_target_in_order() -> None:
    backward = align(transducer(Equal()), PAIRS, "backward")
    assert backward.links.write() == ["2-0 1-1", "", "1-1", ""]  # "c" follows "b", which is target word 0
    assert backward.words(0) == (["a", "b", "c"], ["b", "a", "e"])
    assert len(backward.record(0)["backward"]) == 3
    both = align(transducer(Equal()), PAIRS, "union")
    assert both.links.write() == ["1-0 2-0 0-1 1-1", "", "1-0 0-1 1-1 0-2", ""]
    assert (len(both.forward), len(both.backward)) == (4, 4)


def test_two_way_aligners_symmetrise_by_default() -> None:
    model = transducer(Equal())
    assert align(model, PAIRS).links.write() == align(model, PAIRS, "grow-diag-final-and").links.write()
    with pytest.raises(UserError, match=r"direction = 'sideways': one of forward, backward, intersection"):
        align(model, PAIRS, "sideways")  # type: ignore[arg-type]


def test_the_null_word_makes_no_link_and_tokens_merge_to_words() -> None:
    assert align(transducer(Equal(null=1.5)), PAIRS, "forward").links.write() == [""] * 4
    model = transducer(Equal(null=0.25), Words())
    # The words are split into "b", "." and so on. An equal token has weight 1 of 1.25. An unknown one links to others.
    assert align(model, [("b a.", "a. b")], "forward").links.write() == ["1-0 0-1"]


def test_an_aligner_has_no_attention() -> None:
    with pytest.raises(UserError, match="this Equal model is a word aligner and has no attention"):
        pair_alignments(transducer(Equal()), PAIRS, AttentionChoice(after=True))


# ------------------------------------------------------------------ another model aligns the outputs


def test_another_model_aligns_the_outputs() -> None:
    writer = transducer(build(FAMILIES["lstm, no attention"]))
    with pytest.raises(UserError, match="no attention to its source"):
        list(writer.answer([Request("a b", target="b a", extras=Extras(alignments=True))]))
    extras = Extras(alignments=True, aligner=transducer(Equal()))
    (answer,) = writer.answer([Request("a b", target="b a", extras=extras)])
    assert answer.best.alignment == ((1, 0), (0, 1))


def test_another_model_says_what_unknowns_come_from() -> None:
    writer = transducer(build(FAMILIES["luong, dot"]))
    (ids,) = writer.target_tokenizer.encode(["b q a"])
    assert ids[1] == UNK
    aligner = transducer(Equal(null=0.9))  # all unknown words are equal
    extras = Extras(replace_unknowns={}, aligner=aligner)
    (answer,) = writer.answer([Request("a Q, b", target="b q a", extras=extras)])
    assert answer.best.text == "b Q, a"


# ------------------------------------------------------------------ attention


def test_after_is_the_attention_of_the_next_step() -> None:
    model = transducer(build(FAMILIES["transformer, pre-norm"]))
    pairs = [("a b c", "d e"), ("b", "a c e d")]
    before = pair_alignments(model, pairs)
    after = pair_alignments(model, pairs, AttentionChoice(after=True))
    for (source, target), one, other in zip(pairs, before, after, strict=True):
        words = len(target.split())
        torch.testing.assert_close(other.weights_TS[:words], one.weights_TS[1:])
        torch.testing.assert_close(one.weights_TS, attention(model, source, target).mean())


def test_one_head_of_one_attention() -> None:
    model = transducer(build(FAMILIES["transformer, pre-norm"]))
    ids = model.source_tokenizer.encode(["a b c"]), model.target_tokenizer.encode(["d e"])
    found = attention_weights(model, *ids)
    (name, *_), heads = found.heads, next(iter(found.heads.values())).shape[1]
    every = [pair_alignments(model, [("a b c", "d e")], AttentionChoice(name, head))[0] for head in range(heads)]
    for head, each in enumerate(every):
        torch.testing.assert_close(each.weights_TS, found.heads[name][0, head, :3, :4].float())
    with pytest.raises(UserError, match=f"head = {heads}: there are {heads}"):
        pair_alignments(model, [("a", "b")], AttentionChoice(name, heads))
    with pytest.raises(UserError, match="no attention 'x' to the source: there is decoder"):
        pair_alignments(model, [("a", "b")], AttentionChoice("x"))


def test_every_head_is_scored_alone() -> None:
    model = transducer(build(FAMILIES["transformer, pre-norm"]))
    pairs, gold = [("a b c", "d e"), ("b", "a c e d")], Gold.read(["0-0 1p1", "0-0 0-1 0-2 0-3"])
    found = scores_by_head(model, pairs, gold)
    for choice, rate in found.rates.items():
        links = align(model, pairs, choice=choice).links
        right = sum(link in gold.sure.of_pair(pair) for pair in (0, 1) for link in links.of_pair(pair))
        allowed = sum(link in gold.possible.of_pair(pair) for pair in (0, 1) for link in links.of_pair(pair))
        assert rate == pytest.approx(100 * (1 - (right + allowed) / (len(links) + 5)))
    assert len(found.rows()) == 1 + len(found.rates) // 2
    with pytest.raises(UserError, match="aligns target words to source words only"):
        align(model, pairs, "backward")


def test_the_lowest_rates_have_stars() -> None:
    rates = {
        AttentionChoice(name, None, after): rate
        for after in (False, True)
        for name, rate in (("a", 9.0), ("b", 8.0 + after))
    }
    assert HeadScores(rates).rows()[1:] == [["a", "mean", "9.00 ", "9.00*"], ["b", "mean", "8.00*", "9.00*"]]


# ------------------------------------------------------------------ the command


def test_align_writes_a_line_for_each_pair(trained: Path, tmp_path: Path, call: Call) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("abc\tcba\n\tb\nab\tba\t0-1 1p0\n", encoding="utf-8")
    status, out, _ = call("align", trained, pairs, "--device=cpu")
    assert (status, len(out.splitlines())) == (0, 3)
    assert out.splitlines()[1] == ""
    for side, texts in (("source", "abc\n\nab\n"), ("target", "cba\nb\nba\n")):
        (tmp_path / side).write_text(texts, encoding="utf-8")
    assert call("align", trained, tmp_path / "source", tmp_path / "target", "--device=cpu")[1] == out
    assert call("align", trained, "--device=cpu", stdin=b"abc\tcba\n")[1] == f"{out.splitlines()[0]}\n"
    record = json.loads(call("align", trained, pairs, "--format=jsonl", "--device=cpu")[1].splitlines()[0])
    assert " ".join(f"{s}-{t}" for s, t in record["links"]) == out.splitlines()[0]


def test_align_scores_against_gold(trained: Path, tmp_path: Path, call: Call, quick_products: None) -> None:
    pairs, own = tmp_path / "pairs.test.tsv", tmp_path / "own.links"
    pairs.write_text("abc\tcba\t0-2\nab\tba\t0-1 1p0\n", encoding="utf-8")
    own.write_text(call("align", trained, pairs, "--device=cpu")[1], encoding="utf-8")
    out = call("align", trained, pairs, f"--gold={own}", "--resamples=20", "--device=cpu")[1]
    assert ["aer", "0.00", "[0.00,", "0.00]"] in [line.split() for line in out.splitlines()]
    record = tmp_path / "record.json"
    asked = ["align", trained, pairs, f"--gold={pairs}", f"--record={record}", "--device=cpu"]
    assert call(*asked)[0] == 0
    written = json.loads(record.read_text(encoding="utf-8"))["systems"][0]
    assert (written["name"], sorted(written["scores"])) == (
        trained.name,
        ["aer", "link_f1", "link_precision", "link_recall"],
    )
    assert "mean of all" in call(*asked, "--by-head")[1]
    assert json.loads(record.read_text(encoding="utf-8"))["tables"][0]["columns"] == [
        "attention",
        "head",
        "before",
        "after",
    ]


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("0-0\n0-0 2-1\n", "line 2: the link 2-1 is outside its sentence: the source has 2 words"),
        ("0-0\n0:0\n", "gold, line 2: '0:0' is no link"),
        ("0-0\n", "gold has 1 lines, and there are 2 pairs: it has no links for the pair of line 2"),
        ("\n\n0-0\n", "gold has 3 lines, and there are 2 pairs: it has links, and there is no pair of line 3"),
    ],
)
def test_gold_that_does_not_fit(gold: str, message: str, trained: Path, tmp_path: Path, call: Call) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("abc\tcba\nab\tba\n", encoding="utf-8")
    (tmp_path / "gold").write_text(gold, encoding="utf-8")
    status, _, err = call("align", trained, pairs, f"--gold={tmp_path / 'gold'}", "--device=cpu")
    assert status == 2
    assert message in err


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["a", "b", "c"], "3 files to align: expected one TSV file"),
        (["--format=tsv"], "--format 'tsv': expected text or jsonl"),
        (["--by-head"], "--by-head measures each head against gold links"),
        (["--record=x"], "--record keeps scores, and there are none"),
        (["--out=x.png", "--format=jsonl"], "--out draws one pair"),
        (["--direction=up"], "--direction 'up': expected forward or backward"),
        (["--direction=forward", "--symmetrise=union"], "give one of them"),
    ],
)
def test_options_that_do_not_go_together(asked: list[str], message: str, trained: Path, call: Call) -> None:
    status, _, err = call("align", trained, *asked, "--device=cpu", stdin=b"a\tb\n")
    assert status == 2
    assert message in err


def test_further_columns_are_told_unless_they_are_links(
    trained: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    assert call("align", trained, "--device=cpu", stdin=b"a\tb\na\tb\t0-0\nb\ta\t\n")[0] == 0
    assert not caplog.records
    assert call("align", trained, "--device=cpu", stdin=b"a\tb\na\tb\tCC-BY\na\tb\t0-0\tx\n")[0] == 0
    assert ["line 2 has 3 columns: only the first two are read" in each for each in caplog.messages] == [True]


# ------------------------------------------------------------------ without a run

LESSONS = b"das Haus\tthe house\ndas Buch\tthe book\nein Buch\ta book\nein Haus\tA house\n"


@pytest.mark.parametrize("model", [*RECIPES])
def test_a_word_aligner_learns_from_the_pairs(model: str, call: Call) -> None:
    assert call("align", f"--model={model}", stdin=LESSONS) == (0, "0-0 1-1\n" * 4, "")


def test_a_word_aligner_learns_from_further_pairs_too(tmp_path: Path, call: Call) -> None:
    for side, text in zip(("de", "en"), ("rot\nTag rot\n", "red\nred day\n"), strict=True):
        (tmp_path / side).write_text(text, encoding="utf-8")
    also = [f"--also={tmp_path / side}" for side in ("de", "en")]
    assert call("align", *also, stdin=b"rot Tag\tred day\n")[1] == "0-0 1-1\n"
    one = learn_aligner([("rot Tag", "red day")], "ibm1")
    assert [len(side) for side in (one.source_tokenizer, one.target_tokenizer)] == [6, 6]


def test_what_a_word_aligner_cannot_learn_from(trained: Path, call: Call) -> None:
    assert "model = 'ibm9': one of ibm1, ibm2" in call("align", "--model=ibm9", stdin=LESSONS)[2]
    assert "none of the 1 pairs has words on both sides" in call("align", stdin=b"a\t\n")[2]
    assert "none of the 0 pairs has words on both sides" in call("align")[2]
    assert "is trained: leave it out" in call("align", trained, "--model=hmm", stdin=LESSONS)[2]


def test_the_record_of_a_word_aligner(tmp_path: Path, call: Call, quick_products: None) -> None:
    (tmp_path / "gold").write_text("0-0 1-1\n" * 4, encoding="utf-8")
    asked = ["align", "--model=ibm1", f"--gold={tmp_path / 'gold'}", f"--record={tmp_path / 'r.json'}"]
    assert call(*asked, stdin=LESSONS)[0] == 0
    (system,) = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["systems"]
    assert (system["name"], system["search"]["model"], system["scores"]["aer"]["value"]) == ("ibm1", "ibm1", 0.0)


# ------------------------------------------------------------------ pictures

LINKS = PairLinks(
    ["a", "<b>"], ["$x", "y"], [(0, 0), (1, 1)], [[0.9, 0.1], [0.2, 0.8]], [(0, 0), (1, 0)], [(0, 0), (1, 0), (0, 1)]
)


def test_links_by_kind() -> None:
    assert LINKS.verdicts() == [("right", [(0, 0)]), ("wrong", [(1, 1)]), ("missing", [(1, 0)])]
    assert replace(LINKS, sure=None).verdicts() == [("found", [(0, 0), (1, 1)])]


def test_a_page_and_a_drawing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = page(LINKS, "Pair 1")
    assert "<svg" in text
    assert "&lt;b&gt; – $x" in text
    for name in ("pair.html", "pair.png", "pair.svg"):
        write(LINKS, "Pair 1", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(UserError, match=r"pictures are drawn as \.png"):
        write(LINKS, "Pair 1", tmp_path / "pair.doc")
    with pytest.raises(UserError, match="Pair 1 has no words on one side"):
        write(replace(LINKS, source=[]), "Pair 1", tmp_path / "pair.png")


def test_align_draws_a_pair(trained: Path, tmp_path: Path, call: Call) -> None:
    pytest.importorskip("matplotlib")
    assert call("align", trained, f"--out={tmp_path / 'p.svg'}", "--device=cpu", stdin=b"ab\tba\n")[0] == 0
    assert (tmp_path / "p.svg").exists()
    _, _, err = call("align", trained, f"--out={tmp_path / 'p.svg'}", "--pair=2", "--device=cpu", stdin=b"ab\tba\n")
    assert "--pair 2: there are 1 pairs" in err
