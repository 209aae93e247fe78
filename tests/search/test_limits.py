"""The limits of searches: targets that a search can never write, and outputs that it ended itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_filters import RULES, every_output

import transduce
from transduce import api
from transduce.answers.cuts import cut_at
from transduce.core import config, recipes
from transduce.core.config.user_data import Merged
from transduce.core.types import EOS, UNK, Example, Hypothesis, Padded
from transduce.metrics.base import metric
from transduce.search.beam import Beam
from transduce.search.filters.lengths import LengthLimit
from transduce.search.filters.ngrams import NoRepeat
from transduce.search.limits import refused
from transduce.training import begin
from transduce.training.callbacks import Callback, Started, Validated
from transduce.training.job import Job

Call = Callable[..., tuple[int, str, str]]


class Told(Callback):
    def __init__(self) -> None:
        self.report: tuple[str, ...] = ()
        self.cut: list[float] = []

    def on_start(self, started: Started) -> None:
        self.report = started.report

    def on_validation(self, validated: Validated) -> None:
        self.cut.append(validated.cut)


# ----------------------------------------------------------------- targets


@pytest.mark.parametrize("name", [name for name in RULES if name != "language model"])
def test_a_target_is_refused_if_a_rule_forbids_it(name: str) -> None:
    """All outputs of up to four tokens, for sources of one to three."""
    filters, allowed = RULES[name]
    outputs = [tuple(6 if token == UNK else token for token in tokens) for tokens in every_output()]
    search = Beam(filters=filters, max_length=9)
    for length in (1, 2, 3):
        source = Padded.of([[3] * (length - 1) + [EOS]] * len(outputs))
        found = refused(search, source, Padded.of(outputs), 7)
        possible = [all(allowed(tokens[:end], length) for end in range(1, len(tokens) + 1)) for tokens in outputs]
        assert [not option for option in found] == possible
        assert {option for option in found if option} <= {f"filters.{place}" for place in range(len(filters))}


def test_no_filter_is_at_fault_for_an_unknown_word_or_the_last_end() -> None:
    def of(targets: list[list[int]], *filters: Any, max_length: int = 9) -> list[str]:
        return refused(Beam(filters=filters, max_length=max_length), Padded.of([[EOS]]), Padded.of(targets), 7)

    assert of([[UNK, UNK, EOS]], NoRepeat(1)) == [""]
    assert of([[5, 5, EOS]], NoRepeat(1)) == ["filters.0"]
    assert of([[5, EOS]], LengthLimit(minimum=3), max_length=2) == [""]
    assert of([[5, EOS]], LengthLimit(minimum=3), max_length=3) == ["filters.0"]
    assert of([[5, 6, EOS]], LengthLimit(minimum=3), max_length=2) == ["max_length"]


def train(tiny: dict[str, Any], run: Path, pairs: list[tuple[str, str]], **changes: Any) -> Told:
    told, own = Told(), {key: value for key, value in tiny.items() if not key.startswith(("data.origin", "search"))}
    own.pop("training.validation.search", None)
    settings = own | {"training.steps": 2} | {key.replace("__", "."): value for key, value in changes.items()}
    api.train("reverse", run, settings, pairs, callbacks=[told], device="cpu", progress=False)
    return told


LONG = [("abc", "c" * 40)] * 30
SHORT = [("abc", "cba"), ("ab", "ba"), ("bca", "acb")]


def test_a_limit_that_many_targets_break_is_chosen_from_the_data(tiny: dict[str, Any], tmp_path: Path) -> None:
    told = train(tiny, tmp_path / "run", SHORT * 30 + LONG)
    (line,) = [line for line in told.report if "search.max_length" in line]
    assert "search.max_length = 30: the search can never write" in line
    assert "which are longer: up to 41 tokens, the end counted. Therefore it is 51 in this run" in line
    written = config.read(tmp_path / "run" / "config.toml")
    assert written["search"]["max_length"] == 51
    assert "search" not in written["training"]["validation"], "validation has the limits of the run's own search"


def test_a_limit_that_the_user_has_set_stays_and_is_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    told = train(tiny, tmp_path / "run", SHORT * 30 + LONG, search__max_length=1)
    (line,) = [line for line in told.report if "search.max_length" in line]
    assert line.startswith("warning: search.max_length = 1: the search can never write")
    assert "set search.max_length=41" in line
    assert set(told.cut) == {1.0}, "hardly trained, it would write more"
    assert config.read(tmp_path / "run" / "config.toml")["search"]["max_length"] == 1


def test_few_targets_beyond_the_limit_are_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    told = train(tiny, tmp_path / "run", SHORT * 100 + LONG[:1])
    (line,) = [line for line in told.report if "search.max_length" in line]
    assert "can never write 1 of " in line
    assert line.startswith("warning: ")


def test_a_filter_that_forbids_many_targets_stops_training(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A user who asks for the filter is warned."""
    lines, pairs = tmp_path / "pairs.tsv", SHORT * 10 + [("aa", "aa")] * 30
    lines.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    filters = {"search.filters": [{"type": "no-repeat", "n": 1}]}
    own = {key: value for key, value in tiny.items() if not key.startswith(("data.origin", "search", "training.valid"))}
    table = recipes.merged("reverse", own | filters | {"data.train.path": str(lines)}).table
    with pytest.raises(config.ConfigError, match=r"search\.filters \(no-repeat\): the search can never write .* train"):
        begin.train(Job(tmp_path / "recipe", Merged(table)))
    told = train(tiny, tmp_path / "run", pairs, search__filters=[{"type": "no-repeat", "n": 1}])
    assert any("warning: search.filters (no-repeat): the search can never write" in line for line in told.report)


# ----------------------------------------------------------------- outputs


def test_only_an_end_that_the_model_did_not_choose_is_a_cut() -> None:
    cut, ended = Hypothesis((3, 4, EOS), 0.0, 0.0, (-0.1, -0.1, -5.0)), Hypothesis((3, 4, EOS), 0.0, 0.0, (-0.1,) * 3)
    assert [cut_at(each, limit) for each, limit in ((cut, 3), (cut, 4), (ended, 3), (cut, None))] == [
        3,
        None,
        None,
        None,
    ]


def test_outputs_that_are_cut_are_told(trained: Path, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    model = transduce.load(trained, device="cpu").changed({"search.max_length": 2})
    found = model.evaluate([Example("abc", ("cba",)), Example("ab", ("ba",))], [metric("exact")], told=False)
    assert found.cut == 1.0
    with caplog.at_level(logging.WARNING, "transduce"):
        assert next(model.predict(["abc", "ab"]))[0].cut_at == 2
        assert list(model.stream("abc"))
        status, out, _ = call("predict", trained, "--set=search.max_length=2", "--format=jsonl", stdin=b"abc\nab\n")
    assert (status, out.count('"cut_at": 2')) == (0, 4), "of the best output and in the list of all"
    first, second, third = caplog.messages
    assert "outputs (100.0 %) are cut at the limit of the search (2 tokens)" in first
    assert "the output ends at the limit of the search (2 tokens): raise search.max_length" in second
    assert "2 of 2 outputs (100.0 %) are cut at the limit of the search (2 tokens)" in third
