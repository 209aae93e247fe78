"""The engine in one file: it finds and scores what PyTorch does, alone and in any company, or says why it cannot."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce_engine
from families import (
    COUNTED,
    FACTS,
    FAMILIES,
    attending,
    build,
    convs2s,
    ctc,
    editing,
    facts,
    recurrent,
    relating,
    sources,
    stacked,
    transformer,
)
from selection import mostly_slow
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model, Search
from transduce.core.types import EOS, Padded
from transduce.data.tokenizers.text import Characters, TextTokenizer
from transduce.search.forcing import force
from transduce.wings.engines.export.engine import tokenizer_notes
from transduce.wings.engines.native.content import model_content
from transduce.wings.engines.native.conversion.converting import check
from transduce.wings.engines.native.searches import check_search, search_table
from transduce_engine import Wanted
from transduce_engine.library import built

needs_engine = pytest.mark.skipif(not built(), reason="no C++ compiler was found when the engine was installed")
pytestmark = needs_engine


def crossed(one: config.Table, two: config.Table) -> config.Table:
    """The encoder of one model and the decoder of another."""
    return {"type": "encoder-decoder", "encoder": one["encoder"], "decoder": two["decoder"]}


TABLES: dict[str, config.Table] = {
    "transformer, pre-norm": transformer(),
    "transformer, post-norm, tied": transformer(norm="post", tie="all"),
    "transformer, learned positions": transformer("learned"),
    "convs2s": convs2s(),
    "luong, gru, scaled dot, fed": recurrent(attending("luong", "scaled-dot", input_feeding=True), "gru"),
    "bahdanau, additive": recurrent(attending("bahdanau", "additive")),
    "bahdanau, peepholes, residual": recurrent(attending("bahdanau", "dot"), "lstm-peephole", residual=True),
    "luong, ssru": recurrent(attending("luong", "general"), "ssru"),
    "edits": editing(),
    "edits, gru": editing("gru"),
    "no attention, copied state": recurrent("plain", "gru", "copy", "forward"),
    "transformer, rotary, gated, rms": FAMILIES["transformer, rotary, gated, rms"],
    "transformer, t5 and alibi": FAMILIES["transformer, t5 and alibi"],
    "transformer, shaw": stacked({"mixer": relating("shaw")}, {"mixer": relating("shaw")}),
    "transformer, lightweight and dynamic": FAMILIES["transformer, lightweight and dynamic"],
    "transformer to recurrent": crossed(transformer(), recurrent(attending("luong", "general"))),
    "convs2s to transformer": crossed(convs2s(), transformer()),
    "recurrent to transformer": crossed(recurrent("plain"), transformer()),
    "ensemble": FAMILIES["ensemble"],
    "ctc beside attention": {
        "type": "ensemble",
        "models": [recurrent(attending("luong", "general")), ctc(recurrent("plain")["encoder"])],
    },
    "ctc and attention": FAMILIES["ctc and attention"] | {"stretch": 24},  # frames enough for each output
    "seeds of edits": FAMILIES["seeds of edits"],
    "fusion": FAMILIES["fusion"],
    "fusion, not renormalised": FAMILIES["fusion, not renormalised"],
    "recurrent with counts": {
        "type": "with-counts",
        "model": recurrent(attending("luong", "dot")),
        "counted": {"type": "joint-ngram", "order": 3, "escape": 1e-2},
        "weight": 0.4,
    },
    "edits with counts": FAMILIES["edits with counts"],
    "joint n-grams, the probable ones": COUNTED["joint n-grams, the probable ones"],
    "convs2s to recurrent": crossed(convs2s(), recurrent(attending("bahdanau", "general"))),
}
SEARCHES: dict[str, config.Table] = {
    "greedy": {"type": "greedy", "max_length": 12},
    "greedy, at least 4": {"type": "greedy", "max_length": 9, "filters": [{"type": "length", "minimum": 4}]},
    "greedy, <unk>": {"type": "greedy", "max_length": 9, "unknown": True},
    "beam 5": {"type": "beam", "size": 5, "nbest": 5, "max_length": 12},
    "beam 4, wu": {"type": "beam", "size": 4, "nbest": 2, "max_length": 9, "ranking": {"type": "wu", "alpha": 0.8}},
    "beam 3, none, long": {
        "type": "beam",
        "size": 3,
        "max_length": 12,
        "ranking": "none",
        "filters": [{"type": "length", "minimum": 3, "maximum_ratio": 1.5, "maximum": 1}],
    },
    "beam 3, brevity": {
        "type": "beam",
        "size": 3,
        "max_length": 8,
        "ranking": {"type": "brevity", "length_ratio": 0.8},
    },
    "samples": {"type": "sampling", "size": 3, "max_length": 9, "temperature": 0.7, "seed": 12345678901},
    "samples, cut, long": {
        "type": "sampling",
        "size": 4,
        "nbest": 2,
        "max_length": 7,
        "truncations": [{"type": "top-k", "k": 4}, {"type": "nucleus", "p": 0.9}, {"type": "epsilon", "epsilon": 0.01}],
        "filters": [{"type": "length", "minimum": 3}],
        "seed": -7,
    },
    "beam 12, reward": {"type": "beam", "size": 12, "nbest": 3, "max_length": 5, "ranking": "bounded-reward"},
}


def tokenizer(size: int) -> TextTokenizer:
    """Characters, so many that the vocabulary has this size."""
    return Characters().learn(["abcdefghijklmnopqrstuvwxyz"[: size - 4]])


def resolved(table: config.Table) -> config.Table:
    return config.resolve(table, Search, FACTS, "search")


def content(table: config.Table, search: config.Table, precision: str = "float32", **other: str) -> tuple[Any, bytes]:
    """A small random model, and the file of an engine with it."""
    model, known = build(table, dtype=torch.float32), facts(table)
    texts = {
        "source": json.dumps(tokenizer_notes(tokenizer(known.source_vocabulary), "source")),
        "target": json.dumps(tokenizer_notes(tokenizer(known.target_vocabulary), "target")),
        "search": json.dumps(resolved(search)),
        "limits": json.dumps({"max_source_length": 100, "keeps_empty": False}),
        "settings": "{}",
    }
    return model, model_content(model, config.resolve(table, Model, known, "model"), precision, texts | other)


def rows_of(padded: Padded) -> list[list[int]]:
    return [[*map(int, row[:length])] for row, length in zip(padded.values, padded.lengths, strict=True)]


PAIRS = list(product(TABLES, SEARCHES))
EVERY_SEARCH = ("transformer, pre-norm", "edits with counts")
"""The models that find with each search in the fast suite. The others find with one."""


@pytest.mark.parametrize(
    ("name", "search"),
    mostly_slow(PAIRS, fast=[(name, found) for name, found in PAIRS if name in EVERY_SEARCH or found == "beam 5"]),
)
def test_the_engine_finds_what_pytorch_finds(name: str, search: str) -> None:
    model, file = content(TABLES[name], SEARCHES[search])
    engine = transduce_engine.load(file)
    source = sources([5, 1, 3, 8, 2])
    searching: Any = config.build(resolved(SEARCHES[search]), Search, FACTS, "search")
    theirs = engine.answer_ids(rows_of(source))
    agree(searching(model, source), theirs)
    assert engine.search_ids(rows_of(source), json.dumps(search_table(searching))) == theirs
    begun = [[5], [6, 7, 4], [], [4, 3], [10, 10, 10]]
    agree(
        searching(model, source, Padded.of(begun, torch.long)),
        engine.search_ids(rows_of(source), json.dumps(search_table(searching)), Wanted(begun), batch=3),
    )


def agree(ours: Any, theirs: list[transduce_engine.Answer], stuck: bool = False) -> None:
    """Asserts that the hypotheses of PyTorch and of the engine have the same tokens and nearly the same numbers. If
    they may be ``stuck``, a score may have lost a million, which float32 rounds.
    """
    for found, answer in zip(ours, theirs, strict=True):
        assert [each.tokens for each in found] == [each.ids for each in answer.outputs]
        for one, two in zip(found, answer.outputs, strict=True):
            assert two.score == pytest.approx(one.score, abs=2e-5, rel=1e-6 if stuck else None)
            assert two.log_prob == pytest.approx(one.log_prob, abs=2e-5)
            assert two.token_log_probs == pytest.approx(one.token_log_probs, abs=2e-5)


@pytest.mark.parametrize(
    "name",
    mostly_slow(list(TABLES), fast={"transformer, pre-norm", "convs2s", "bahdanau, additive", "edits with counts"}),
)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_no_number_depends_on_the_company(name: str, precision: str) -> None:
    _, file = content(TABLES[name], SEARCHES["beam 5"], precision)
    engine = transduce_engine.load(file)
    rows = rows_of(sources([5, 1, 3, 8, 2, 7, 6, 4]))
    alone = [engine.answer_ids([row])[0] for row in rows]
    for batch in (2, 3, 8):
        order = random.Random(batch).sample(range(len(rows)), len(rows))
        found = engine.answer_ids([rows[n] for n in order], batch=batch)
        assert [alone[n] for n in order] == found


def test_the_variants_of_the_library_find_the_same() -> None:
    _, file = content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"], "int8")
    program = (
        "import sys, pickle; from pathlib import Path; from transduce_engine import library, load\n"
        "library.library.cache_clear(); name, file, rows = pickle.load(sys.stdin.buffer)\n"
        "library.built = lambda folder=None, old=library.built: {'_portable': old()[name]}\n"
        "print([[o.ids for o in a.outputs] for a in load(file).answer_ids(rows)])"
    )
    import pickle

    best = transduce_engine.library.library().transduce_processor()
    names = [name for name in transduce_engine.library.VARIANTS[: best + 1] if name in built()]
    given = rows_of(sources([5, 8, 3]))
    found = {
        subprocess.run(
            [sys.executable, "-c", program], input=pickle.dumps((name, file, given)), capture_output=True, check=True
        ).stdout
        for name in names
    }
    assert len(found) == 1


@pytest.mark.parametrize("name", ["transformer, pre-norm", "luong, gru, scaled dot, fed", "recurrent with counts"])
def test_given_outputs_have_the_log_probabilities_of_pytorch(name: str) -> None:
    model, file = content(TABLES[name], SEARCHES["greedy"])
    source = sources([4, 2, 6])
    targets = [[5, 6, EOS], [EOS], [7, 8, 9, 4, EOS]]
    expected = force(model, source, Padded.of(targets))
    found = transduce_engine.load(file).score_ids(rows_of(source), targets)
    for one, two in zip(expected, found, strict=True):
        assert two.best.token_log_probs == pytest.approx(one.token_log_probs, abs=2e-5)
        assert two.best.best_log_probs == pytest.approx(one.best_log_probs, abs=2e-5)
        assert two.best.right == one.right


def test_threads_change_no_number() -> None:
    _, file = content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"], "int8")
    rows = rows_of(sources([5, 1, 3, 8, 2, 7, 6, 4]))
    alone = transduce_engine.load(file).answer_ids(rows)
    try:
        assert transduce_engine.load(file, threads=3).answer_ids(rows) == alone
    finally:
        transduce_engine.load(file, threads=1)


def test_a_wide_beam_finds_the_best_of_all_outputs() -> None:
    """A beam as wide as all prefixes is exact: it finds the best of all outputs, as brute force does."""
    search = {"type": "beam", "size": 800, "nbest": 3, "max_length": 4, "ranking": "none"}
    _, file = content(TABLES["luong, ssru"], search)
    engine = transduce_engine.load(file)
    row = [5, 6, EOS]
    every = [[*tokens, EOS] for length in range(4) for tokens in product(range(4, 11), repeat=length)]
    scored = engine.score_ids([row] * len(every), every)
    best = sorted((answer.best.log_prob for answer in scored), reverse=True)[:3]
    assert [each.score for each in engine.answer_ids([row])[0].outputs] == pytest.approx(best, abs=1e-5)


def test_beam_and_nbest_replace_those_of_the_search() -> None:
    _, file = content(TABLES["convs2s"], SEARCHES["greedy"])
    engine = transduce_engine.load(file)
    row = rows_of(sources([5]))
    assert len(engine.answer_ids(row, nbest=3)[0].outputs) == 3
    assert len(engine.answer_ids(row, beam=4)[0].outputs) == 1
    with pytest.raises(
        transduce_engine.EngineError, match=r"^nbest = 4, beam = 3: a beam of n has room for 1 to n out"
    ):
        engine.answer_ids(row, beam=3, nbest=4)
    with pytest.raises(transduce_engine.EngineError, match=r"^beam = -1: 1 to 1000 was expected$"):
        engine.answer_ids(row, beam=-1)


def test_a_source_without_text_has_the_empty_output_unless_the_model_learned_from_such() -> None:
    model, file = content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"])
    (answer,) = transduce_engine.load(file).answer([" \t"])
    assert answer.best.text == ""
    assert answer.best.ids == (EOS,)
    row = Padded.of([transduce_engine.load(file).description("source") and [3, 3, EOS]])
    assert answer.best.log_prob == pytest.approx(force(model, row, Padded.of([[EOS]]))[0].log_prob, abs=2e-5)
    _, kept = content(
        TABLES["transformer, pre-norm"],
        SEARCHES["beam 5"],
        limits=json.dumps({"max_source_length": 100, "keeps_empty": True}),
    )
    assert len(transduce_engine.load(kept).answer([""])[0].outputs) == 5


def test_what_a_person_should_know_is_told() -> None:
    _, file = content(
        TABLES["transformer, pre-norm"],
        {"type": "greedy", "max_length": 2},
        limits=json.dumps({"max_source_length": 4, "keeps_empty": False}),
    )
    (answer,) = transduce_engine.load(file).answer(["abZcde"])
    assert answer.warnings(7)[:2] == [
        "input 7 has 7 tokens and is cut to 4",
        "input 7: 1 of 3 tokens are unknown to the model",
    ]


def test_a_text_beyond_learned_positions_is_told_by_its_number() -> None:
    limits = json.dumps({"max_source_length": 5000, "keeps_empty": False})
    _, file = content(TABLES["transformer, learned positions"], SEARCHES["greedy"], limits=limits)
    with pytest.raises(
        transduce_engine.EngineError, match=r"^input 2: a text of \d+ tokens: the model has positions for"
    ):
        transduce_engine.load(file).answer(["ab", "a" * 4000])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "hmm"}, r"type"),
        ({"type": "ensemble", "models": [{"type": "crf"}]}, r"models\[0\]\.type"),
        ({"type": "chain-fusion", "models": [{"type": "tagger"}]}, r"models\[0\]\.type"),
        ({"type": "mask-predict"}, r"type"),
        (
            {"type": "with-counts", "model": transformer(), "counted": {"type": "ngram"}},
            r"counted\.type",
        ),
    ],
)
def test_models_that_the_engine_does_not_have_are_refused_with_the_setting(table: config.Table, message: str) -> None:
    with pytest.raises(UserError, match=rf"model\.{message} = .*the native engine runs"):
        check(table)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (
            {"type": "exact"},
            r"^search\.type = 'exact': the native engine has greedy and beam and sampling for the",
        ),
        (
            {"type": "greedy", "filters": [{"type": "no-repeat"}]},
            r"^search\.filters = \['no-repeat'\]: .* one filter, leng",
        ),
        ({"type": "beam", "ranking": "none", "allocation": {"type": "diverse"}}, r"^search\.allocation = 'diverse': "),
        (
            {"type": "beam", "ranking": "own"},
            r"^search\.ranking = 'own': .* has none, average, wu, brevity, bounded-rew",
        ),
    ],
)
def test_searches_that_the_engine_does_not_have_are_refused_with_the_setting(search: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_search(search)


def test_a_run_answers_from_its_file_as_from_itself(trained: Path, tmp_path: Path, call: Any) -> None:
    file = tmp_path / "reverse.engine"
    code, out, _ = call("export", trained, "--to", "engine", "--out", file)
    assert (code, "32 of 32 outputs are equal" in out) == (0, True)
    lines = "abc\n\nxyz é\n".encode()
    prefixes = tmp_path / "prefixes.txt"
    prefixes.write_text("b\nca\n\n")
    glossary = tmp_path / "glossary.tsv"
    glossary.write_text("abc\tbb\txx\n")
    for options in (
        [],
        ["--beam", "3", "--nbest", "2"],
        ["--format", "jsonl"],
        ["--prefix", "b"],
        ["--prefixes", prefixes, "--nbest", "2"],
        ["--forbid", "a", "--forbid", "yx"],
        ["--glossary", glossary, "--beam", "6"],
    ):
        own = call("predict", trained, *options, stdin=lines)
        found = call("predict", file, *options, stdin=lines)
        assert found[0] == own[0] == 0
        assert found[2] == own[2]
        if "jsonl" not in options:
            assert found[1] == own[1]
    assert call("predict", trained, stdin=lines)[1] == alone(file, lines)
    for command in (["predict", file, "--device", "cpu"], ["evaluate", file]):
        code, _, err = call(*command, stdin=lines)
        assert (code, err.count("\n")) == (2, 1)
        assert (
            "reverse.engine is no run directory: it is the file of an engine, which `predict` and `serve` read" in err
        )
    assert (
        "none.engine does not exist: name a file of `transduce export" in call("predict", tmp_path / "none.engine")[2]
    )


def test_an_export_in_int8_tells_what_it_costs(trained: Path, tmp_path: Path, call: Any) -> None:
    file = tmp_path / "reverse.engine"
    code, out, _ = call("export", trained, "--to", "engine", "--out", file, "--precision", "int8")
    assert code == 0
    assert re.search(r"reverse\.engine: exact \d.*against float32\), .*\d+ of \d+ outputs are equal$", out.strip())


def test_a_folder_is_no_place_for_the_file(trained: Path, tmp_path: Path, call: Any) -> None:
    code, _, err = call("export", trained, "--to", "engine", "--out", tmp_path)
    assert code == 2
    assert "a file whose name ends in .engine was expected, such as" in err


def alone(file: Path, lines: bytes) -> str:
    """The output of the engine's own command, which imports neither PyTorch nor NumPy nor this package."""
    program = (
        "import sys; from transduce_engine.__main__ import main; code = main(sys.argv[1:])\n"
        "assert not {'torch', 'numpy', 'transduce', 'tokenizers'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], input=lines, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize(
    "arguments", [["no/such.engine"], ["."], ["FILE", "--batch-size", "0"], ["FILE", "--threads", "0"]]
)
def test_mistakes_at_the_command_line_end_in_a_line(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "some.engine"
    file.write_bytes(content(TABLES["convs2s"], SEARCHES["greedy"])[1])
    given = [str(file) if each == "FILE" else each for each in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "transduce_engine", *given], input=b"", capture_output=True, text=False
    )
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert done.stderr.startswith(b"transduce-engine: ")
