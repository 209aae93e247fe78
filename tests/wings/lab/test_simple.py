"""benchmarks/simple.py: the simple methods on sets that can be computed by hand, and the comparison with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.core import config
from transduce.core.types import Example
from transduce.metrics.statistics import Statistics

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


pytestmark = pytest.mark.usefixtures("benchmarks")


def answers(task: str, train: list[tuple[str, str]], asked: list[str], valid: int = 2, **more: Any) -> list[str]:
    from simple_methods import TASKS
    from simple_methods.base import Splits

    known = [Example(source, (target,)) for source, target in train]
    test = [Example(source, (train[0][1],)) for source in asked]
    return [each.text for each in TASKS[task].method(Splits(known, known[:valid], test, **more))]


def test_a_label_by_words_and_by_letters() -> None:
    train = [("a good film", "up"), ("so bad a film", "down"), ("good", "up"), ("bad", "down")] * 2
    assert answers("labels", train, ["a good one", "badly made"]) == ["up", "down"]  # "badly" shares letters only


def test_a_label_of_a_pair_by_what_both_share() -> None:
    train = [
        ("a dog\ta dog", "same"),
        ("a dog\ta cat", "other"),
        ("the sun\tthe sun", "same"),
        ("a cat\ta dog", "other"),
    ]
    assert answers("pairs", train * 2, ["a cat\ta cat", "a dog\tthe cat"]) == ["same", "other"]


def test_tags_by_word_ending_and_neighbours() -> None:
    train = [("the dog barks", "D N V"), ("a cat sleeps", "D N V"), ("the fish swims", "D N V"), ("dogs", "N")]
    assert answers("tags", train, ["the bird jumps"]) == ["D N V"]
    assert answers("entities", train, ["a dog swims"]) == ["D N V"]


def test_features_of_a_word() -> None:
    from simple_methods.tags import features, shape

    assert shape("McDonald's") == "XxXx'x"
    assert shape("A-38b") == "X-0x"
    found = features(["The", "Big", "dog"], 1)
    assert len(set(found)) == 20
    assert {"w=big", "-2=ig", "-1w=the", "+1w=dog", "-2w=^", "+2w=$", "shape=Xx"} <= set(found)


@pytest.mark.slow  # it reads a dictionary of 80,000 words
def test_spelling_takes_what_it_has_seen_then_the_nearest_word() -> None:
    train = [("recieve", "receive"), ("zqxwv", "zebra"), ("blorf", "blorfing")]
    assert answers("spelling", train, ["zqxwv", "Freind", "blorfimg", "qqqqqqqqqq"]) == [
        "zebra",
        "Friend",
        "blorfing",
        "qqqqqqqqqq",
    ]


def test_accents_are_of_the_most_frequent_form() -> None:
    train = [("la", "là"), ("la mer", "la mer"), ("la", "la"), ("ete", "été")]
    assert answers("accents", train, ["la mer, ete nu"]) == ["la mer, été nu"]


def test_letters_are_aligned_with_phonemes() -> None:
    from simple_methods.words import aligned

    pairs = [
        ("ta", ["t", "a"]),
        ("ha", ["a"]),
        ("tha", ["t", "a"]),
        ("xa", ["k", "s", "a"]),
        ("at", ["a", "t"]),
        ("a", ["a"] * 3),
    ]
    assert aligned(pairs) == [["t", "a"], ["-", "a"], ["t", "-", "a"], ["k s", "a"], ["a", "t"], []]
    # The library draws the order of words by C's rand(), without a seed: this word is right in any order.
    assert answers("pronunciation", [(word, " ".join(row)) for word, row in pairs * 3], ["xa"]) == ["k s a"]


def test_the_longest_ending_inflects_and_a_beginning_is_added() -> None:
    train = [("PST\twalk", "walked"), ("PST\tlike", "liked"), ("PST\ttry", "tried"), ("PTCP\tsagen", "gesagt")]
    assert answers("inflection", train, ["PST\tcry", "PST\ttalk", "PTCP\tfragen", "NEW\tx"]) == [
        "cried",
        "talked",
        "gefragt",
        "x",
    ]


def test_the_nearest_text_and_the_nearest_picture() -> None:
    train = [("ein hund rennt", "a dog runs"), ("eine katze", "a cat")]
    assert answers("translation", train, ["hund", "die katze"]) == ["a dog runs", "a cat"]
    pictures = {"dark": np.zeros((20, 2)), "light": np.ones((9, 2)), "grey": np.full((5, 2), 0.6)}
    assert answers("captions", [("dark", "night"), ("light", "day")], ["grey"], read=pictures.get) == ["day"]


def test_letters_of_a_picture_are_read_in_its_parts() -> None:
    def read(path: str) -> Any:
        return np.repeat([[float(digit)] for digit in path], 10, axis=0)

    assert answers(
        "pictures", [("01", "01"), ("10", "10"), ("00", "00"), ("11", "11")] * 3, ["10", "01"], read=read
    ) == [
        "10",
        "01",
    ]


def test_the_first_sentence_and_all_words() -> None:
    assert answers("summaries", [("x", "y")], ["One. Two?", " No end"]) == ["One.", "No end"]
    assert answers("compression", [("x", "y")], ["all of it"]) == ["all of it"]


def test_sentences_that_share_more_words_are_more_similar() -> None:
    train = [
        ("a dog runs\ta cat sleeps", "1"),
        ("the sun shines\ta dog sleeps", "2"),
        ("rain falls\tthe cat runs", "3"),
    ]
    same, other = answers("vectors", train, ["a dog runs\ta dog runs", "a dog runs\train falls"])
    assert float(same) == pytest.approx(1)
    assert abs(float(other)) < 0.5


def test_an_autoregression_knows_the_series_up_to_the_forecast() -> None:
    from simple_methods import TASKS
    from simple_methods.base import Splits
    from simple_methods.signals import whole

    def windows(first: int, last: int) -> list[Example]:
        lines = [[f"{each:.9g}" for each in series[at : at + 11]] for at in range(first, last - 10)]
        return [Example(" ".join(line[:8]), (" ".join(line[8:]),)) for line in lines]

    draw = np.random.default_rng(1)
    series = [5 + 2 * step + [0, 3, -1, 0][step % 4] + draw.normal(0, 1e-3) for step in range(90)]
    data = Splits(windows(0, 50), windows(50, 70), windows(70, 90))
    assert whole(data.train) == pytest.approx(series[:50])
    found = TASKS["series"].method(data)
    assert len(found) == len(data.test) == 10
    for each, example in zip(found, data.test, strict=True):
        assert [*map(float, each.text.split())] == pytest.approx([*map(float, example.references[0].split())], abs=0.1)


def test_trigrams_give_each_line_its_probability() -> None:
    from simple_methods import TASKS
    from simple_methods.base import Splits

    known = [Example("", (text,)) for text in ("a b", "a b", "a c")]
    seen, rare = TASKS["text"].method(Splits(known, known, [known[0], known[2]]))
    assert seen.forced_length == rare.forced_length == 3
    assert seen.forced_log_prob is not None
    assert rare.forced_log_prob is not None
    # Witten and Bell: p(b | <s> a) = (2 + 2 p(b | a)) / 5 and p(b | a) = (2 + 2 p(b)) / 5, with p(b) = 2 / 9 or so
    assert rare.forced_log_prob < seen.forced_log_prob < -0.1


def test_a_sound_is_trimmed_and_its_bands_can_be_warped(tmp_path: Path) -> None:
    import soundfile
    from simple_methods.signals import sound, triangles

    time = np.arange(3200) / 8000
    tone = np.sin(2 * np.pi * (500 + 900 * time) * time) * np.hanning(3200)
    quiet = np.zeros(2400)
    soundfile.write(tmp_path / "tone.wav", tone, 8000)
    soundfile.write(tmp_path / "late.wav", np.concatenate([quiet, tone, quiet]), 8000)
    tone_D, late_D = sound(str(tmp_path / "tone.wav")), sound(str(tmp_path / "late.wav"))
    assert tone_D.shape == (2 * 13 * 20,)
    assert np.corrcoef(tone_D, late_D)[0, 1] > 0.99
    middle = [triangles(257, 8000, warp).argmax(1)[10] for warp in (0.88, 1.0, 1.12)]
    assert middle == sorted(set(middle))


def test_noun_phrases_without_others_inside() -> None:
    from simple_methods.made import chunked

    tree = "(ROOT (S (NP (NP (DT the) (NN dog)) (PP (IN of) (NP (NNP Ann)))) (VP (VBZ barks))))"
    assert chunked(tree) == ["the\tB-NP", "dog\tI-NP", "of\tO", "Ann\tB-NP", "barks\tO"]


# ------------------------------------------------------------------ comparison


def statistics_of(metric: str, outputs: list[str], references: list[str]) -> Statistics:
    from simple_methods.measuring import metric_of

    from transduce.core.types import Prediction
    from transduce.metrics.statistics import statistics

    examples = [Example("", (each,)) for each in references]
    return statistics([metric_of(metric)], [Prediction(each) for each in outputs], examples)[0]


def test_the_difference_is_paired_and_names_the_better_system() -> None:
    from simple_methods.measuring import compared

    references = ["a"] * 100
    weak = statistics_of("exact", ["a"] * 60 + ["b"] * 40, references)
    strong = statistics_of("exact", ["a"] * 80 + ["b"] * 20, references)
    row = compared(weak, 1.0, strong, 60.0, 1)
    assert row.difference is not None
    assert (row.simple.value, row.difference.value) == (60, 20)
    assert row.difference.low is not None
    assert row.difference.low > 10  # independent samples would have an interval of 12.5 on either side
    assert (row.better(True), row.better(False)) == ("ours", "simple")
    assert compared(weak, 1.0, weak, 60.0, 1).better(True) == "level"


def test_a_record_is_not_paired() -> None:
    from simple_methods.measuring import alone, beside_record

    from transduce.wings.records.record import Figure

    row = beside_record(
        alone(statistics_of("exact", ["a"] * 50 + ["b"] * 50, ["a"] * 100), 1.0, 1),
        [Figure(70.0, 66.0, 74.0), Figure(72.0, 68.0, 76.0)],
        120.0,
        "the-record",
    )
    assert row.ours == Figure(71.0, 67.0, 75.0)
    assert row.difference is not None
    assert row.difference.low is not None
    half = row.simple.high - row.simple.value  # type: ignore[operator]
    assert row.difference.low == pytest.approx(21 - (4**2 + half**2) ** 0.5)


def test_a_record_counts_if_its_recipe_and_its_examples_are_the_set_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a run of the same recipe with other settings (families-pronunciation), nor one on other examples."""
    from simple_methods import measuring

    from transduce.wings.records.record import Record

    for name in ("g2p", "families-pronunciation", "g2p-small"):
        path = BENCHMARKS / "results" / "records" / f"{name}.json"
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ours = Record.read(tmp_path / "g2p.json")
    monkeypatch.setattr(measuring, "fingerprint_of_examples", lambda _: ours.systems[0].examples)
    found = measuring.recorded(tmp_path, ["g2p", "g2p-small"], "item_error", [])
    assert found is not None
    figures, seconds, stem = found
    assert (stem, len(figures)) == ("g2p", len(ours.systems))
    minutes = [each.models[0].effort.minutes for each in ours.systems if each.models[0].effort is not None]
    assert minutes
    assert seconds == pytest.approx(60 * sum(minutes) / len(minutes))
    assert measuring.recorded(tmp_path, ["tagging"], "item_error", []) is None


def test_windows_of_a_series_are_drawn_in_blocks() -> None:
    from simple_methods.measuring import draws

    found = statistics_of("exact", (["a"] * 12 + ["b"] * 12) * 4, ["a"] * 96)
    assert draws(found, 12).std() > 1.5 * draws(found, 1).std()


def test_the_correlation_of_outputs_and_references() -> None:
    assert statistics_of("correlation", ["1", "2", "4"], ["2", "4", "8"]).score == pytest.approx(100)
    assert statistics_of("correlation", ["1", "2", "3"], ["1", "3", "2"]).score == pytest.approx(50)


def test_each_set_has_a_task_a_recipe_and_files() -> None:
    """Each task has sets, at least one of which no setting was chosen on."""
    from simple import SETS, Sets
    from simple_methods import TASKS
    from simple_methods.made import MADE

    from transduce.core import recipes

    found = config.build(config.read(SETS), Sets).set
    assert {each.task for each in found} == set(TASKS)
    assert len({(each.task, each.name) for each in found}) == len(found)
    for each in found:
        assert each.recipe in recipes.names()
        assert not each.made or each.made in MADE


def test_the_command_compares_sets_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It trains the run of a set, and then compares the same run by its directory."""
    import cases
    import simple

    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text("a b c\ta c\nd b\td\n" * 3)
    (tmp_path / "sets.toml").write_text(
        '[[set]]\ntask = "compression"\nname = "few"\nrecipe = "compression"\nfiles = "{split}.tsv"\ntuned = true\n'
    )
    monkeypatch.setattr(simple, "SETS", tmp_path / "sets.toml")
    options = ["--data", str(tmp_path), "--runs", str(tmp_path / "runs"), "--train"]
    settings = ["--set", "training.steps=2", "--set", "model.encoder.width=8", "--set", "training.validation.times=1"]
    cases.main(["simple", "compression", *options, *settings])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| compression: few | yes |")]
    assert "| kept_f1 | 75.0 (" in row  # three words of five: precision 0.6, recall 1
    run = tmp_path / "runs" / "compression-few"
    cases.main(["simple", "compression", "--run", str(run)])
    (again,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| compression: comp")]
    assert again.split("|")[4:8] == row.split("|")[4:8]
