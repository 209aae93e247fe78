"""Outputs that are parts of their source: marks, the search over them against all outputs, and copying in order."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_search import Lookup

from families import build, recurrent, sources
from transduce import api, load
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.core.types import EOS, Example, Facts, Padded, Prediction
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import encoded
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.data.tokenizers.text import Characters, Words
from transduce.metrics.base import evaluate, metric
from transduce.search.base import with_run
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.training.request import TrainingRequest
from transduce.wings.labels.spans import parts, sentence_marks, word_marks
from transduce.wings.labels.spelled import Sentences, Spelled
from transduce.wings.summaries.search import KEPT_ID, LEFT_OUT_ID, SelectionSearch
from transduce.wings.summaries.subsequence import Subsequence
from transduce.wings.summaries.tokenizer import Selection

TEXT = 'We ask (cf. Li et al. 2017). Is it so? "Yes," e.g. Ann says. it costs 3.5 dollars!  Done'


def test_sentences_end_where_another_begins() -> None:
    assert parts(TEXT, "sentences") == [
        "We ask (cf. Li et al. 2017).",
        "Is it so?",
        '"Yes," e.g. Ann says. it costs 3.5 dollars!',
        "Done",
    ]
    assert parts("我问。他说！好", "sentences") == ["我问。", "他说！", "好"]
    assert parts(" \n", "sentences") == parts("", "sentences") == []


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=5))
def test_kept_words_are_the_longest_common_subsequence(source: list[str], target: list[str]) -> None:
    def common(n: int) -> bool:
        return bool({*itertools.combinations(source, n)} & {*itertools.combinations(target, n)})

    kept = [word for word, mark in zip(source, word_marks(source, target), strict=True) if mark == "1"]
    assert tuple(kept) in {*itertools.combinations(target, len(kept))}
    assert not common(len(kept) + 1)


def test_kept_sentences_are_added_while_they_help() -> None:
    source = ["A dog barks.", "The cat sleeps all day.", "It is hot", "The day ends."]
    assert sentence_marks(source, "the CAT sleeps", 3) == ["0", "1", "0", "0"]
    assert sentence_marks(source, "a dog barks, it is hot", 1) == ["1", "0", "0", "0"]
    assert sentence_marks(source, "a dog barks, it is hot", 4) == ["1", "0", "1", "0"]
    assert sentence_marks(["x", "y"], "z", 2) == ["1", "0"]
    assert sentence_marks([], "z", 1) == []


def test_a_target_is_marks_of_its_source_and_back() -> None:
    words, sentences = (Selection(kind).learn([]) for kind in ("words", "sentences"))
    (ids,) = encoded(words, ["dogs bark loud"], ["big\tdogs often bark"])
    assert words.decode(ids) == "0 1 0 1"
    assert words.with_source("0 1 0 1", "big\tdogs often bark") == "dogs bark"
    assert sentences.without_source("so", TEXT) == "0 1 0 0"
    assert sentences.with_source("0 1 0 1", TEXT) == "Is it so? Done"
    assert encoded(words, [""], ["a b"]) == [[EOS]]
    again = from_record(record_of(sentences))
    assert (again.fingerprint, again.normalize("0  1")) == (sentences.fingerprint, "0 1")
    assert again.fingerprint != words.fingerprint
    with pytest.raises(DataError, match="most = 0"):
        Selection(most=0)


def test_a_text_of_sentences_has_a_mark_for_each() -> None:
    tokenizer = Sentences(Words()).learn([TEXT])
    (ids,) = tokenizer.encode([TEXT])
    assert tokenizer.length(ids) == 4
    assert tokenizer.decode(ids) == tokenizer.normalize(TEXT) == " ".join(TEXT.split())
    spans = tokenizer.spans(TEXT)
    assert [TEXT[start:end].strip() for start, end in spans[:3]] == ["", "We", "ask"]
    assert spans[-1] == (len(TEXT), len(TEXT))
    assert len(spans) == len(ids)
    with pytest.raises(DataError, match="use the same units"):
        tokenizer.extended(Spelled(Characters()).learn(["a"]))


# -------------------------------------------------------------------- search


@pytest.mark.parametrize("threshold", [0.5, 0.1])
@pytest.mark.parametrize(("least", "most"), [(0, None), (1, 1), (2, 2), (1, 3), (3, None), (9, None), (0, 0)])
def test_the_search_finds_the_best_of_all_outputs_within_the_limits(
    least: int, most: int | None, threshold: float
) -> None:
    facts = Facts(source_vocabulary=9, target_vocabulary=6)
    table = {"type": "tagger", "encoder": recurrent("plain")["encoder"]}
    model, source = config.build(table, Model, facts, "model").double().eval(), sources([5, 2, 4, 1])
    emission = model.emit(model.start(source))
    log_p_BTV = model.readout(emission.output).log_softmax(-1)
    found = SelectionSearch(least, most, nbest=40, threshold=threshold)(model, source)
    gain = math.log((1 - threshold) / threshold)
    for row, length in enumerate([4, 1, 3, 0]):
        few, many = min(least, length), length if most is None else most
        expected = {
            (*labels, EOS): sum(log_p_BTV[row, t, label].item() for t, label in enumerate(labels))
            for labels in itertools.product((LEFT_OUT_ID, KEPT_ID), repeat=length)
            if few <= labels.count(KEPT_ID) <= many
        }
        assert {each.tokens: each.log_prob for each in found[row]} == pytest.approx(expected)
        for each in found[row]:
            assert each.score == pytest.approx(each.log_prob + gain * each.tokens.count(KEPT_ID))
        assert [each.score for each in found[row]] == sorted((each.score for each in found[row]), reverse=True)
        (best,) = SelectionSearch(least, most, threshold=threshold)(model, source)[row]
        assert best == found[row][0]
        if (least, most) == (0, None):
            kept = (log_p_BTV[row, :length, KEPT_ID] - log_p_BTV[row, :length, LEFT_OUT_ID]).sigmoid() > threshold
            assert best.tokens[:-1] == tuple(KEPT_ID if keep else LEFT_OUT_ID for keep in kept.tolist())


@pytest.mark.parametrize(("least", "most"), [(1, None), (1, 1), (2, 3), (9, None)])
def test_parts_that_stand_together_are_the_best_such_output(least: int, most: int | None) -> None:
    """Against all outputs; a source with fewer parts than ``least`` keeps all."""
    facts = Facts(source_vocabulary=9, target_vocabulary=6)
    table = {"type": "tagger", "encoder": recurrent("plain")["encoder"]}
    model, source = config.build(table, Model, facts, "model").double().eval(), sources([6, 2, 4, 1])
    emission = model.emit(model.start(source))
    log_p_BTV = model.readout(emission.output).log_softmax(-1)
    found = SelectionSearch(least, most, nbest=40, threshold=0.3, together=True)(model, source)
    for row, length in enumerate([5, 1, 3, 0]):
        few, many = min(least, length), length if most is None else most
        expected = {
            (*labels, EOS): sum(log_p_BTV[row, t, label].item() for t, label in enumerate(labels))
            for labels in itertools.product((LEFT_OUT_ID, KEPT_ID), repeat=length)
            if few <= labels.count(KEPT_ID) <= many
            and len([each for each, _ in itertools.groupby(labels) if each == KEPT_ID]) == min(1, length)
        }
        assert {each.tokens: each.log_prob for each in found[row]} == pytest.approx(expected)
        assert [each.score for each in found[row]] == sorted((each.score for each in found[row]), reverse=True)
        (best,) = SelectionSearch(least, most, threshold=0.3, together=True)(model, source)[row]
        assert best == found[row][0]


def test_an_answer_is_marked_at_its_first_place_in_the_passage() -> None:
    tokenizer = Selection("answer").learn([])
    source = "is it big ?\tThe big dog and the big dog bark"
    assert tokenizer.without_source("big dog", source) == "0 0 0 0 0 1 1 0 0 0 0 0"
    assert tokenizer.with_source("0 0 0 0 0 1 1 0 0 0 0 0", source) == "big dog"
    assert tokenizer.without_source("is it", source) == ""  # the question is no passage
    assert tokenizer.without_source("dog bark and", source) == ""
    with pytest.raises(LineError, match=r"set data\.columns\.labels to the question"):
        tokenizer.without_source("dog", "a dog")
    search = SelectionSearch(together=True)
    marks = [[LEFT_OUT_ID, KEPT_ID, KEPT_ID, EOS], [KEPT_ID, LEFT_OUT_ID, KEPT_ID, EOS], [LEFT_OUT_ID] * 3 + [EOS]]
    assert search.refused(sources([4, 4, 4]), Padded(torch.tensor(marks), torch.tensor([4, 4, 4])), 6) == [
        *("", "together", "least")
    ]
    with pytest.raises(UserError, match="least = 0: parts that stand together are at least one"):
        SelectionSearch(least=0, together=True)


def test_limits_and_labels_that_do_not_fit_are_refused() -> None:
    for least, most in ((-1, None), (2, 1)):
        with pytest.raises(UserError, match=f"least = {least}, most = {most}"):
            SelectionSearch(least, most)
    with pytest.raises(UserError, match="nbest = 0"):
        SelectionSearch(nbest=0)
    with pytest.raises(UserError, match=r"threshold = 1\.0: a probability was expected"):
        SelectionSearch(threshold=1.0)
    model = build({"type": "tagger", "encoder": recurrent("plain")["encoder"]})
    with pytest.raises(UserError, match=r'this model has 7 labels: set data\.units\.target\.type = "selection"'):
        SelectionSearch()(model, sources([3]))


# -------------------------------------------------------------------- filter


class Tables(Lookup):
    """A model whose tables are chosen by the length of the source."""

    def start(self, source: Padded) -> object:
        return super().start(source.lengths - 1)


def test_a_beam_with_room_for_all_writes_every_subsequence_and_nothing_else() -> None:
    texts = [[5, 4, 5], [4, 6], []]
    source = Padded(torch.tensor([[5, 4, 5, EOS], [4, 6, EOS, 5], [EOS, 4, 4, 4]]), torch.tensor([4, 3, 1]))
    model = Tables(3, vocabulary=7)
    found = Beam(60, 60, 9, filters=(Subsequence(),))(model, source)
    for row, text in enumerate(texts):
        expected = {(*some, EOS) for n in range(len(text) + 1) for some in itertools.combinations(text, n)}
        assert {each.tokens for each in found[row]} == expected
        (greedy,) = Greedy(9, (Subsequence(),))(model, Padded(source.values[[row]], source.lengths[[row]]))[0]
        assert greedy.tokens in expected
    prefix = Padded(torch.tensor([[6, 4]] * 3), torch.tensor([2] * 3))  # 6 is not in the first source
    forced = Beam(60, 60, 9, filters=(Subsequence(),))(model, source, prefix)
    assert {each.tokens for each in forced[0]} == {(6, 4, EOS), (6, 4, 5, EOS)}


def test_copying_needs_one_vocabulary() -> None:
    one, other = (Characters().learn([text]) for text in ("ab", "cd"))
    beam = Beam(filters=(Subsequence(),))
    assert with_run(beam, _never, one, one) == beam
    with pytest.raises(UserError, match=r"their vocabularies differ.*data\.units\.joint"):
        with_run(beam, _never, one, other)
    with pytest.raises(UserError, match="this source has no tokens"):
        beam(Lookup(1), torch.zeros(1, 1))


def _never(path: Path) -> None:
    raise AssertionError(path)


# -------------------------------------------------------------------- metric


def test_a_kept_word_is_right_at_its_own_place() -> None:
    """The reference keeps the first a and c of "a b a c", and adds d. The outputs keep b and c, all words, no word,
    and the same words as the reference."""
    example = Example("a b a c", ("a c d",))

    def score(text: str) -> float:
        return evaluate([metric("kept_f1")], [Prediction(text)], [example])["kept_f1"]

    assert score("b c") == pytest.approx(100 * 2 * 1 / (2 + 3))
    assert score("a b a c") == pytest.approx(100 * 2 * 2 / (4 + 3))
    assert score("") == 0
    assert score("a c d") == pytest.approx(100 * 2 * 2 / 6)
    with pytest.raises(UserError, match="kept_f1 compares each output with its source"):
        metric("kept_f1").statistics(Prediction("a"), Example("", ("a",)))


# ------------------------------------------------------------------ whole runs


def test_a_run_drops_the_words_that_it_saw_dropped(tmp_path: Path) -> None:
    words = ["so", "we", "very", "eat", "now"]
    texts = [" ".join(each) for each in itertools.permutations(words, 4)]
    pairs = [(text, " ".join(word for word in text.split() if word not in ("so", "very"))) for text in texts]
    settings = {"training.steps": 60, "training.validation.times": 1, "model.encoder.width": 16}
    settings |= {"search.threshold": 0.5}
    run = api.train_run(TrainingRequest("compression", tmp_path / "run", settings, pairs), progress=False)
    model = load(run)
    assert model("we now very eat") == "we now eat"
    (scored,) = model.score([("we very eat now", "we eat now")])
    assert scored.tokens == ("1", "0", "1", "1", "</s>")
    assert model("") == ""


def test_a_run_finds_the_sentence_that_says_what_is_done(tmp_path: Path) -> None:
    fillers = ["Much is known.", "It is hard.", "Results are good."]
    pairs = []
    for n, others in enumerate(itertools.permutations(fillers)):
        for place in range(4):
            claim = f"We propose {'nets' if n % 2 else 'trees'}."
            pairs.append((" ".join([*others[:place], claim, *others[place:]]), claim.lower()))
    settings = {"training.steps": 80, "training.validation.times": 1, "metrics": ["chrf"]}
    settings |= {"training.validation.metrics": ["chrf"], "data.units.source.pieces": "words"}
    run = api.train_run(TrainingRequest("summaries-extractive", tmp_path / "run", settings, pairs), progress=False)
    assert load(run)("It is hard. Much is known. We propose nets. Results are good.") == "We propose nets."
