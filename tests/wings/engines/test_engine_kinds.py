"""Models that the engine in one file does not search token by token: taggers, classifiers, chains and CTC."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from test_engine_file import content, needs_engine, resolved, rows_of
from test_engine_strangers import TRIES, WAYS, tried
from test_formats import FORMAT, SOURCES

import transduce_engine
from families import CHAINS, FACTS, FAMILIES, PARALLEL, convs2s, ctc, recurrent, sources, transformer
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Search
from transduce.core.registry import NAMES
from transduce.core.types import EOS, Padded
from transduce.wings.engines.engine_files import open_file
from transduce.wings.engines.export.engine import NO_SOURCE, tokenizer_notes
from transduce.wings.engines.native.conversion.converting import MODELS
from transduce.wings.engines.native.searches import SEARCHES, check_search, search_table
from transduce.wings.labels.tokenizer import Labels
from transduce.wings.labels.viterbi import PenalisedViterbi

pytestmark = needs_engine

TABLES: dict[str, config.Table] = {
    "tagger, lstm": PARALLEL["tagger, lstm"],
    "tagger, convs2s": PARALLEL["tagger, convs2s"],
    "classifier, gru, last state": PARALLEL["classifier, gru, last state"],
    "classifier, convs2s, mean": {"type": "classifier", "encoder": convs2s()["encoder"], "pooling": "mean"},
    "classifier, kernels": {
        "type": "classifier",
        "encoder": {"type": "multi-kernel", "kernels": [3, 1, 5], "width": 6, "layers": 2},
        "pooling": "max",
    },
    "classifier, lstm, max": {"type": "classifier", "encoder": recurrent("plain")["encoder"], "pooling": "max"},
    "crf, lstm": CHAINS["crf, lstm"],
    "two chains": CHAINS["two chains"],
    "two classifiers": {
        "type": "parallel-ensemble",
        "models": [PARALLEL["classifier, gru, last state"], {"type": "classifier", "encoder": convs2s()["encoder"]}],
    },
    "two taggers": {
        "type": "parallel-ensemble",
        "models": [PARALLEL["tagger, lstm"], PARALLEL["tagger, convs2s"]],
    },
    "classifier, linear": PARALLEL["classifier, linear"],
    "classifier, linear, beside networks": PARALLEL["classifier, linear, beside networks"],
    "tagger, linear": PARALLEL["tagger, linear"],
    "tagger, linear, beside a network": PARALLEL["tagger, linear, beside a network"],
    "ctc, lstm": FAMILIES["ctc, lstm, no attention"],
    "instant, transformer, tied": PARALLEL["instant, transformer, tied"],
    "instant, gru to mixed layers": PARALLEL["instant, gru to mixed layers, post-norm"],
    "ctc, transformer, stretched": ctc(transformer()["encoder"], stretch=4),
}
SEARCHED: dict[str, list[config.Table]] = {
    "labels": [{"type": "labels"}, {"type": "labels", "nbest": 5}],
    "chains": [{"type": "viterbi"}, {"type": "viterbi", "nbest": 6}, {"type": "posterior"}],
    "lengths": [
        {"type": "length-beam"},
        {"type": "length-beam", "size": 3, "nbest": 2},
        {"type": "length-beam", "size": 4, "nbest": 4, "ranking": "average"},
    ],
    "frames": [
        {"type": "best-path"},
        {"type": "best-path", "unknown": True},
        {"type": "prefix-beam", "size": 4, "nbest": 3},
        {"type": "prefix-beam", "size": 6, "nbest": 2, "bonus": 0.7},
    ],
}
OF_TYPE = {"ctc": "frames", "crf": "chains", "chain-fusion": "chains", "instant": "lengths"}
CASES = [
    (name, search) for name, table in TABLES.items() for search in SEARCHED[OF_TYPE.get(str(table["type"]), "labels")]
]


@pytest.mark.parametrize(("name", "search"), CASES, ids=str)
def test_the_engine_finds_and_scores_what_pytorch_does(name: str, search: config.Table) -> None:
    model, file = content(TABLES[name], search)
    engine = transduce_engine.load(file)
    source = sources([5, 1, 3, 8, 2]) if "classifier" not in name else sources([5, 2, 3, 8, 2])
    searching: Any = config.build(resolved(search), Search, FACTS, "search")
    ours, theirs = searching(model, source), engine.answer_ids(rows_of(source))
    for found, answer in zip(ours, theirs, strict=True):
        assert [each.tokens for each in found] == [each.ids for each in answer.outputs]
        for one, two in zip(found, answer.outputs, strict=True):
            assert two.score == pytest.approx(one.score, abs=5e-5)
            assert two.log_prob == pytest.approx(one.log_prob, abs=5e-5)
            assert two.token_log_probs == pytest.approx(one.token_log_probs, abs=5e-5)
    last = [found[-1].tokens for found in ours]
    forced = searching.force(model, source, Padded.of(last))
    for one, scored in zip(forced, engine.score_ids(rows_of(source), last), strict=True):
        assert scored.best.token_log_probs == pytest.approx(one.token_log_probs, abs=5e-5)
        assert scored.best.best_log_probs == pytest.approx(one.best_log_probs, abs=5e-5)
        assert scored.best.right == one.right


@pytest.mark.parametrize("name", ["crf, lstm", "two chains"])
def test_labels_lose_their_penalties(name: str) -> None:
    model, file = content(TABLES[name], {"type": "viterbi"})
    source, penalised = sources([5, 1, 3, 8, 2]), PenalisedViterbi(4, None, ((5, 0.8), (7, -1.5), (4, 3.0)))
    plain = transduce_engine.load(file).answer_ids(rows_of(source))
    theirs = transduce_engine.load(file).search_ids(rows_of(source), json.dumps(search_table(penalised)))
    for found, answer in zip(penalised(model, source), theirs, strict=True):
        assert [each.tokens for each in found] == [each.ids for each in answer.outputs]
        for one, two in zip(found, answer.outputs, strict=True):
            assert two.score == pytest.approx(one.score, abs=5e-5)
            assert two.log_prob == pytest.approx(one.log_prob, abs=5e-5)
    assert [each.best.ids for each in plain] != [each.best.ids for each in theirs]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_no_number_depends_on_the_company(name: str, precision: str) -> None:
    search = next(search for case, search in CASES[::-1] if case == name)
    _, file = content(TABLES[name], search, precision)
    engine = transduce_engine.load(file)
    rows = rows_of(sources([5, 3, 8, 2, 7, 6, 4]))
    alone = [engine.answer_ids([row])[0] for row in rows]
    order = random.Random(3).sample(range(len(rows)), len(rows))
    assert engine.answer_ids([rows[n] for n in order], batch=3) == [alone[n] for n in order]


STRANGE: dict[str, tuple[config.Table, config.Table, dict[str, str]]] = {
    "classifier, lstm, max": (TABLES["classifier, lstm, max"], {"type": "labels", "nbest": 3}, {}),
    "two chains": (TABLES["two chains"], {"type": "viterbi", "nbest": 3}, {}),
    "classifier, linear": (TABLES["classifier, linear"], {"type": "labels", "nbest": 3}, {}),
    "tagger, linear, beside": (TABLES["tagger, linear, beside a network"], {"type": "labels", "nbest": 3}, {}),
    "ctc, transformer, stretched": (TABLES["ctc, transformer, stretched"], {"type": "prefix-beam", "size": 3}, {}),
    "instant": (TABLES["instant, gru to mixed layers"], {"type": "length-beam", "size": 3, "nbest": 2}, {}),
    "language model, transformer": (
        FAMILIES["language model, transformer, no attention"],
        {"type": "sampling", "max_length": 6, "truncations": [{"type": "top-k", "k": 3}]},
        {"source": json.dumps(NO_SOURCE)},
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("speed", ["fast", pytest.param("slow", marks=(pytest.mark.slow, pytest.mark.hostile))])
def test_a_wrong_file_is_refused_in_a_line_or_answers(speed: str, name: str, way: Any) -> None:
    numbers = random.Random(f"{name} {way.__name__} {speed}")
    table, search, notes = STRANGE[name]
    _, file = content(table, search, numbers.choice(["float32", "int8"]), **notes)
    for _ in range(TRIES[speed]):
        tried(way(file, numbers))


def test_a_class_is_a_text() -> None:
    table = TABLES["classifier, gru, last state"]
    labels = Labels().learn([f"class {n}" for n in range(FACTS.target_vocabulary - 4)])
    _, file = content(table, {"type": "labels", "nbest": 3}, target=json.dumps(tokenizer_notes(labels, "target")))
    (answer,) = transduce_engine.load(file).answer(["abc"])
    assert [each.text for each in answer.outputs] == [labels.decode(each.ids) for each in answer.outputs]
    assert len({each.text for each in answer.outputs}) == 3
    assert sum(torch.tensor([each.log_prob for each in answer.outputs]).exp()) < 1
    (same,) = open_file(file).answer_texts(["abc"])
    assert same == answer


def test_a_number_of_labels_that_no_source_has_is_refused() -> None:
    for name in ("tagger, lstm", "crf, lstm", "classifier, gru, last state"):
        _, file = content(TABLES[name], {"type": "viterbi" if "crf" in name else "labels"})
        with pytest.raises(transduce_engine.EngineError, match=r"^5 labels for a source of \d places$"):
            transduce_engine.load(file).score_ids([[5, 6, EOS]], [[4, 4, 4, 4, 4, EOS]])


def test_a_search_without_a_beam_has_one_output() -> None:
    _, file = content(TABLES["ctc, lstm"], {"type": "best-path"})
    with pytest.raises(transduce_engine.EngineError, match="the search 'best-path' has one output"):
        transduce_engine.load(file).answer_ids([[5, EOS]], beam=4)


def test_a_search_that_does_not_fit_the_model_is_refused() -> None:
    _, file = content(TABLES["tagger, lstm"], {"type": "greedy"})
    with pytest.raises(transduce_engine.EngineError, match="its search does not fit its model"):
        transduce_engine.load(file)
    with pytest.raises(UserError, match=r"^search\.type = 'greedy': .* has labels for the model tagger"):
        check_search({"type": "greedy"}, "tagger")


def test_each_model_that_is_converted_has_a_search() -> None:
    assert set(MODELS) == set(SEARCHES)


def test_the_page_lists_each_kind_of_model_and_its_searches() -> None:
    page = (Path(__file__).parents[3] / "docs" / "engine.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    told = {name: cell for names, cell in rows for name in re.findall("`([a-z-]+)`", names)}
    for name in NAMES["Model"]:
        if name in SEARCHES:
            assert [each for each in re.findall("`([a-z-]+)`", told[name]) if each in NAMES["Search"]] == [
                *SEARCHES[name]
            ]
        else:
            assert told[name].strip().startswith("refused: ")


@pytest.mark.parametrize("name", ["ctc", "mixture", "language"])
def test_a_committed_run_says_from_its_file_what_it_said(name: str, tmp_path: Path, call: Any) -> None:
    file = tmp_path / "some.engine"
    sample = ("--sample", FORMAT / "sources.txt")
    code, out, _ = call("export", FORMAT / f"{name}.zip", "--to", "engine", "--out", file, *sample)
    assert (code, re.findall(r"\d of \d outputs are equal", out)) == (0, ["3 of 3 outputs are equal"])
    engine, expected = transduce_engine.load(file), json.loads((FORMAT / "expected.json").read_text("utf-8"))[name]
    texts = [text for text, _ in expected]
    found = engine.score(texts) if engine.generates else engine.answer(SOURCES[name])
    assert [answer.best.text for answer in found] == texts
    assert [answer.best.log_prob for answer in found] == pytest.approx([value for _, value in expected], rel=1e-4)
