"""Back-translation: noise on words, synthetic pairs of a reverse model, and real pairs beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import Call, told

import transduce
from transduce.core.errors import UserError
from transduce.wings.lab.back_translation import WordNoise, back_translated, mixed, noised, tagged

WORDS = [f"w{n}" for n in range(12)]


def test_noise_removes_replaces_and_moves_words_a_little() -> None:
    """Over many lines, the shares are near the probabilities. Words move by every distance up to the limit, and no
    further.
    """
    text = " ".join(WORDS)
    moved = [WordNoise(0, 0, 3)(text, number).split() for number in range(300)]
    assert all(sorted(words) == sorted(WORDS) for words in moved)
    assert {abs(words.index(word) - n) for words in moved for n, word in enumerate(WORDS)} == {0, 1, 2, 3}
    noisy = [WordNoise(0.2, 0.3, 0)(text, number).split() for number in range(300)]
    left = [word for words in noisy for word in words]
    assert len(left) / (300 * 12) == pytest.approx(0.8, abs=0.03)
    assert left.count("<gap>") / len(left) == pytest.approx(0.3, abs=0.03)
    assert all([word for word in WORDS if word in words] == [w for w in words if w != "<gap>"] for words in noisy)


def test_noise_follows_from_seed_and_number_and_keeps_a_word() -> None:
    text = " ".join(WORDS)
    assert WordNoise(seed=1)(text, 4) == WordNoise(seed=1)(text, 4)
    assert len({WordNoise(seed=seed)(text, number) for seed in (1, 2) for number in (4, 5)}) == 4
    assert all(WordNoise(0.99, 0)("a b", number) in ("a", "b", "a b", "b a") for number in range(50))
    for wrong, message in (
        ({"remove": 1}, "remove = 1"),
        ({"distance": -1}, "at least 0"),
        ({"filler": " "}, "one wo"),
    ):
        with pytest.raises(UserError, match=message):
            WordNoise(**wrong)  # type: ignore[arg-type]


def test_real_pairs_are_written_by_their_weight() -> None:
    assert [*mixed([("a", "b")], iter([("c", "d")]), 2)] == [("a", "b"), ("a", "b"), ("c", "d")]
    with pytest.raises(UserError, match="weight = 0"):
        next(mixed([], [], 0))


def test_each_target_gets_the_source_that_the_reverse_model_writes(trained: Path) -> None:
    reverse = transduce.load(trained, device="cpu")
    targets = ["abc", "", "zz", "abc", "  "]
    plain = [*back_translated(reverse, targets)]
    kept = [target for target in ("abc", "zz", "abc") if reverse(target)]
    assert kept
    assert plain == [(reverse(target).strip(), target) for target in kept]
    assert [*tagged(plain, "back")] == [(f"back {source}", target) for source, target in plain]
    noise = WordNoise(0, 0.5, 0)
    assert [*noised(plain, noise)] == [(noise(source, n), target) for n, (source, target) in enumerate(plain)]
    with pytest.raises(UserError, match="tag = 'two words'"):
        next(tagged(plain, "two words"))


def test_the_command_mixes_real_and_synthetic_pairs(call: Call, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "real.tsv").write_text("x\ty\n")
    (tmp_path / "text").write_text("abc\nzz\n")
    found = noised(back_translated(transduce.load(trained, device="cpu"), ["abc", "zz"]), WordNoise(seed=3))
    synthetic = [*tagged(found, "back")]
    real = "--pairs", tmp_path / "real.tsv"
    options = "--device=cpu", "--tag", "back", "--noise", "--seed", "3", *real, "--weight", "2"
    lines = ["x\ty", "x\ty", *("\t".join(pair) for pair in synthetic)]
    status, out, _ = call("back-translate", trained, *options, stdin=b"abc\nzz\n")
    assert (status, out.splitlines()) == (0, lines)
    call("back-translate", trained, tmp_path / "text", *options, "--out", tmp_path / "mixed.tsv")
    assert (tmp_path / "mixed.tsv").read_text().splitlines() == lines
    assert "--weight 2 is for real pairs" in told(call("back-translate", trained, "--weight", "2"))
