"""Alignments of finished outputs to frames, their picture, and how they are requested."""

from __future__ import annotations

import itertools
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from test_cli import told

import transduce
from families import FAMILIES, build
from transduce import api
from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.types import PAD
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters
from transduce.search.greedy import Greedy
from transduce.wings.ctc.frame_alignments import alignment_lattice, frame_alignments
from transduce.wings.ctc.paths import alignments, collapse, count
from transduce.wings.ctc.report import of_text, svg
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam

SOURCES = ["a", "abcde", "ab", "dcbae", ""]


def transducer(family: str, search: Any = None) -> Transducer:
    sides = [Characters().learn([letters]) for letters in ("abcde", "tuvwxyz")]
    return Transducer(build(FAMILIES[family]), search or BestPath(), Tokenizers(*sides))


# --------------------------------------------------------------------- frames


@pytest.mark.parametrize("family", ["ctc, lstm, no attention", "ctc, transformer, no attention", "ctc and attention"])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_best_of_all_alignments(family: str, batch_size: int) -> None:
    """The alignment of each output is the best one in the list of all its alignments."""
    model = transducer(family, PrefixBeam(3, 2))
    sources = ["a", "", "ab"] if family != "ctc, transformer, no attention" else ["a", ""]
    answers = [*model.answer(map(Request, sources))]
    found = frame_alignments(model, answers, batch_size=batch_size)
    for source, answer, every in zip(sources, answers, found, strict=True):
        outputs = answer.outputs
        (ids,) = model.source_tokenizer.encode([source])
        frames_SV = model.model.frames(model.padded([ids])).values[0].tolist()
        assert len(every) == len(outputs) == (2 if source else 1)
        for output, each in zip(outputs, every, strict=True):
            paths = [
                (sum(frames_SV[t][symbol] for t, symbol in enumerate(path)), path)
                for path in alignments(output.ids[:-1], len(frames_SV), PAD)
            ]
            log_prob, best = max(paths)
            assert each.log_prob == pytest.approx(log_prob)
            assert each.log_prob <= output.log_prob + 1e-9
            assert each.count == len(frames_SV)
            symbols = model.target_tokenizer.tokens(best)
            assert each.path() == ["-" if i == PAD else symbol for i, symbol in zip(best, symbols, strict=True)]
            assert collapse(each.path(), "-") == output.tokens[:-1]
            assert each.output.text == output.text


def test_seconds_are_those_of_frames() -> None:
    model = transducer("ctc, lstm, no attention")
    ((found,),) = frame_alignments(model, [*model.answer([Request("ab", target="tu")])])
    assert found.frames != ()
    for (first, last), (begins, ends) in zip(found.frames, found.seconds(0.02), strict=True):
        assert (begins, ends) == pytest.approx((0.02 * first, 0.02 * last + 0.02))


def test_an_output_of_a_best_path_is_aligned_along_it() -> None:
    model = transducer("ctc, lstm, no attention")
    for (output,), (found,) in zip(
        model.predict(SOURCES), frame_alignments(model, [*model.answer(map(Request, SOURCES))]), strict=True
    ):
        assert found.log_prob == pytest.approx(output.score)


def test_who_has_no_frames_and_what_has_no_alignment() -> None:
    attending = transducer("luong, dot", Greedy(5))
    with pytest.raises(ValueError, match=r'encoder-decoder model has no frames.*model.type = "ctc" or "joint-ctc"'):
        frame_alignments(attending, [Answer(Request("a"), [])])
    model = transducer("ctc, lstm, no attention")
    outputs = [*model.score([("", "tuvwxyz"), ("", "t")])]
    ((long, short),) = frame_alignments(model, [Answer(Request(""), outputs)])
    assert (long.log_prob, long.output.frames) == (-math.inf, ())
    assert len(short.checked().frames) == 1
    with pytest.raises(ValueError, match="'tuvwxyz': its 7 tokens have no alignment with the 3 frames of the source"):
        long.checked()


# ----------------------------------------------------------- the command line


@pytest.fixture(scope="module")
def run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {
        **{key: value for key, value in tiny.items() if not key.startswith("model.")},
        "model": {"type": "ctc", "stretch": 2, "encoder": {"type": "recurrent", "cell": "gru", "width": 6}},
        "objective": {"type": "ctc"},
        "training.validation.search": {"type": "best-path"},
        "search": {"type": "prefix-beam", "size": 3, "weight": 0.0},
    }
    folder = tmp_path_factory.mktemp("runs") / "ctc"
    api.train("reverse", folder, settings, device="cpu", progress=False)
    return folder


def test_frames_follow_each_output(run: Path, call: Any) -> None:
    sources = ["abca", "bc"]
    model = transduce.load(run, device="cpu")
    expected = [found for (found,) in frame_alignments(model, [*model.answer(map(Request, sources))])]
    spans = [" ".join(f"{first}-{last}" for first, last in each.frames) for each in expected]
    asked = ["predict", run, "--frames", "--device=cpu"]
    lines = call(*asked, stdin=b"abca\nbc\n")[1].splitlines()
    assert lines == [f"{each.output.text} ||| {places}" for each, places in zip(expected, spans, strict=True)]
    rows = call(*asked, "--format=tsv", stdin=b"abca\nbc\n")[1].splitlines()
    assert [row.split("\t")[3] for row in rows] == spans
    record = json.loads(call(*asked, "--format=jsonl", stdin=b"abca\n")[1])
    assert [tuple(pair) for pair in record["frames"]] == list(expected[0].frames)


def test_an_output_that_is_nowhere_stops_no_others(run: Path, call: Any) -> None:
    asked = ["predict", run, "--frames", "--prefix=aaaaa", "--set=search.type=greedy", "--set=search.max_length=9"]
    lines = call(*asked, "--device=cpu", stdin=b"a\nabcabcabc\n")[1].splitlines()
    assert lines[0].startswith("aaaaa")
    assert lines[0].endswith(" ||| ")
    assert len(lines[1].partition(" ||| ")[2].split()) >= 5
    assert "have no alignment with the" in told(call("inspect", run, "a", "--frames", "--target=aaaaa"))
    assert call("inspect", run, "a") == call("inspect", run, "a", "--frames")


def test_frames_are_looked_at(run: Path, call: Any, tmp_path: Path) -> None:
    status, out, _ = call("inspect", run, "abca", "--frames", "--target=ac", "--device=cpu")
    told, path, *tokens = out.splitlines()
    assert status == 0
    assert told.startswith("log-probability -")
    assert len(path.split()) == 2 * 5  # two frames for each letter and the end
    assert [line.split()[1] for line in tokens] == ["a", "c"]
    assert call("inspect", run, "abca", "--frames", "--out", tmp_path / "x.svg", "--device=cpu")[:2] == (0, "")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<svg")


# ------------------------------------------------------------------- pictures

NAMESPACE = {"s": "http://www.w3.org/2000/svg"}


def classes(drawn: str, kind: str) -> list[str]:
    return [each.get("class", "") for each in ET.fromstring(drawn).iterfind(f".//s:{kind}", NAMESPACE)]


@pytest.mark.parametrize(("output", "frames"), [("Hi", 3), ("Hi", 5), ("Hello", 6), ("Hello", 8), ("aa", 3), ("", 2)])
def test_a_picture_has_every_step_that_an_alignment_takes(output: str, frames: int) -> None:
    lattice = of_text(output, frames)
    assert math.exp(float(lattice.log_likelihood)) == pytest.approx(count(output, frames))
    steps, places = set(), set()
    for path in alignments(output, frames, "-"):
        state, found, before = 0, [], "-"
        for symbol in path:
            state += state % 2 if symbol == "-" else 0 if symbol == before else 1 + state % 2
            found.append(state)
            before = symbol
        places |= set(enumerate(found))
        steps |= {(t, *both) for t, both in enumerate(itertools.pairwise(found))}
    drawn = svg(lattice, output, best=False)
    assert classes(drawn, "path").count("step") == len(steps)
    assert sum("possible" in each for each in classes(drawn, "g")) == len(places)
    assert "best" not in "".join(classes(drawn, "path"))


def test_the_best_alignment_is_painted() -> None:
    model = transducer("ctc, lstm, no attention")
    (answer,) = model.answer([Request("ab", target="tu")])
    ((found,),) = frame_alignments(model, [answer])
    drawn = svg(alignment_lattice(model, answer), answer.best.tokens[:-1])
    painted = [each for each in classes(drawn, "g") if "best" in each]
    assert len(painted) == found.count
    assert sum("best" in each for each in classes(drawn, "path")) == found.count - 1


@pytest.mark.parametrize("frames", [0, -1])
def test_no_frames(frames: int) -> None:
    with pytest.raises(ValueError, match=f"{frames} frames: at least 1"):
        of_text("Hi", frames)


def test_long_symbols_have_room_beside_their_rows() -> None:
    """Longer symbols make the picture wider. They are left out where they do not fit."""
    lattice = of_text("ab", 3)
    short, long = (ET.fromstring(svg(lattice, symbols, best=False)) for symbols in (["a", "b"], ["a", "eight"]))
    assert float(long.get("width", "")) == float(short.get("width", "")) + 10
    texts = [each.text for each in long.iter("{http://www.w3.org/2000/svg}text")]
    assert (texts.count("eight"), texts.count("a")) == (1, 1 + 2)
    assert long.get("aria-label") == "all alignments of a eight with 3 frames"


def test_what_cannot_be_printed_is_shown_all_the_same() -> None:
    """A control character is not valid XML, and a space is invisible. Both get a visible sign."""
    drawn = ET.fromstring(svg(of_text("a\x01 ", 4), ["a", "\x01", " "]))
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a", "\\x01", "␣"} <= set(texts)
    assert drawn.get("aria-label") == "all alignments of a \\x01 ␣ with 4 frames"
