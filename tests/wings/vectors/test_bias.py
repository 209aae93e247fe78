"""Bias of word vectors: directions, WEAT against a plain enumeration, occupations and debiasing."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.core.errors import UserError
from transduce.wings.vectors.analogies import analogies, read_questions
from transduce.wings.vectors.association import Test, p_exact, p_sampled, read_test, weat
from transduce.wings.vectors.bias import Questions, bias
from transduce.wings.vectors.debiasing import equalise, neutralise, soften
from transduce.wings.vectors.direction import direction, explained, projections, read_word_pairs, read_words
from transduce.wings.vectors.files import load, save
from transduce.wings.vectors.occupations import Occupation, occupation_analogies, occupations, read_occupations
from transduce.wings.vectors.report import bias_page
from transduce.wings.vectors.representations.pairs import PairSets, measure_vectors, read_sick
from transduce.wings.vectors.sentences import average
from transduce.wings.vectors.similarity import ScoredPair
from transduce.wings.vectors.table import Floats, Vectors

SMALL = Path(__file__).parent / "word_vectors" / "small.vec"
PAIRS = [("woman", "man"), ("she", "he"), ("girl", "boy"), ("mother", "father"), ("herself", "himself")]
FLOWERS = Test(
    "flowers",
    ("Flowers", "Insects", "Pleasant", "Unpleasant"),
    ("rose", "tulip", "queen"),
    ("wasp", "moth", "tiger", "zebra"),
    ("love", "peace"),
    ("hatred", "war"),
)
JOBS = [Occupation(word, 0.0, rating) for word, rating in (("nurse", -1.0), ("doctor", 0.4), ("engineer", 0.9))]


@pytest.fixture(scope="module")
def small() -> Vectors:
    return load(SMALL)


def cosine(one: Floats, other: Floats) -> float:
    return float(one @ other / math.sqrt(float(one @ one) * float(other @ other)))


# ------------------------------------------------------------------------ WEAT


def test_weat_equals_a_plain_enumeration(small: Vectors) -> None:
    """The definition of Caliskan et al. 2017, word by word and partition by partition. A word without a vector is left
    out.
    """
    vector = {word: small.matrix_VD[place].astype(float) for word, place in small.index.items()}
    x, y = FLOWERS.x, FLOWERS.y[:3]

    def s(word: str) -> float:
        near = [cosine(vector[word], vector[a]) for a in FLOWERS.a]
        far = [cosine(vector[word], vector[b]) for b in FLOWERS.b]
        return sum(near) / len(near) - sum(far) / len(far)

    every = {word: s(word) for word in (*x, *y)}
    mean = sum(every.values()) / len(every)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in every.values()) / (len(every) - 1))
    observed = sum(every[w] for w in x) / 3 - sum(every[w] for w in y) / 3
    larger = total = 0
    for chosen in itertools.combinations(every, 3):
        rest = [word for word in every if word not in chosen]
        total += 1
        larger += sum(every[w] for w in chosen) / 3 - sum(every[w] for w in rest) / 3 > observed + 1e-9
    found = weat(small, FLOWERS)
    assert abs(found.effect - observed / deviation) < 1e-6
    assert abs(found.size - sum(map(abs, every.values())) / 6) < 1e-6
    assert total == 20
    assert found.p == larger / total
    assert (found.exact, found.known, found.words) == (True, 10, 11)


def test_sets_of_unequal_sizes_keep_them() -> None:
    s_N = np.array([3.0, 1.0, 2.5, 0.5, 0.2])
    sums = [sum(chosen) for chosen in itertools.combinations(s_N, 2)]
    assert p_exact(s_N, 2) == sum(each > 4.0 + 1e-6 for each in sums) / len(sums)


def test_a_sampled_p_is_near_the_exact_one(small: Vectors) -> None:
    generator = np.random.default_rng(5)
    s_N = generator.standard_normal(12)
    exact = p_exact(s_N, 6)
    assert 0.02 < exact < 0.98
    assert abs(p_sampled(s_N, 6, 20_000, 1) - exact) < 0.015
    found = weat(small, FLOWERS, limit=10, samples=5000)
    assert not found.exact
    assert abs(found.p - weat(small, FLOWERS).p) < 0.02


def test_too_few_words_have_no_effect(small: Vectors) -> None:
    found = weat(small, Test("x", ("a", "b", "c", "d"), ("rose",), FLOWERS.y, FLOWERS.a, FLOWERS.b))
    assert math.isnan(found.effect)
    assert math.isnan(found.p)


# ------------------------------------------------------- directions, occupations


@pytest.mark.parametrize("kind", ["pca", "mean"])
def test_a_direction_points_from_the_second_words_to_the_first(small: Vectors, kind: Any) -> None:
    along_D = direction(small, PAIRS, kind)
    assert abs(np.linalg.norm(along_D) - 1) < 1e-6
    places = [small.index[word] for word in ("queen", "king", "cat")]
    queen, king, cat = projections(small, along_D, places)
    assert queen > 0.3 > -0.3 > king
    assert abs(cat) < 0.2


def test_pca_is_of_the_centred_pairs(small: Vectors) -> None:
    """The direction is the first principal component of the words, each minus the mean of its pair."""
    rows = []
    for one, other in PAIRS[:4]:
        a, b = (small.unit_VD[small.index[word]].astype(float) for word in (one, other))
        rows += [a - (a + b) / 2, b - (a + b) / 2]
    _, singular, component = np.linalg.svd(np.array(rows))
    assert abs(abs(component[0] @ direction(small, PAIRS)) - 1) < 1e-6
    assert np.allclose(explained(small, PAIRS), (singular**2 / (singular**2).sum())[:4], atol=1e-6)


def test_a_direction_needs_known_pairs(small: Vectors) -> None:
    with pytest.raises(UserError, match=r"small.vec has none of the 1 pairs of words"):
        direction(small, PAIRS[4:])
    with pytest.raises(UserError, match="the pairs define no direction"):
        direction(Vectors(("a", "b"), np.ones((2, 3))), [("a", "b")])


def test_occupations_on_the_direction(small: Vectors) -> None:
    along_D = direction(small, PAIRS)
    found = occupations(small, along_D, [*JOBS, Occupation("astronaut")])
    assert {word for word, _ in found.ranked[:2]} == {"engineer", "doctor"}
    assert found.ranked[0][1] < found.ranked[1][1] < 0 < found.ranked[2][1]
    assert found.occupations == 4
    assert found.agreement.value > 0.9
    on = dict(found.ranked)
    assert abs(on["nurse"] - cosine(small.matrix_VD[small.index["nurse"]], along_D)) < 1e-6
    assert abs(found.bias - sum(map(abs, on.values())) / 3) < 1e-9
    first = occupation_analogies(small, along_D, JOBS, k=2, farthest=2.0)[0]
    assert first.one == "nurse"
    assert first.other in ("engineer", "doctor")
    difference = [small.unit_VD[small.index[word]] for word in (first.one, first.other)]
    assert abs(first.cosine - cosine(difference[0] - difference[1], along_D)) < 1e-5
    assert occupation_analogies(small, along_D, JOBS, farthest=0.01) == []
    with pytest.raises(UserError, match="none of the 1 occupations"):
        occupations(small, along_D, [Occupation("astronaut")])


# ------------------------------------------------------------------- debiasing


def test_neutral_words_lose_their_component(small: Vectors) -> None:
    along_D = direction(small, PAIRS)
    changed = neutralise(small, along_D, specific=["queen"])
    rest = [place for word, place in small.index.items() if word != "queen"]
    assert np.abs(projections(changed, along_D, rest)).max() < 1e-6
    assert np.allclose(changed.unit_VD[small.index["queen"]], small.unit_VD[small.index["queen"]], atol=1e-6)
    assert np.allclose(np.linalg.norm(changed.matrix_VD, axis=1), 1, atol=1e-6)


def test_equal_pairs_are_equally_far_from_neutral_words(small: Vectors) -> None:
    along_D = direction(small, PAIRS)
    neutral = neutralise(small, along_D, specific=["queen", "king"])
    changed = equalise(neutral, along_D, [("queen", "king"), ("queen", "emperor"), ("cat", "cat")])
    queen, king, cat = (changed.matrix_VD[changed.index[word]].astype(float) for word in ("queen", "king", "cat"))
    assert abs(cosine(queen, cat) - cosine(king, cat)) < 1e-6
    assert abs(queen @ along_D + king @ along_D) < 1e-6
    assert queen @ along_D > 0.1
    assert np.allclose([queen @ queen, king @ king], 1, atol=1e-6)
    assert np.array_equal(changed.matrix_VD[changed.index["dog"]], neutral.matrix_VD[neutral.index["dog"]])


def test_a_pair_on_one_side_of_the_direction_is_equalised_too() -> None:
    """The word with the larger component gets the positive one."""
    along_D = np.array([1.0, 0.0, 0.0])
    vectors = Vectors(("less", "more"), np.array([[0.6, 0.8, 0.0], [0.8, 0.0, 0.6]], np.float32))
    less, more = equalise(vectors, along_D, [("less", "more")]).matrix_VD
    assert np.allclose(less, [-np.sqrt(0.75), 0.4, 0.3], atol=1e-6)
    assert np.allclose(more, [np.sqrt(0.75), 0.4, 0.3], atol=1e-6)


def test_what_has_no_other_component_stays() -> None:
    """A word along the direction keeps its vector, and so do the words of a pair with equal components."""
    along_D = np.array([1.0, 0.0, 0.0])
    vectors = Vectors(("along", "one", "other"), np.array([[1, 0, 0], [0.6, 0.8, 0], [0.6, 0, 0.8]], np.float32))
    assert np.array_equal(neutralise(vectors, along_D).matrix_VD[0], vectors.matrix_VD[0])
    assert np.allclose(equalise(vectors, along_D, [("one", "other")]).matrix_VD, vectors.matrix_VD, atol=1e-6)


def test_soft_debiasing_lies_between_both(small: Vectors) -> None:
    """A larger weight leaves less of the component and changes the products more. A tiny weight leaves the component as
    before.
    """
    along_D = direction(small, PAIRS)
    rest = list(range(len(small)))
    before = np.abs(projections(small, along_D, rest)).mean()
    left = []
    for weight in (1e-6, 0.2, 50.0):
        changed = soften(small, along_D, weight=weight)
        moved = changed.unit_VD @ changed.unit_VD.T - small.unit_VD @ small.unit_VD.T
        # softening also moves the direction, so it is computed again
        left.append((np.abs(projections(changed, direction(changed, PAIRS), rest)).mean(), np.abs(moved).mean()))
    assert abs(left[0][0] - before) < 1e-3
    assert left[0][0] > left[1][0] > left[2][0]
    assert left[0][1] < left[1][1] < left[2][1]
    with pytest.raises(UserError, match="weight = 0"):
        soften(small, along_D, weight=0)


# -------------------------------------------------------- one page, and the files


def test_before_and_after_stand_on_one_page(small: Vectors) -> None:
    pairs = [ScoredPair("king", "queen", 8.0), ScoredPair("cat", "dog", 7.0), ScoredPair("cat", "Rome", 1.0)]
    questions = Questions(PAIRS, "pca", JOBS, [FLOWERS], {"mine": pairs})
    after = neutralise(small, direction(small, PAIRS), ["he", "she", "man", "woman"])
    along_D = direction(small, PAIRS)
    results = [bias(small, questions, "before", along_D), bias(after, questions, "after <b>", along_D)]
    first, second = results
    assert first.occupations is not None
    assert second.occupations is not None
    assert first.first == first.occupations.bias
    assert second.first is not None
    assert second.first < 1e-6
    assert bias(small, questions, "before").first is None
    assert [name for name, _ in first.rows()] == [name for name, _ in second.rows()]
    assert {"king", "zebra", "doctor", "herself", "Rome"} <= questions.words
    page = bias_page(results)
    assert "after &lt;b&gt;" in page
    assert "nurse" in page
    json.dumps([each.as_json() for each in results])


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_word_pairs, '[["a"]]', "x.json: pairs of words were expected"),
        (read_word_pairs, "{", "x.json is not JSON: pairs of words expected"),
        (read_words, '{"a": 1}', "x.json: words were expected"),
        (read_occupations, '[["a", "b"]]', "x.json: a JSON array of occupations was expected"),
        (read_test, '{"targ1": {}}', "x.json: the keys targ1, targ2, attr1, attr2 were expected"),
    ],
)
def test_bad_files_are_told_in_one_line(read: Any, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "x.json")
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "y.json")


def test_the_commands_write_vectors_and_a_page(small: Vectors, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    from transduce.cli.app import main

    (tmp_path / "pairs.json").write_text(json.dumps(PAIRS))
    (tmp_path / "jobs.json").write_text(json.dumps(["nurse", ["doctor", 0, 0.5], ["engineer", 0, 1]]))
    parts = {"targ1": FLOWERS.x, "targ2": FLOWERS.y, "attr1": FLOWERS.a, "attr2": FLOWERS.b}
    test = {part: {"category": part, "examples": words} for part, words in parts.items()}
    (tmp_path / "weat.json").write_text(json.dumps(test))

    def run(*arguments: object) -> str:
        monkeypatch.setattr("sys.argv", ["transduce", "vectors", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return str(capsys.readouterr().out)

    options = ["--pairs", tmp_path / "pairs.json"]
    run("debias", SMALL, *options, "--method", "neutralise", "--out", tmp_path / "after.vec")
    expected = neutralise(small, direction(small, PAIRS))
    assert np.allclose(load(tmp_path / "after.vec").matrix_VD, expected.matrix_VD, atol=1e-6)
    files = ["--occupations", tmp_path / "jobs.json", "--weat", tmp_path / "weat.json"]
    out = run("bias", SMALL, *options, *files, "--after", tmp_path / "after.vec", "--report", tmp_path / "x.html")
    assert "small.vec" in out
    assert "after.vec" in out
    assert "weat: targ1 and targ2, attr1 and attr2" in out
    assert "Occupations: after.vec" in (tmp_path / "x.html").read_text()
    (tmp_path / "questions.txt").write_text(": royal\nking man queen woman\nking queen man woman\n")
    pairs = "1\tthe king\ta queen\t4.5\ty\n2\tcat\tking\t1.5\tn\n3\tdog\tcat\t4.0\ty\n4\tman\tcat\t1\tn\n"
    (tmp_path / "pairs.tsv").write_text(pairs)
    tasks = ["--analogies", tmp_path / "questions.txt", "--sentences", *[tmp_path / "pairs.tsv"] * 3]
    found = json.loads(run("bias", SMALL, *options, *tasks, "--after", tmp_path / "after.vec", "--json"))
    sections, sets = read_questions(tmp_path / "questions.txt"), PairSets(*[read_sick(tmp_path / "pairs.tsv")] * 3)
    for told, vectors in zip(found, (small, expected), strict=True):
        measured = measure_vectors("", partial(average, vectors), sets)
        values = [analogies(vectors, sections)[-1].accuracy, measured.relatedness, measured.entailment]
        assert [each["value"] for each in told["tasks"]] == pytest.approx([each.value for each in values], abs=1e-4)
    assert "sentences: entailment accuracy, %" in run("bias", SMALL, *options, *tasks)
    save(small, tmp_path / "again.bin")
    assert (
        run("neighbours", tmp_path / "again.bin", "king", "queen", "--minus", "man", "--k", 1).split()[0] == "princess"
    )
