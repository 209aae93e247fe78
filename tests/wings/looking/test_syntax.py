"""Heads that follow syntax, on attention made by hand, and the file of trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce.wings.looking.inspection.syntax as syntax
from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.wings.looking.inspection.heads import Maps
from transduce.wings.looking.inspection.syntax import Parsed, read_parsed, syntactic_heads

TREE = Parsed(("a", "bc", "d"), (1, 2, -1), ("det", "nsubj", "root"))


class Words:
    """A tokenizer of letters, of which spaces are no tokens."""

    entries = ("<pad>", "▁a", "▁bc")

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(place, place + 1) for place, letter in enumerate(text) if letter != " "]


class Model:
    source_tokenizer, model = Words(), None


def made(batch: Any, looks: list[list[int]]) -> Maps:
    """A sentence of four letters and its end. Head h looks from letter t to ``looks[h][t]``."""
    weights = torch.full((len(batch), len(looks), 5, 5), 0.02)
    for head, keys in enumerate(looks):
        weights[:, head, range(5), keys] = 0.92
    lengths = torch.full((len(batch),), 5)
    ids = Padded(torch.zeros(len(batch), 5, dtype=torch.long), lengths)
    return Maps({"own": ("source", weights), "other": ("across", weights)}, ids, ids)


def test_the_head_that_looks_at_the_governor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # letters a b c d: "bc" is one word. Head 1 looks from a to c, and from b and c to d; head 0 the other way round.
    looks = [[3, 0, 0, 1, 4], [2, 3, 3, 0, 4], [4, 4, 4, 4, 4]]
    monkeypatch.setattr(syntax, "attention_maps", lambda model, batch: made(batch, looks))
    found, read = syntactic_heads(Model(), [TREE] * 50, batch_size=7)  # type: ignore[arg-type]
    assert read == 50
    by_relation = {each.relation: each for each in found}
    assert set(by_relation) == {"det", "nsubj"}
    for relation, offset in (("det", 1), ("nsubj", 1)):
        each = by_relation[relation]
        assert (each.attention, each.accuracy, each.count, each.offset, each.fixed) == ("own", 1.0, 25, offset, 1.0)
    assert {(each.head, each.direction) for each in found} <= {(0, "from the governor"), (1, "to the governor")}
    with pytest.raises(UserError, match="3 sentences have no relation with 20 words in each half"):
        syntactic_heads(Model(), [TREE] * 3)  # type: ignore[arg-type]
    # Choice and judgement are of different halves: the best head of the first half is wrong in the second.
    swapped = iter([looks[:2], looks[1::-1]] * 25)
    monkeypatch.setattr(syntax, "attention_maps", lambda model, batch: made(batch, next(swapped)))
    found, _ = syntactic_heads(Model(), [TREE] * 50, batch_size=1)  # type: ignore[arg-type]
    assert [each.accuracy for each in found] == [0.0, 0.0]


def test_trees_are_read(tmp_path: Path) -> None:
    rows = [
        "# a comment",
        "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_",
        *(_row(*each) for each in ((1, "de", 2, "case"), (2, "le", 0, "root"))),
    ]
    file = tmp_path / "trees.conllu"
    file.write_text("\n".join([*rows, "", _row(1, "x", 0, "nsubj:pass"), ""]), encoding="utf-8")
    assert read_parsed(file) == [Parsed(("de", "le"), (1, -1), ("case", "root")), Parsed(("x",), (-1,), ("nsubj",))]
    for text, message in (
        ("", "has no sentences"),
        (
            _row(1, "x", 3, "det"),
            r"line 1: the column head has a value that is no word of the sentence; numbers from 0 to 1",
        ),
        ("1\tx\n", "line 1: 2 columns found"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            read_parsed(file)


def _row(number: int, form: str, head: int, relation: str) -> str:
    return "\t".join([str(number), form, "_", "_", "_", "_", str(head), relation, "_", "_"])


def test_a_model_without_self_attention_is_refused(trained: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    file = tmp_path / "trees.conllu"
    file.write_text(_row(1, "a", 0, "root") + "\n", encoding="utf-8")
    status, _, err = call("heads", trained, "--conllu", file, "--device=cpu")
    assert status == 2
    assert "has no attention with several heads" in err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--importance"], "so --importance would do nothing"),
        (["--prune", "--metric", "bleu", "--out", "a.html", "--save", "f"], "--prune, --metric, --out, --save would"),
        (["--split", "valid"], "names the sentences: leave out --split"),
        (["--pairs", "a.tsv"], "names the sentences: leave out --split"),
    ],
)
def test_an_option_that_syntax_ignores_is_a_mistake(call: Callable[..., Any], options: list[str], line: str) -> None:
    status, _, err = call("heads", "run", "--conllu", "trees.conllu", *options)
    assert status == 2
    assert line in err
