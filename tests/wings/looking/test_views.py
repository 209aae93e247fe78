"""What ``inspect`` shows of a model by default: every family shows something, or says in one line what to do."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from families import CHAINS, FACTS, FAMILIES, FAST, PARALLEL, build, facts, mixture
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Chain, Framewise, Joint, Parallel, can
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.text import Characters, Symbols, Words
from transduce.search.beam import Beam
from transduce.search.length_beam import LengthBeam
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.tokenizer import Labels
from transduce.wings.labels.viterbi import Viterbi
from transduce.wings.looking.commands.views import ATTENTION, Asked, ViewOptions, show
from transduce.wings.looking.inspection.classes import read_classes
from transduce.wings.looking.inspection.sentence import read_sentence

SOURCE = "abcde"
TABLES = FAMILIES | PARALLEL | CHAINS
NAMES = sorted(
    name for name in TABLES.keys() & (FAST | PARALLEL.keys() | CHAINS.keys()) if facts(TABLES[name]) == FACTS
)


@dataclass(frozen=True)
class OneRun:
    """Takes the place of ``RunOptions``: it has loaded its model."""

    transducer: Transducer
    run: Path = Path("run")

    @property
    def runs(self) -> list[Path]:
        return [self.run]

    def load(self, beam: int | None = None) -> Transducer:
        return self.transducer


def asked(model: Transducer, source: str, **options: Any) -> Asked:
    return Asked(OneRun(model), source, ViewOptions(**options))  # type: ignore[arg-type]


def transducer(table: Any) -> Transducer:
    model, letters = build(table), Characters()
    kind = type(model)
    search: Any = Beam(2, max_length=6)
    if can(kind, Chain):
        search = Viterbi()
    elif can(kind, Framewise) and not can(kind, Joint):
        search = PrefixBeam()
    elif can(kind, Parallel):
        search = LengthBeam() if table["type"] == "instant" else LabelSearch()
    tokenizers = Tokenizers(letters.learn(["abcde"]), letters.learn(["tuvwxyz"]))
    return Transducer(model, search, tokenizers, token_for_token=table["type"] == "tagger")


@pytest.mark.parametrize("name", NAMES)
def test_every_family_shows_something(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(ATTENTION, asked(transducer(TABLES[name]), SOURCE))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2
    assert any(any(letter in line for letter in "tuvwxyz") for line in lines)


@pytest.mark.parametrize("kind", ["ensemble", "fusion"])
def test_the_parts_of_a_mixture(kind: str) -> None:
    """The parts' probabilities make up the mixture's. Shares of an ensemble sum to 1; those of a fusion sum to the
    log-odds of the token against the strongest other one.
    """
    options = {} if kind == "ensemble" else {"weights": [0.3, 0.9]}
    tables = FAMILIES["luong, dot"], FAMILIES["gru, no attention"]
    model = transducer(mixture(kind, *tables, **options))
    found = read_sentence("run", model, SOURCE, "vwx")
    assert [part.name for part in found.parts] == ["encoder-decoder", "encoder-decoder"]
    one, other = found.parts
    for place, step in enumerate(found.steps):
        if kind == "ensemble":
            assert step.probability == pytest.approx((one.probabilities[place] + other.probabilities[place]) / 2)
            assert one.shares[place] == pytest.approx(one.probabilities[place] / 2 / step.probability)
            assert one.shares[place] + other.shares[place] == pytest.approx(1)
        else:
            strongest = max(p for token, p in step.runners if token != step.token)
            odds = math.log(step.probability / strongest)
            assert one.shares[place] + other.shares[place] == pytest.approx(odds, abs=1e-4)
    assert "share: " + found.meaning in found.lines()
    assert len(found.part_rows()) == 1 + len(found.steps)
    alone = read_sentence("run", transducer(tables[0]), SOURCE, "vwx")
    assert (alone.parts, alone.units, alone.part_lines()) == ((), None, [])


def test_a_language_model_reads_its_source_as_text() -> None:
    letters = Symbols()
    empty = Tokenizers(letters.learn([]), Characters().learn(["tuvwxyz"]))
    model = Transducer(build(FAMILIES["language model, gru, no attention"]), Beam(2), empty)
    found = read_sentence("run", model, "vwx")
    assert (found.source, [step.token for step in found.steps]) == ("", ["v", "w", "x", "</s>"])


# ------------------------------------------------------------------- classes


@pytest.fixture
def classifier() -> Transducer:
    tokenizers = Tokenizers(Words().learn(["a great film", "not dull"]), Labels().learn(list("tuvwxyz")))
    assert (len(tokenizers.source), len(tokenizers.target)) == (FACTS.source_vocabulary, FACTS.target_vocabulary)
    return Transducer(build(PARALLEL["classifier, gru, last state"]), LabelSearch(), tokenizers)


def test_the_effect_of_a_word_is_what_the_label_loses_without_it(classifier: Transducer) -> None:
    source = "a great  film"
    found = read_classes(classifier, source)
    names = [name for name, _ in found.classes]
    assert sorted(names) == sorted(f"<{label}>" for label in "tuvwxyz")
    assert sum(p for _, p in found.classes) == pytest.approx(1)
    assert [p for _, p in found.classes] == sorted((p for _, p in found.classes), reverse=True)
    assert found.label == names[0]
    assert [source[each.start : each.end] for each in found.words] == ["a", "great", "film"]
    label = names[-1].strip("<>")
    other = read_classes(classifier, source, label)
    left = ["great  film", "a  film", "a great "]
    scores = [dict(read_classes(classifier, text).classes)[names[-1]] for text in (source, *left)]
    expected = [math.log(scores[0] / score) for score in scores[1:]]
    assert [each.effect for each in other.words] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(UserError, match=r"--target 'q' is no class of this model\. Known: <t>, <u>"):
        read_classes(classifier, source, "q")
    with pytest.raises(UserError, match="this encoder-decoder model gives no label to a whole source"):
        read_classes(transducer(FAMILIES["luong, dot"]), SOURCE)


def test_classes_are_shown_as_lines_page_and_json(
    classifier: Transducer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(ATTENTION, asked(classifier, "dull <acting>"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["dull", "<acting>"]
    show(ATTENTION, asked(classifier, "dull <acting>", out=tmp_path / "page.html"))
    assert "&lt;acting&gt;</span>" in (tmp_path / "page.html").read_text()
    show(ATTENTION, asked(classifier, "dull <acting>", out=tmp_path / "page.json"))
    record = json.loads((tmp_path / "page.json").read_text())
    assert [each["word"] for each in record["words"]] == ["dull", "<acting>"]
    with pytest.raises(UserError, match=r"page \.html, or written as \.json"):
        show(ATTENTION, asked(classifier, "dull", out=tmp_path / "page.png"))
