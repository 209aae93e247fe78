"""Word vectors: files of them, and measures that equal gensim's own."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.core.errors import UserError
from transduce.wings.vectors.analogies import analogies, read_questions
from transduce.wings.vectors.corpus import Corpus
from transduce.wings.vectors.correlation import estimate, pearson, ranks, share, spearman
from transduce.wings.vectors.files import load, save
from transduce.wings.vectors.misspellings import misspellings, read_misspellings
from transduce.wings.vectors.neighbours import neighbours, odd_one_out
from transduce.wings.vectors.similarity import read_pairs, similarity
from transduce.wings.vectors.table import Vectors, normalised
from transduce.wings.vectors.training import VectorTraining, train

FOLDER = Path(__file__).parent / "word_vectors"
SMALL = FOLDER / "small.vec"
TEXT = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog ran"] * 40


@pytest.fixture(scope="module")
def small() -> Vectors:
    return load(SMALL)


@pytest.fixture(scope="module")
def theirs() -> Any:
    models = pytest.importorskip("gensim.models")
    return models.KeyedVectors.load_word2vec_format(str(SMALL))


def random_vectors(words: int = 60, width: int = 7) -> Vectors:
    generator = np.random.default_rng(1)
    names = tuple(f"{chr(97 + i % 26)}{i}" for i in range(words))
    return Vectors(names, generator.standard_normal((words, width)).astype(np.float32))


# ----------------------------------------------------------------------- files


def fasttext_file(words: Sequence[bytes] = (b"king", b"queen"), **changes: Any) -> bytes:
    """A whole fastText file with 2 features and 3 buckets; ``changes`` damage it."""
    at = {"width": 2, "bucket": 3, "longest": 4, "entries": len(words), "labels": 0, "quantised": False} | changes
    header = struct.pack(
        "<2i12id", 793712314, 12, at["width"], 5, 5, 1, 5, 1, 2, 2, at["bucket"], 3, at["longest"], 100, 1e-4
    )
    sizes = struct.pack("<3i2q", at["entries"], len(words), at["labels"], 10, -1)
    listed = b"".join(word + b"\0" + struct.pack("<qb", 5, 0) for word in words)
    rows = at.get("rows", len(words) + 3)
    numbers = np.arange(2 * (len(words) + 3), dtype="<f4") / 10
    numbers[3] = at.get("value", 1)
    return header + sizes + listed + struct.pack("<?2q", at["quantised"], rows, 2) + numbers.tobytes()


def test_a_fasttext_file_is_read(tmp_path: Path) -> None:
    pytest.importorskip("gensim.models")
    (tmp_path / "x.bin").write_bytes(fasttext_file())
    assert load(tmp_path / "x.bin").words == ("king", "queen")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (fasttext_file()[:20], "breaks off after 20 bytes"),
        (fasttext_file()[:95], "word 1 of 2, at byte 92, has no end"),
        (fasttext_file()[:-1], r"breaks off after \d+ bytes: \d+ were expected"),
        (fasttext_file(value=np.nan), r"has the value nan at byte \d+"),
        (fasttext_file(value=1e30), r"has the value 1e\+30 at byte \d+"),
        (fasttext_file(width=2_000_000_000), "vectors of width 2000000000"),
        (fasttext_file(bucket=-1), "-1 buckets"),
        (fasttext_file(longest=2_000_000_000), "subwords of 3 to 2000000000 letters"),
        (fasttext_file(entries=2_000_000_000), "2000000000 entries and 2 words"),
        (fasttext_file(labels=2), "is a classifier of fastText"),
        (fasttext_file(quantised=True), "is a quantised model"),
        (fasttext_file(rows=2**40), "vectors of width 2 at byte"),
        (fasttext_file([b"king", b"king"]), "cannot be read by gensim"),
    ],
)
def test_a_damaged_fasttext_file_is_told_at_once(content: bytes, message: str, tmp_path: Path) -> None:
    pytest.importorskip("gensim.models")
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(UserError, match=message):
        load(tmp_path / "x.bin")


def test_every_format_has_the_same_vectors(small: Vectors, tmp_path: Path) -> None:
    """Text with and without a header, gzipped, and binary: what another reader of these formats finds."""
    lines = SMALL.read_text().splitlines()
    (tmp_path / "glove.txt").write_text("\n".join(lines[1:]) + "\n")
    (tmp_path / "small.vec.gz").write_bytes(gzip.compress(SMALL.read_bytes()))
    save(small, tmp_path / "again.vec")
    save(small, tmp_path / "small.bin")
    for name in ("glove.txt", "small.vec.gz", "again.vec", "small.bin"):
        found = load(tmp_path / name)
        assert found.words == small.words
        assert np.array_equal(found.matrix_VD, small.matrix_VD), name


def test_gensim_reads_what_we_write(small: Vectors, theirs: Any, tmp_path: Path) -> None:
    save(small, tmp_path / "small.bin")
    read = type(theirs).load_word2vec_format(str(tmp_path / "small.bin"), binary=True)
    assert list(small.words) == read.index_to_key == theirs.index_to_key
    assert np.array_equal(read.vectors, small.matrix_VD)
    theirs.save_word2vec_format(str(tmp_path / "theirs.bin"), binary=True)
    assert np.array_equal(load(tmp_path / "theirs.bin").matrix_VD, small.matrix_VD)


def test_only_wanted_words_are_kept(small: Vectors) -> None:
    assert load(SMALL, words=["PARIS", "king", "zebra"]).words == ("king", "Paris")
    assert load(SMALL, limit=3).words == small.words[:3]
    with pytest.raises(UserError, match=r"small.vec has none of the words that are wanted"):
        load(SMALL, words=["zebra"])


def test_words_may_have_spaces(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("a 1 2\n. . . 3 4\nat name@domain.com 5 6\n")
    assert load(tmp_path / "glove.txt").words == ("a", ". . .", "at name@domain.com")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"x.vec is empty: a file of word vectors was expected"),
        (b"2 2\na 1 2\nb 1 2 3\n", r"x.vec:3: 'b' has 3 numbers, 2 expected as the header says"),
        (b"a 1 2 3\nb 1 2\n", r"x.vec:2: 'b' has 2 numbers, 3 expected as in the first line"),
        (b"a 1 2\nb 1 2\na 3 4\n", r"x.vec:3: the word 'a' has two vectors, the first at .*x.vec:1; remove one"),
        (b"a 1 2\nb 1 two\n", r"x.vec:2: 'b' has 'two' where a number was expected"),
        (b"a 1 2\nb 1 nan\n", r"x.vec:2: the vector of 'b' has the value nan, which is not finite"),
        (b"3 2\na 1 2\nb 1 2\n", r"x.vec breaks off: its header promises 3 vectors, and it has 2; fetch it again"),
        (b"2 2\na " + bytes(8) + b"\nb " + bytes(5), r"x.vec breaks off: its header promises 2 vectors, and it has 1"),
        (b"hello\n", r"x.vec: vectors of width 0; 1 to 10000 numbers after each word were expected"),
        (b"5 99999999\na " + bytes(8), r"x.vec: vectors of width 99999999; 1 to 10000 numbers"),
    ],
)
def test_bad_files_are_told_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.vec").write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        load(tmp_path / "x.vec")
    assert "\n" not in str(raised.value)


def test_the_first_of_two_may_count(tmp_path: Path) -> None:
    (tmp_path / "x.vec").write_text("a 1 2\nb 1 2\na 3 4\n")
    assert load(tmp_path / "x.vec", first_of_two=True).matrix_VD.tolist() == [[1, 2], [1, 2]]


def test_a_word_with_white_space_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'a b' has white space"):
        save(Vectors(("a b",), np.ones((1, 2))), tmp_path / "x.vec")


@pytest.mark.parametrize(
    ("words", "shape", "message"),
    [
        ((), (0, 2), "no word vectors"),
        (("a", "a"), (2, 2), "'a' has two vectors"),
        (("a",), (2, 2), "one row for each"),
    ],
)
def test_a_table_is_checked(words: tuple[str, ...], shape: tuple[int, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Vectors(words, np.ones(shape))


# -------------------------------------------------------------------- measures


@pytest.mark.parametrize(("unknown", "dummy"), [("skip", False), ("zero", True)])
def test_similarity_equals_gensim(small: Vectors, theirs: Any, unknown: Any, dummy: bool) -> None:
    ours = similarity(small, read_pairs(FOLDER / "pairs.tsv"), unknown=unknown)
    their_pearson, their_spearman, missing = theirs.evaluate_word_pairs(
        str(FOLDER / "pairs.tsv"), dummy4unknown=dummy, case_insensitive=True
    )
    assert abs(ours.pearson.value - their_pearson[0]) < 1e-6
    assert abs(ours.spearman.value - their_spearman[0]) < 1e-6
    assert abs(100 * (1 - ours.coverage) - missing) < 1e-6
    assert (ours.pairs, ours.known, ours.used) == (10, 9, 10 if dummy else 9)
    assert ours.spearman.low < ours.spearman.value < ours.spearman.high


def test_analogies_equal_gensim(small: Vectors, theirs: Any) -> None:
    ours = analogies(small, read_questions(FOLDER / "questions.txt"))
    accuracy, sections = theirs.evaluate_word_analogies(str(FOLDER / "questions.txt"), case_insensitive=True)
    for own, their in zip(ours[:-1], sections[:-1], strict=True):
        assert (own.name, own.right, own.covered) == (
            their["section"],
            len(their["correct"]),
            len(their["correct"]) + len(their["incorrect"]),
        )
    assert (ours[-1].name, ours[-1].questions, ours[-1].covered) == ("total", 8, 7)
    assert 0 < ours[-1].right < 7
    assert abs(ours[-1].accuracy.value - accuracy) < 1e-6


@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")  # gensim's own, inside gensim
def test_both_kinds_of_analogies_equal_gensim_on_random_vectors(tmp_path: Path) -> None:
    """3CosMul is gensim's ``most_similar_cosmul``; random vectors tell the two apart."""
    models = pytest.importorskip("gensim.models")
    vectors = random_vectors()
    save(vectors, tmp_path / "random.vec")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "random.vec"))
    generator = np.random.default_rng(2)
    rows = [generator.choice(len(vectors), 3, replace=False) for _ in range(300)]
    for method, search in (("add", theirs.most_similar), ("mul", theirs.most_similar_cosmul)):
        right = []
        for row in rows:
            a, b, c = (vectors.words[place] for place in row)
            right.append(search(positive=[b, c], negative=[a], topn=1)[0][0])
        lines = [" ".join([*(vectors.words[i] for i in row), word]) for row, word in zip(rows, right, strict=True)]
        (tmp_path / "questions.txt").write_text(": all\n" + "\n".join(lines) + "\n")
        by_method = {
            each: analogies(vectors, read_questions(tmp_path / "questions.txt"), each)[-1].right
            for each in ("add", "mul")
        }
        assert by_method[method] == 300
        assert by_method["mul" if method == "add" else "add"] < 300


def test_neighbours_equal_gensim(small: Vectors, theirs: Any) -> None:
    for plus, minus in ((["king"], []), (["king", "woman"], ["man"])):
        expected = theirs.most_similar(positive=plus, negative=minus, topn=5)
        found = neighbours(small, plus, minus, 5)
        assert [each.word for each in found] == [word for word, _ in expected]
        assert np.allclose([each.cosine for each in found], [value for _, value in expected], atol=1e-6)
    assert odd_one_out(small, ["cat", "dog", "Paris", "horse"])[0].word == "Paris"
    assert theirs.doesnt_match(["cat", "dog", "Paris", "horse"]) == "Paris"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: neighbours(v, ["kings"]), r"no vector for 'kings'; did you mean \"king\"\?"),
        (lambda v: neighbours(v, []), "0 words to look for"),
        (lambda v: odd_one_out(v, ["cat", "dog"]), "2 words: at least three"),
    ],
)
def test_wrong_questions_are_told(small: Vectors, call: Callable[[Vectors], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(small)


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_pairs, "a\tb\n", r"x:1: 'a\\tb': two words and a score"),
        (read_pairs, "#\n", r"x has no pairs"),
        (read_questions, "a b c d\n", r"x:1: 'a b c d': a section .* expected"),
        (read_questions, ": s\na b c\n", r"x:2: 'a b c': four words expected"),
        (read_questions, ": s\n", r"x has no questions"),
        (read_misspellings, "teh the\n", r"x:1: a misspelling, a tab and the right word"),
        (read_misspellings, "", r"x has no pairs"),
    ],
)
def test_bad_questions_are_told_in_one_line(
    read: Callable[[Path], Any], content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "x")


def test_correlations_equal_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(3)
    x, y = generator.integers(0, 6, 40).astype(float), generator.standard_normal(40)
    assert np.array_equal(ranks(x), stats.rankdata(x))
    assert abs(pearson(x, y) - stats.pearsonr(x, y)[0]) < 1e-12
    assert abs(spearman(x, y) - stats.spearmanr(x, y)[0]) < 1e-12
    assert math.isnan(pearson(np.ones(5), y[:5]))
    assert math.isnan(estimate(pearson, y[:1], y[:1]).value)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """About 95 % of the intervals of 200 samples contain the true value."""
    generator = np.random.default_rng(4)
    held = {"pearson": 0, "share": 0}
    for _ in range(200):
        x_N = generator.standard_normal(60)
        y_N = 0.5 * x_N + math.sqrt(0.75) * generator.standard_normal(60)
        found = estimate(pearson, x_N, y_N, 200)
        held["pearson"] += found.low <= 0.5 <= found.high
        right = share(int(generator.binomial(60, 0.1)), 60)
        held["share"] += right.low <= 0.1 <= right.high
    assert 176 <= held["pearson"] <= 199
    assert 180 <= held["share"] <= 200
    with pytest.raises(UserError, match="3 right answers of 2"):
        share(3, 2)


def test_misspellings_find_the_right_word_by_subwords() -> None:
    """A misspelling is covered by a vector of its own or by subwords, and itself is no answer."""
    words = ("the", "teh", "cat", "dog")
    matrix_VD = np.array([[1, 0], [0.9, 0.1], [0, 1], [-1, 0.2]])
    plain = Vectors(words, matrix_VD)
    pairs = [("teh", "the"), ("catt", "cat"), ("xyz", "zebra"), ("dgo", "dog"), ("Cat", "cat")]
    found = misspellings(plain, pairs)
    assert (found.pairs, found.reachable, found.covered, found.first, found.ten) == (4, 3, 1, 1, 1)
    subwords = {"catt": np.array([0.1, 1.0]), "dgo": np.array([1.0, 0.0])}
    found = misspellings(Vectors(words, matrix_VD, subwords.__getitem__), pairs)
    assert (found.reachable, found.covered, found.first, found.ten) == (3, 3, 2, 3)
    assert found.accuracy[0].value == 2 / 3


# -------------------------------------------------------------------- training


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "text.txt").write_text("\n".join(TEXT) + "\n")
    return Corpus([tmp_path / "text.txt"])


@pytest.mark.parametrize("method", ["cbow", "skip-gram"])
def test_training_writes_vectors_that_can_be_read(corpus: Corpus, method: Any, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    how = VectorTraining(method, width=6, epochs=2)
    epochs: list[int] = []
    trained, again = train(corpus, how, after_epoch=epochs.append), train(corpus, how)
    trained.write(tmp_path / "x.vec")
    found = load(tmp_path / "x.vec")
    assert set(found.words) == {word for line in TEXT for word in line.split()}
    assert found.words[0] == "the"
    assert np.array_equal(found.matrix_VD, again.vectors.matrix_VD)
    assert epochs == [1, 2]


def test_subwords_are_kept_in_fasttext_files(corpus: Corpus, tmp_path: Path) -> None:
    """A .bin file gives words that the text does not have the same vectors as the model that was trained."""
    pytest.importorskip("gensim")
    trained = train(corpus, VectorTraining(subwords=True, width=6, epochs=1))
    trained.write(tmp_path / "x.bin")
    found = load(tmp_path / "x.bin", words=["cat", "dog"])
    assert sorted(found.words) == ["cat", "dog"]
    for word in ("cat", "catty"):
        ours, expected = found.vector(word), trained.vectors.vector(word)
        assert ours is not None
        assert expected is not None
        assert np.allclose(ours, expected, atol=1e-6)
    pair = read_pairs(FOLDER / "pairs.tsv")[:1]
    assert similarity(found, pair, unknown="subwords").used == 1
    assert similarity(found, pair, unknown="skip").used == 0


def test_a_corpus_has_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The <unk>, don't!\n\n" + "x " * 1500 + "\n")
    corpus = Corpus([tmp_path / "a.txt"])
    assert [len(words) for words in corpus] == [2, 1000, 500]
    assert next(iter(corpus)) == ["the", "don't"]
    assert next(iter(Corpus([tmp_path / "a.txt"], lowercase=False, whole=True))) == ["The", ",", "don't!"]


@pytest.mark.parametrize(
    ("text", "message"), [("\n", "the corpus is empty"), ("a b c", r"no word of the corpus occurs 5 times .*one: 1\)")]
)
def test_a_corpus_without_words_is_told(text: str, message: str, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        train(Corpus([tmp_path / "a.txt"]), VectorTraining())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "glove"}, "method = 'glove'"),
        ({"width": 0}, "width = 0: a number above 0"),
        ({"window": 2**31}, "window = 2147483648: a number above 0, at most 10,000, was expected"),
        ({"rate": float("nan")}, "rate = nan: a number above 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        VectorTraining(**settings)


def test_a_vector_of_zeros_stays_zero() -> None:
    assert normalised(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist() == [[0, 0], [0.6, 0.8]]
