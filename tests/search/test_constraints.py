"""Required and forbidden phrases, in beams with room for everything, against the list of all outputs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_prefix import prefixes
from test_search import Lookup

from families import FAMILIES, all_lengths, build, sources
from selection import mostly_slow
from test_laws import padded_targets, pick, sources_alone
from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded
from transduce.search.beam import Beam
from transduce.search.constraints.base import constrained
from transduce.search.constraints.phrases import Constraints
from transduce.search.filters.lengths import LengthLimit
from transduce.search.filters.ngrams import NoRepeat
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability
from transduce.search.sampling import Sampling
from transduce_engine.phrases import Lexicon

CPU = torch.device("cpu")
LONGEST = 4
FAR = -1e5  # only an output that breaks a constraint scores less


class Spelling:
    """A vocabulary with words in one piece and in several, and a comma."""

    pieces = ("", "", "", "<unk>", " a", "b", " ab", ",", " c", "a", " ")

    def __init__(self, size: int = 9) -> None:
        self.pieces = self.pieces[:size]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Takes the longest piece at each place."""
        return [[*self._ids(" " + text), EOS] for text in texts]

    def _ids(self, text: str) -> list[int]:
        ids, place = [], 0
        while place < len(text):
            fitting = [i for i, piece in enumerate(self.pieces) if i > 3 and text.startswith(piece, place)]
            ids.append(max(fitting, key=lambda i: len(self.pieces[i]), default=3))
            place += len(self.pieces[ids[-1]]) if fitting else 1
        return ids

    def normalize(self, text: str) -> str:
        return text

    def text(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[i] for i in ids)


SMALL = Spelling()
LEXICON = Lexicon(SMALL)
WORDS = range(3, 9)
OUTPUTS = [(*body, EOS) for length in range(LONGEST) for body in itertools.product(WORDS, repeat=length)]


def stands(phrase: str, text: str) -> bool:
    """Returns whether the phrase is in the text as whole words."""
    inside = r"(?<=\w)(?=\w)"
    return re.search(rf"(?!{inside}){re.escape(phrase)}(?!{inside})", text) is not None


def satisfied(constraints: Constraints, tokens: Sequence[int]) -> bool:
    text = SMALL.text(tokens)
    met = all(any(stands(phrase, text) for phrase in some) for some in constraints.alternatives)
    return met and not any(stands(phrase, text) for phrase in constraints.forbidden)


def held(search: Any, rows: Sequence[Constraints | None], lexicon: Lexicon = LEXICON) -> Any:
    return constrained(search, [row.tokenized(lexicon) if row else None for row in rows], lexicon, CPU)


def model_of(seed: int) -> Lookup:
    return Lookup(seed, vocabulary=9)


def log_prob(model: Lookup, source: int, tokens: Sequence[int]) -> float:
    return sum(model.log_probs(source, tuple(tokens[:place]))[token] for place, token in enumerate(tokens))


PHRASES = ["a", "ab", "c", "a c", "c a", "abb", "ab,", "a a", "ab a"]
phrase = st.sampled_from(PHRASES)
constraints = st.builds(
    Constraints,
    st.lists(phrase | st.lists(phrase, min_size=2, max_size=2), max_size=2),
    st.lists(phrase, max_size=2),
)


def possible(each: Constraints) -> bool:
    try:
        each.tokenized(LEXICON)
    except ValueError:
        return False
    return True


@settings(max_examples=12, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
@given(rows=st.lists(constraints.filter(possible), min_size=4, max_size=4), seed=st.integers(0, 1000))
def test_a_beam_with_room_for_all_finds_all_that_is_allowed(rows: list[Constraints], seed: int) -> None:
    """A wide beam finds exactly the allowed outputs. The score tells which outputs of any beam are allowed, and the
    log-probability is the model's own.
    """
    model = model_of(seed)
    source = torch.arange(4)
    whole = held(Beam(260, 260, LONGEST, LogProbability(), unknown=True), rows)(model, source)
    narrow = held(Beam(4, 3, LONGEST, LogProbability(), unknown=True), rows)(model, source)
    for row, asked in enumerate(rows):
        expected = {y: log_prob(model, row, y) for y in OUTPUTS if satisfied(asked, y)}
        found = {h.tokens: h.log_prob for h in whole[row] if h.score > FAR}
        assert found == pytest.approx(expected, abs=1e-9)
        for hypothesis in (*whole[row], *narrow[row]):
            assert (hypothesis.score > FAR) is satisfied(asked, hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(log_prob(model, row, hypothesis.tokens), abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_narrow_beam_meets_what_there_is_room_for(size: int) -> None:
    """Even a beam of one finds an output that satisfies the constraints."""
    rows = [
        Constraints(["abb", "c a"]),
        Constraints(["a c", "c a", ["ab,", "ab a"]]),
        Constraints(["c"], ["a"]),
        Constraints(),
    ]
    for seed in range(10):
        model = model_of(seed)
        plain = Beam(size, size, 9)(model, torch.arange(4))
        found = held(Beam(size, size, 9), rows)(model, torch.arange(4))
        for row, asked in enumerate(rows):
            assert len(found[row]) == size
            assert satisfied(asked, found[row][0].tokens)
            for hypothesis in found[row]:
                assert (hypothesis.score > FAR) is satisfied(asked, hypothesis.tokens)
                assert hypothesis.log_prob == pytest.approx(log_prob(model, row, hypothesis.tokens), abs=1e-9)
        assert [h.tokens for h in found[3]] == [h.tokens for h in plain[3]]  # one bank: the usual allocation


def test_phrases_that_overlap_share_their_words() -> None:
    """The output has room for three words. So "a c" and "c a" must share words: only "a c a" and "c a c" have both."""
    model = model_of(1)
    for found in held(Beam(30, 30, LONGEST), [Constraints(["a c", "c a"])] * 4)(model, torch.arange(4)):
        met = [SMALL.text(h.tokens) for h in found if h.score > FAR]
        assert sorted(met) == [" a c a", " c a c"]


# ------------------------------------------------------------------ laws

TEN = Spelling(11)
ROWS = [
    Constraints(["abb"], ["c"]),
    None,
    Constraints(["c a", ["ab", ","]]),
    Constraints(forbidden=["a", "ab", "c"]),
    Constraints([["c", "a c"]], ["a c a"]),
    Constraints(["abb", "c"]),
    Constraints(forbidden=["a"]),
]
HELD: dict[str, Any] = {
    "greedy": Greedy(7, (NoRepeat(2),)),
    "beam": Beam(5, 3, 8, filters=(NoRepeat(3), LengthLimit(2))),
    "sampling": Sampling(3, max_length=8),
}
BEGINNINGS = [[4, 5], [], [8, 7, 4, 9], [5], [10, 4], [8, 8, 8], []]


@pytest.mark.parametrize("prefix", [False, True], ids=["free", "prefix"])
@pytest.mark.parametrize("search", HELD)
@pytest.mark.parametrize(
    "family", mostly_slow(["luong, coverage, fed", "transformer, pre-norm"], fast=["luong, coverage, fed"])
)
def test_company_and_score(family: str, search: str, prefix: bool) -> None:
    """A row has the same outputs alone and in any batch and order. Their log-probabilities are the model's own."""
    model, source, lexicon = build(FAMILIES[family]), sources(all_lengths(family)), Lexicon(TEN)
    asked = ROWS if search == "beam" else [row and Constraints(forbidden=row.forbidden) for row in ROWS]

    def searched(rows: list[int], given: Padded) -> Any:
        forced = prefixes([BEGINNINGS[row] for row in rows]) if prefix else None
        return held(HELD[search], [asked[row] for row in rows], lexicon)(model, given, forced)

    order = [3, 6, 0, 5, 2, 4, 1]
    together, shuffled = searched(list(range(7)), source), searched(order, pick(source, order))
    for place, row in enumerate(order):
        (alone,) = searched([row], sources_alone(source, row))
        for other in (together[row], shuffled[place]):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-9)
        for hypothesis in alone:
            (own,) = force(model, pick(source, [row]), padded_targets([list(hypothesis.tokens)]))
            assert own.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-9)


def test_what_a_prefix_has_is_met_and_what_it_begins_goes_on() -> None:
    model, asked = model_of(2), Constraints(["a c"])
    for beginning in ([4, 8], [8, 4]):
        found = held(Beam(40, 40, 4, unknown=True), [asked])(model, torch.tensor([0]), prefixes([beginning]))[0]
        assert {h.tokens for h in found if h.score > FAR} == {
            y for y in OUTPUTS if y[:2] == tuple(beginning) and satisfied(asked, y)
        }


def test_a_word_that_is_forbidden_may_become_another_and_not_stand_at_the_end() -> None:
    """The word "a" is forbidden. The piece " a" may begin another word, but no output ends with the word "a"."""
    model = model_of(0)
    model.logits[:, :, 4] += 30.0
    for row in Greedy(2)(model, torch.arange(4)):
        assert SMALL.text(row[0].tokens) == " a"
    for longest in (2, 3, 4):
        search = held(Greedy(longest), [Constraints(forbidden=["a"])] * 4)
        for (found,) in search(model, torch.arange(4)):
            assert not stands("a", SMALL.text(found.tokens))


@pytest.mark.parametrize("length", [LengthLimit(maximum=4), LengthLimit(maximum_ratio=1.0)])
@pytest.mark.parametrize("phrase", ["a", "c", "ab"])
def test_what_is_forbidden_does_not_stand_at_the_end_that_a_filter_sets(length: LengthLimit, phrase: str) -> None:
    """A filter ends each output at the limit of its own source, long before ``max_length``."""
    lengths = [2, 3, 4, 4] * 15
    model, source = build(FAMILIES["luong, general"]), sources(lengths)
    asked, spelling = [Constraints(forbidden=[phrase])] * len(lengths), Spelling(11)
    for search in (
        Greedy(20, (length,)),
        Sampling(3, max_length=20, filters=(length,)),
        Beam(3, 1, 20, filters=(length,)),
    ):
        found = [one for row in held(search, asked, Lexicon(spelling))(model, source) for one in row]
        assert {len(one.tokens) for one in found} >= {4}, "some reach the limit"
        for one in found:
            assert not stands(phrase, spelling.text(one.tokens))


def test_what_cannot_be_met_ranks_last_and_ends_where_the_search_does() -> None:
    """A filter forbids a required phrase, and the constraints do not know it. The outputs have the maximum length."""
    model, search = model_of(0), Beam(4, 4, 5, filters=(NoRepeat(1),))
    rows = [Constraints(["a a"]), Constraints(["a"]), None, None]
    found = held(search, rows)(model, torch.arange(4))
    assert all(h.score < FAR and len(h.tokens) == 5 for h in found[0])
    assert all(row[0].score > FAR for row in found[1:])
    assert max(h.score for h in found[0]) == pytest.approx(-2e6 / 5, rel=1e-3)  # two missing tokens, length 5


# ------------------------------------------------------------------ bad input


def test_a_phrase_has_room_for_itself_and_the_end() -> None:
    with pytest.raises(
        UserError, match="phrase of 2 tokens and the end do not fit max_length = 2: set it to at least 3"
    ):
        held(Beam(max_length=2), [Constraints(["a c"])])
    assert held(Beam(max_length=3), [Constraints(["a c"])]).max_length == 3


def test_a_search_with_forbidden_phrases_equals_itself_alone() -> None:
    one, other = (held(Greedy(9), [Constraints(forbidden=["a"])]) for _ in range(2))
    assert one == one
    assert one != other


def test_what_is_never_written_need_not_be_forbidden() -> None:
    assert Constraints(forbidden=["xyz"]).tokenized(LEXICON).forbidden == ()
    search = Beam(3, max_length=5)
    assert held(search, [Constraints(forbidden=["xyz"])]) == search
