"""The engine in Node: it answers as the library does, and says the same of a mistake."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import soundfile
from test_engine_file import SEARCHES, content, needs_engine, rows_of
from test_engine_file import TABLES as BY_TOKENS
from test_engine_kinds import OF_TYPE, SEARCHED
from test_engine_kinds import TABLES as AT_ONCE
from test_engine_signals import SOUND, UNIT, noise, signal_content
from test_engine_signals import TABLES as SIGNAL_TABLES
from test_engine_texts import TEXTS, UNITS, engine_with, file_with, random_texts
from test_engine_texts_on import NAMES, TARGETS, language_model

import transduce_engine
from families import sources
from selection import mostly_slow
from transduce.core.types import EOS
from transduce.data.tokenizers.text import Bpe, Unigram
from transduce.wings.engines import web

pytestmark = needs_engine

ROOT = Path(__file__).parents[3]
FILES = Path(web.__file__).parent
# A program for Node: it loads the file that is its argument, calls what standard input says, and writes what it finds.
PROGRAM = """
import { load } from %s;
import { readFileSync } from "node:fs";
const done = [];
const model = await load(process.argv[1]).catch((error) => error);
for (const [name, ...given] of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    if (model instanceof Error) throw model;
    done.push(name ? model[name](...given) : model(...given));
  } catch (error) {
    done.push(`${error.name}: ${error.message}`);
  }
}
console.log(JSON.stringify(done));
"""


def in_node(folder: Path, file: bytes, *calls: Any) -> list[Any]:
    """What the module finds for each call, [method, arguments…]. An error is a text."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine: install the system's package nodejs")
    (folder / "some.engine").write_bytes(file)
    program = PROGRAM % json.dumps((FILES / "transduce.mjs").as_uri())
    command = [node, "--input-type=module", "-e", program, "--", str(folder / "some.engine")]
    done = subprocess.run(command, input=json.dumps(calls), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    assert len(found) == len(calls)
    return found


def same(theirs: list[Any], ours: list[transduce_engine.Answer]) -> None:
    """The answers of Node are those of the library."""
    assert len(theirs) == len(ours)
    for one, two in zip(theirs, ours, strict=True):
        assert [one["sourceTokens"], one["readTokens"], one["unknown"]] == [
            two.source_tokens,
            two.read_tokens,
            two.unknown,
        ]
        same_outputs(one["outputs"], two.outputs)


def same_outputs(theirs: list[Any], ours: Any) -> None:
    assert [(each["text"], tuple(each["ids"]), each["cut"]) for each in theirs] == [
        (each.text, each.ids, each.cut) for each in ours
    ]
    for one, two in zip(theirs, ours, strict=True):
        assert one["tokenLogProbs"] == pytest.approx(two.token_log_probs, abs=2e-5)
        assert [one["logProb"], one["score"]] == pytest.approx([two.log_prob, two.score], abs=2e-5)


KINDS = {
    **{name: (table, SEARCHES[search]) for (name, table), search in zip(BY_TOKENS.items(), cycle(SEARCHES))},
    **{name: (table, SEARCHED[OF_TYPE.get(str(table["type"]), "labels")][-1]) for name, table in AT_ONCE.items()},
}
FAST = {"edits with counts", "two chains"}


@pytest.mark.parametrize("name", mostly_slow(list(KINDS), fast=FAST))
def test_node_finds_and_scores_what_the_library_does(name: str, tmp_path: Path) -> None:
    rows = rows_of(sources([5, 2, 3, 8, 2]))
    for precision in ("float32", "int8"):
        _, file = content(*KINDS[name], precision)
        engine = transduce_engine.load(file)
        ours = engine.answer_ids(rows)
        targets = [answer.outputs[-1].ids for answer in ours]
        found, scored = in_node(tmp_path, file, ["answerIds", rows, {"batch": 2}], ["scoreIds", rows, targets])
        same(found, ours)
        same(scored, engine.score_ids(rows, targets))


def test_a_model_answers_one_text_or_several(tmp_path: Path) -> None:
    _, file = content(BY_TOKENS["edits, gru"], SEARCHES["beam 5"])
    engine, texts = transduce_engine.load(file), ["ab", "", "cZd", "b"]
    one, all_, best, more, card = in_node(
        tmp_path,
        file,
        ["", "ab"],
        ["", texts],
        ["answer", texts, {"beam": 3, "nbest": 2}],
        ["answer", texts],
        ["note", ""],
    )
    assert (one, all_, card) == (engine("ab"), engine(texts), "")
    same(best, engine.answer(texts, beam=3, nbest=2))
    same(more, engine.answer(texts))


@pytest.mark.parametrize("unit", UNITS)
def test_texts_become_the_same_tokens(unit: str, tmp_path: Path) -> None:
    texts = TEXTS + random_texts(20)
    tokenizer = UNITS[unit](normalisation="NFKC", lowercase=True).learn(texts[::2])
    (found,) = in_node(tmp_path, file_with(tokenizer), ["answer", texts])
    same(found, engine_with(tokenizer).answer(texts))


LEARNED = ["low lower lowest, new newer newest; wide straße Straßen Zoë über übers 東京 東京都! don't x_1 x_2"] * 3


@pytest.mark.parametrize("unit", [Bpe, Unigram])
def test_subwords_are_read_in_javascript(unit: Any, tmp_path: Path) -> None:
    texts = ["lower newest", "wider Straßen </s>", " new  low ", "übersweit x_12; don't!", "東京タワー low", *TEXTS]
    texts += random_texts(20)
    for form, lowercase in (("none", False), ("NFKC", True)):
        tokenizer = unit(80, normalisation=form, lowercase=lowercase).learn(LEARNED)
        rows = tokenizer.encode(texts)
        engine = engine_with(tokenizer)
        found, given = in_node(
            tmp_path, file_with(tokenizer), ["answer", texts], ["scoreIds", [[4, 2]] * len(rows), rows]
        )
        same(found, engine.answer(texts))
        same(given, engine.score_ids([[4, 2]] * len(rows), rows))


PHRASES = {  # required and forbidden ones, by unit
    "characters": (["dab", ["é", "ca"]], ["c d", "ba"]),
    "words": ([["dab", "x"]], ["ab", "cab dab"]),
    "symbols": (["dab cab"], ["a", "cab cab"]),
    "bpe": (["new lowest", ["low;", "über"]], ["er", "lower", "est,", "don't", "東"]),
    "unigram": ([["straße", "x_1"], "newer;"], ["wide", "wider", "low low", "ü"]),
}


@pytest.mark.parametrize("unit", PHRASES)
def test_outputs_have_the_phrases_that_the_library_gives_them(unit: str, tmp_path: Path) -> None:
    subwords = {"bpe": Bpe, "unigram": Unigram}
    if unit in subwords:
        tokenizer = subwords[unit](80, normalisation="NFC").learn(LEARNED)
    else:
        tokenizer = UNITS[unit](normalisation="NFC").learn(["ab cab dab", "dab cab é"] * 3)
    engine, texts = engine_with(tokenizer), ["ab", "cab dab", ""]
    required, forbidden = PHRASES[unit]
    given = [
        {"beam": 8, "nbest": 3, "required": required, "forbidden": forbidden},
        {"beam": 6, "required": required[:1]},
        {"forbidden": forbidden},
    ]
    found = in_node(tmp_path, file_with(tokenizer), *(["answer", texts, how] for how in given))
    for theirs, how in zip(found, given, strict=True):
        ours = engine.answer(texts, **how)  # type: ignore[arg-type]
        same(theirs, ours)
        assert [each["broken"] for each in theirs] == [each.broken for each in ours]
    assert {"required": required, "forbidden": forbidden} == dict(list(given[0].items())[2:])
    wrong = [
        ({"required": "dab"}, 'required = "dab": a list of phrases was expected'),
        ({"required": [""]}, "a phrase is '': some text was expected, and the tokenizer finds none in it"),
        (
            {"required": ["☃"], "beam": 2},
            "the required '☃' cannot be written: the model's vocabulary lacks a part of it",
        ),
        ({"required": [texts[0]], "forbidden": [texts[0]]}, None),
    ]
    told = in_node(tmp_path, file_with(tokenizer), *(["answer", texts, how] for how, _ in wrong))
    for line, (how, expected) in zip(told, wrong, strict=True):
        with pytest.raises(transduce_engine.EngineError) as refused:
            engine.answer(texts, **how)  # type: ignore[arg-type]
        assert line == f"EngineError: {expected or refused.value}"


def test_a_language_model_scores_texts_and_goes_on(tmp_path: Path) -> None:
    _, file = language_model(NAMES[0])
    engine, how = transduce_engine.load(file), {"samples": 3, "length": 6, "temperature": 0.5, "seed": 9}
    scored, forced, some, cut = in_node(
        tmp_path,
        file,
        ["score", ["ab", "aZ", ""]],
        ["scoreIds", [[EOS]] * 3, TARGETS],
        ["generate", "ab", how],
        ["generate", "", {"topK": 3, "topP": 0.8, "length": 5}],
    )
    same(scored, engine.score(["ab", "aZ", ""]))
    same(forced, engine.score_ids([[EOS]] * 3, TARGETS))
    same_outputs(some, engine.generate("ab", **how))  # type: ignore[arg-type]
    same_outputs(cut, engine.generate("", top_k=3, top_p=0.8, length=5))


# A program for Node that reads a recording and a picture, whose bytes standard input has as lists.
SIGNALS = """
import { load, wav } from %s;
import { readFileSync } from "node:fs";
const { file, unit, sources } = JSON.parse(readFileSync(0, "utf8"));
const model = await load(file), done = [];
for (const each of sources)
  try {
    const own = ([name, value]) => [name, Array.isArray(value) ? Uint8ClampedArray.from(value) : value];
    const source = unit === "wav" ? wav(Uint8Array.from(each)) : Object.fromEntries(Object.entries(each).map(own));
    done.push(model.answer([source])[0]);
  } catch (error) {
    done.push(`${error.name}: ${error.message}`);
  }
console.log(JSON.stringify(done));
"""


def of_signals(folder: Path, file: bytes, unit: str, sources: list[Any]) -> list[Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine: install the system's package nodejs")
    (folder / "some.engine").write_bytes(file)
    given = json.dumps({"file": str(folder / "some.engine"), "unit": unit, "sources": sources})
    program = SIGNALS % json.dumps((FILES / "transduce.mjs").as_uri())
    command = [node, "--input-type=module", "-e", program]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_recordings_and_pictures_are_read_in_javascript(tmp_path: Path) -> None:
    pixels, clear = noise(9, 13), noise(9, 13, 4)
    _, file = signal_content(SIGNAL_TABLES["ctc, columns"], {"type": "best-path"}, unit=UNIT)
    clear[..., 3] = 255
    given = [
        {"pixels": pixels.ravel().tolist(), "width": 13, "height": 9},
        {"data": clear.ravel().tolist(), "width": 13, "height": 9},
        {"pixels": [3], "width": 13, "height": 9},
    ]
    *found, wrong = of_signals(tmp_path, file, "picture", given)
    same(found, transduce_engine.load(file).answer([pixels, clear[..., :3].copy()]))
    assert wrong.startswith("EngineError: input 1: a picture, { pixels, width, height, channels } of bytes")
    _, file = signal_content(SIGNAL_TABLES["ctc, subsampling"], {"type": "best-path"}, unit=SOUND)
    recordings = []
    for number, (kind, rate) in enumerate((("PCM_16", 8000), ("FLOAT", 8000), ("PCM_24", 8000), ("PCM_16", 9000))):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, noise(3000, 2, seed=number) / 256 - 0.5, rate, kind)
        recordings.append(list(path.read_bytes()))
    *found, deep, fast = of_signals(tmp_path, file, "wav", recordings)
    same(found, transduce_engine.load(file).answer([tmp_path / "0.wav", tmp_path / "1.wav"]))
    assert deep.startswith("EngineError: the WAV file has samples of 24 bits: 16-bit integers or float32 were expected")
    assert fast.startswith("EngineError: input 1: the recording has 9000 samples a second, and the model reads 8000")


def test_a_mistake_is_an_error_with_the_line_of_the_engine(tmp_path: Path) -> None:
    _, file = content(BY_TOKENS["convs2s"], SEARCHES["beam 5"])
    calls = [
        (["answer", ["a", "b\ud800"]], "input 2: half of a surrogate pair; write both halves, or leave it out"),
        (["answer", ["a", 3]], "input 2: 3 is no text"),
        (["answer", ["a"], {"beam": 1.5}], "beam = 1.5: a whole number of at most 53 bits was expected"),
        (["answer", ["a"], {"nbest": 3, "beam": 2}], None),
        (["answerIds", [[4, 5]]], "input 1: a row of ids that ends with </s> (2) was expected"),
        (["answerIds", [[999, 2]]], None),
        (["scoreIds", [[4, 2]], []], "0 outputs for 1 sources: one for each was expected"),
        (["score", ["a"]], "this model has sources: scoreIds scores given outputs, and a language model scores texts"),
        (["generate", "a"], "this model has sources: a language model was expected"),
    ]
    found = in_node(tmp_path, file, *(call for call, _ in calls), ["", "ab"])
    engine = transduce_engine.load(file)
    with pytest.raises(transduce_engine.EngineError) as of_options:
        engine.answer(["a"], beam=2, nbest=3)
    with pytest.raises(transduce_engine.EngineError) as of_ids:
        engine.answer_ids([[999, 2]])
    of_library = iter([str(of_options.value), str(of_ids.value)])
    assert found[:-1] == [f"EngineError: {line or next(of_library)}" for _, line in calls]
    assert found[-1] == engine("ab"), "it answers after mistakes"


def test_wrong_files_are_refused_as_by_the_library(tmp_path: Path) -> None:
    _, file = content(BY_TOKENS["convs2s"], SEARCHES["beam 5"])
    for wrong in (b"PK\x03\x04" + bytes(100), file[:-9], file[:900] + b"\1" + file[901:]):
        with pytest.raises(transduce_engine.EngineError) as refused:
            transduce_engine.load(wrong)
        assert in_node(tmp_path, wrong, ["", "ab"]) == [f"EngineError: {refused.value}"]


def test_a_model_that_is_closed_says_so(tmp_path: Path) -> None:
    _, file = content(BY_TOKENS["convs2s"], SEARCHES["beam 5"])
    _, after, again = in_node(tmp_path, file, ["close"], ["", "ab"], ["close"])
    assert (after, again) == ("EngineError: the model is closed: load it again", None)


def test_the_engine_was_compiled_from_these_sources() -> None:
    """`bash engine/wasm` compiles it again."""
    done = subprocess.run(["bash", ROOT / "engine" / "wasm", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (FILES / "engine.wasm").stat().st_size < 1_000_000


def test_the_types_name_what_the_module_has() -> None:
    module, types = ((FILES / name).read_text() for name in ("transduce.mjs", "transduce.d.mts"))
    names = module.split("for (const name of [")[1].split("]")[0].replace('"', "").split(", ")
    assert names
    assert [name for name in names if f"  {name}(" not in types] == []
