"""Examinations of odd behaviour: models that are odd in one known way, and the counts that they must give."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

import transduce
from transduce.answers.answer import Answer, Output
from transduce.answers.request import Request
from transduce.core.types import Example
from transduce.wings.looking.examination.changes import PROBES
from transduce.wings.looking.examination.examination import Examiner
from transduce.wings.looking.examination.findings import Case, Difference, Finding, differences
from transduce.wings.looking.examination.outputs import NEGLECTED, SHARE, neglect, repeats
from transduce.wings.looking.examination.said import Said, similarity
from transduce.wings.looking.inspection.attention import attention
from transduce.wings.looking.reports.examination import differing

SOURCES = [
    "one two three four five six seven.",
    "eight nine ten eleven twelve.",
    "red green blue yellow black white grey!",
    "a short one",
]


class Speaker:
    """A model whose output is a function of its source. Each word has the same log-probability."""

    conditional = True
    model = nn.Identity()
    source_tokenizer = SimpleNamespace(signal=False)

    def __init__(self, says: Callable[[str], str], log_prob: float = -1.0) -> None:
        self.says, self.log_prob = says, log_prob

    def answer(self, requests: Iterator[Request], batch_size: int) -> Iterator[Answer]:
        for request in requests:
            text = self.says(request.source)
            each = (self.log_prob,) * (len(text.split()) + 1)
            yield Answer(request, [Output(text, (), sum(each), 0.0, each)])


def counts(says: Callable[[str], str], **options: Any) -> dict[str, tuple[int, int]]:
    examples = [Example(source, (source.upper(),)) for source in SOURCES]
    found = Examiner(**options)("speaker", Speaker(says), examples)  # type: ignore[arg-type]
    return {each.name: (len(each.cases), each.of) for each in found.findings}


def test_a_model_that_does_all_right() -> None:
    assert {name: cases for name, (cases, _) in counts(str.upper).items() if cases} == {"junk": 4}  # equally certain


def test_a_model_that_copies() -> None:
    assert counts(lambda source: source)["copy"] == (4, 4)


def test_a_model_that_knows_one_sentence() -> None:
    found = counts(lambda source: "a man in a red shirt")
    assert found["shuffled"] == (3, 3)
    assert found["half"] == (2, 2)  # two sources have six words
    assert found["one answer"] == (4, 4)
    assert found["nothing"] == (2, 2)


def test_a_model_that_stops_early() -> None:
    found = counts(lambda source: " ".join(source.split()[:2]))
    assert found["too short"] == (3, 4)


def test_a_model_that_reads_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.wings.looking.examination.changes.JOINED", 4)
    monkeypatch.setattr("transduce.wings.looking.examination.examination.JOINED", 4)
    assert counts(lambda source: " ".join(source.split()[:7]))["very long"] == (1, 1)


def test_a_model_that_babbles() -> None:
    found = counts(lambda source: f"{source} and and and so on and so forth and all that was said before it")
    assert found["repetition"] == (4, 4)
    assert found["too long"] == (4, 4)


def test_a_model_that_hangs_on_the_full_stop() -> None:
    found = counts(lambda source: source.upper() if source.endswith((".", "!")) else "no idea")
    assert found["full stop"] == (3, 3)


def test_a_model_that_knows_whole_sentences_by_heart() -> None:
    assert counts(lambda source: source if source in SOURCES else "never heard of it")["typing error"] == (4, 4)


def test_the_gender_of_occupations() -> None:
    german = {"nurse": "Die Krankenschwester", "doctor": "Der Arzt", "judge": "Wer richtet"}
    found = counts(
        lambda source: german.get(source.split()[1] if len(source.split()) > 1 else "", "?"),
        language="de",
        occupations=tuple(german),
    )
    assert (found["as a man"], found["as a woman"]) == ((1, 3), (1, 3))


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("the the the end", True),
        ("the the end", False),
        ("in the park in the park", True),
        ("a b c d e a b c d e", False),
        ("ha ha ho ho", False),
        ("aaa", True),  # one word: its letters
        ("banana", True),
        ("", False),
    ],
)
def test_repetition(text: str, repeated: bool) -> None:
    assert repeats(text) == repeated


def test_similarity_counts_words_alone() -> None:
    assert similarity("A man, a plan!", "a man a plan") == 1
    assert similarity("one two three four", "one two nine ten") == 0.5


def test_changes_are_those_that_they_say() -> None:
    from random import Random

    changed = {probe.name: probe.change(SOURCES[0], Random(3)) for probe in PROBES}
    assert sorted(changed["typing error"]) == sorted(SOURCES[0]) != list(changed["typing error"])
    assert changed["full stop"] == SOURCES[0][:-1]
    assert changed["half"] == "one two three"
    assert sorted(changed["shuffled"].split()) == sorted(SOURCES[0].split())
    assert [each.isalpha() for each in changed["junk"]] == [each.isalpha() for each in SOURCES[0]]
    assert all(probe.change("", Random(3)) is None for probe in PROBES)


def test_the_interval_and_the_p_are_the_published_ones() -> None:
    finding = Finding("x", "", tuple(Case(n, "", "") for n in range(1, 11)), 50)
    assert finding.interval == pytest.approx((0.1124, 0.3304), abs=1e-4)  # Wilson's interval of 10 of 50
    other = Finding("x", "", tuple(Case(n, "", "") for n in [1, *range(20, 22)]), 50)
    difference = Difference(finding, other)
    assert (difference.only_one, difference.only_other) == (9, 2)
    assert difference.p == pytest.approx(2 * (1 + 11 + 55) / 2**11)


def test_neglected_tokens_are_those_with_little_attention(trained: Path) -> None:
    transducer = transduce.load(trained, device="cpu")
    sources = ["abca", "bb", "cabac", "aabbcc", "caca"]
    said = [Said(number, source, next(transducer.predict([source]))[0]) for number, source in enumerate(sources, 1)]
    said = [each for each in said if len(each.output.ids) > 1]
    expected = set()
    for each in said:
        weights_TS = attention(transducer, each.source, each.text).mean()[:-1, :-1]
        received = weights_TS.sum(0) / (len(weights_TS) / weights_TS.shape[1])
        if (received < SHARE).float().mean() >= NEGLECTED:
            expected.add(each.number)
    found = neglect(transducer, said, batch_size=2)
    assert {case.number for case in found.cases} == expected
    assert found.of == len(said) > 1


def test_examine_compares_two_runs(trained: Path, sister: Path, tmp_path: Path, call: Callable[..., Any]) -> None:
    page = tmp_path / "page.html"
    status, out, _ = call("examine", trained, "--against", sister, "--limit", 9, "--json", "--report", page)
    assert status == 0
    one, other = json.loads(out)
    assert one["examples"] == other["examples"] == 9
    assert {each["name"] for each in one["findings"]} >= {"repetition", "neglect", "typing error", "junk"}
    assert "half" in one["left_out"]  # the sources are too short for it
    text = page.read_text(encoding="utf-8")
    assert "Differences" in text
    assert one["findings"][1]["meaning"] in text
    status, out, _ = call("examine", trained, "--limit", 9)
    assert status == 0
    assert "typing error" in out


def test_the_benchmark_puts_runs_side_by_side(monkeypatch: pytest.MonkeyPatch, trained: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    benchmark = importlib.import_module("odd_behaviour")
    _, alone = benchmark.examined(f"{trained}", 9, 1)
    _, asked = benchmark.examined(f"{trained}:de", 9, 1)
    head, _, first, *rest = benchmark.rows([alone, asked])
    assert head == f"| finding | what is counted | {trained.name} | {trained.name} |"
    assert first.startswith("| empty | ")
    assert first.split(" | ")[2].startswith(f"{len(alone.findings[0].cases)} of 9, ")
    (gender,) = [line for line in rest if line.startswith("| as a man")]
    assert gender.split(" | ")[2] == "–"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--occupations", "x.txt"], "--occupations is for --gender"),
        (["--gender", "fi"], "gender 'fi': expected de, fr, es, it"),
    ],
)
def test_what_examine_refuses(options: list[str], message: str, trained: Path, call: Callable[..., Any]) -> None:
    status, _, err = call("examine", trained, *options)
    assert status == 2
    assert message in err


def test_only_findings_of_both_are_compared() -> None:
    one, other = Finding("a", "", (), 1), Finding("b", "", (), 1)
    from transduce.wings.looking.examination.findings import Examination

    found = differences(Examination("x", 1, [one, other], {}), Examination("y", 1, [other], {}))
    assert [each.one.name for each in found] == ["b"]


def test_the_page_names_only_differences_that_are_more_than_chance_among_all() -> None:
    """Twenty findings: one p of 0.03 is chance among so many; one of 2 ** -19 is not."""

    def of(name: str, cases: int) -> Finding:
        return Finding(name, "told", tuple(Case(number, "s", "o") for number in range(cases)), 100)

    alike = [Difference(of(f"alike {number}", 3), of(f"alike {number}", 3)) for number in range(18)]
    weak = Difference(of("weak", 0), of("weak", 6))
    assert weak.p < 0.05
    strong = Difference(of("strong", 20), of("strong", 0))
    assert differing([*alike, weak, strong]).endswith("in: strong (20 and 0 %).")
    assert differing([*alike, weak]).startswith("No difference")
