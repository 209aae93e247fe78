"""Phrase-based translation, by enumeration: phrase pairs, stack decoding, tuning; and a small run, end to end."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import transduce
from families import FAMILIES, build, mixture
from selection import mostly_slow
from transduce.cli.app import app
from transduce.core import config
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import DERIVED, Model
from transduce.core.types import BOS, EOS, UNK, Derivation, Example, Facts, Padded, Prediction
from transduce.data.pairs import Pairs, Ragged
from transduce.data.tokenizers.passing import passing, touches
from transduce.data.tokenizers.text import Words
from transduce.metrics.base import metric
from transduce.wings.alignment.links import Links
from transduce.wings.combining.reranking.base import rerank
from transduce.wings.combining.reranking.candidates import CandidateLists
from transduce.wings.combining.reranking.loglinear import LengthFeature, LogLinear, Own
from transduce.wings.combining.reranking.risk import MinimumRisk
from transduce.wings.combining.tuning.candidates import Candidates
from transduce.wings.combining.tuning.line_search import best_step, envelope
from transduce.wings.combining.tuning.mert import optimise
from transduce.wings.counted.models.ngram import Ngram
from transduce.wings.counted.models.phrase_based import WEIGHTS, PhraseBased
from transduce.wings.counted.phrases import counting
from transduce.wings.counted.phrases.discounting import probabilities
from transduce.wings.counted.phrases.extraction import Corpus, extract
from transduce.wings.counted.phrases.lexical import lexical_weights
from transduce.wings.counted.phrases.reordering import orientations
from transduce.wings.counted.phrases.search.stack import StackSearch
from transduce.wings.counted.phrases.search.stacks import Growth, _largest
from transduce.wings.looking.inspection.stacks import stack_tree
from transduce.wings.looking.inspection.tree import parents_first
from transduce.wings.looking.reports.search_tree import STACKS, page

UNLIMITED = StackSearch(size=10**6, pool=10**6, threshold=math.inf, distortion=-1)


def ragged(rows: list[list[int]]) -> Ragged:
    return Ragged(np.array([i for row in rows for i in row], np.int64), np.cumsum([0, *map(len, rows)]))


# ------------------------------------------------------------- the phrase table


def corpora(seed: int, pairs: int = 4, words: int = 3) -> tuple[Corpus, Corpus, Links]:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 6, (pairs, 2))
    sides = [
        Corpus.of([random.integers(0, words, length).astype(np.int64) for length in column], words)
        for column in lengths.T
    ]
    found = [
        (pair, s, t)
        for pair, (S, T) in enumerate(lengths)
        for s in range(S)
        for t in range(T)
        if random.random() < 0.25
    ]
    return sides[0], sides[1], Links.of(pairs, *np.array(found, np.int64).reshape(-1, 3).T)


@pytest.mark.parametrize("seed", range(8))
def test_the_extracted_pairs_are_the_consistent_ones(seed: int) -> None:
    source, target, links = corpora(seed)
    linked = {
        (int(source.offsets[p] + s), int(target.offsets[p] + t))
        for p, s, t in zip(links.pair_L, links.source_L, links.target_L, strict=True)
    }
    expected = set()
    for p in range(4):
        ends = [range(side.offsets[p], side.offsets[p + 1] + 1) for side in (source, target)]
        for (a, b), (c, d) in itertools.product(*(itertools.combinations(end, 2) for end in ends)):
            inside = {(s, t) for s, t in linked if a <= s < b or c <= t < d}
            consistent = inside and all(a <= s < b and c <= t < d for s, t in inside)
            if consistent and b - a <= 3 and d - c <= 3:
                expected.add((a, b, c, d))
    found = extract(source, target, links, 3)
    columns = (found.source_X, found.source_end_X, found.target_X, found.target_end_X)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(rows) == len(set(rows))
    assert set(rows) == expected


def test_orientations_by_definition() -> None:
    """Source 0 1 2, target 1 0 2: the second phrase is a swap of the first, the third follows both."""
    source, target = (Corpus.of([np.arange(3)], 3) for _ in range(2))
    links = Links.of(1, *np.array([(0, 0, 1), (0, 1, 0), (0, 2, 2)], np.int64).T)
    found = extract(source, target, links, 3)
    before, after = orientations(source, target, links, found, "phrase")
    spans = list(zip(found.source_X.tolist(), found.source_end_X.tolist(), strict=True))
    by_span = {span: (int(b), int(a)) for span, b, a in zip(spans, before, after, strict=True)}
    assert by_span[1, 2] == (2, 1)  # it begins the target and not the source; a swap follows
    assert by_span[0, 1] == (1, 2)
    assert by_span[2, 3] == (0, 0)  # after the pair of both, and at the end of both sentences
    assert by_span[0, 3] == (0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_parts_add_up_to_those_by_definition(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, links = corpora(seed, pairs=40, words=2)
    whole = counting.count(source, target, links, 3, "phrase")
    monkeypatch.setattr(counting, "PART", 1)  # each sentence
    parts = counting.count(source, target, links, 3, "phrase")
    for name in ("source_U", "target_U", "count_U", "orientation_U6", "lexical_U2", "aligned_U", "links_UP"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name

    found = extract(source, target, links, 3)
    weights = lexical_weights(source, target, links).of(found)
    sides = orientations(source, target, links, found, "phrase")
    expected: dict[tuple[Any, ...], list[int]] = {}
    columns = (found.source_X, found.source_end_X, found.target_X, found.target_end_X)
    for number, (a, b, c, d) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        expected.setdefault((tuple(source.ids[a:b].tolist()), tuple(target.ids[c:d].tolist())), []).append(number)
    words = [trie.spelled() for trie in (parts.sources, parts.targets)]
    for u in range(len(parts.count_U)):
        pair = tuple(
            tuple(ids[phrase, : length[phrase]].tolist())
            for (ids, length), phrase in zip(words, (parts.source_U[u], parts.target_U[u]), strict=True)
        )
        own = expected.pop(pair)
        assert parts.count_U[u] == len(own)
        assert parts.lexical_U2[u].tolist() == [max(weight[own]) for weight in weights]
        assert parts.orientation_U6[u].tolist() == [(side[own] == kind).sum() for side in sides for kind in range(3)]
        places = source.offsets[links.pair_L] + links.source_L, target.offsets[links.pair_L] + links.target_L
        best = max(own, key=lambda x: (weights[0][x] + weights[1][x], -found.source_X[x], -found.target_X[x]))
        linked = {(t - columns[2][best], s - columns[0][best]) for t, s in zip(*reversed(places), strict=True)}
        inner = [min((s for t, s in linked if t == place), default=-1) for place in range(len(pair[1]))]
        assert parts.links_UP[u].tolist() == [*inner, *[-1] * (3 - len(inner))]
    assert not expected


def test_discounts() -> None:
    count, given, chosen = (np.array(column) for column in ([1, 3, 1, 2], [0, 0, 1, 1], [0, 1, 0, 2]))
    assert probabilities(count, given, chosen, "none").tolist() == [1 / 4, 3 / 4, 1 / 3, 2 / 3]
    D = 2 / (2 + 2 * 1)
    expected = [
        (1 - D) / 4 + 2 * D / 4 * 2 / 4,
        (3 - D) / 4 + 2 * D / 4 * 1 / 4,
        (1 - D) / 3 + 2 * D / 3 * 2 / 4,
        (2 - D) / 3 + 2 * D / 3 * 1 / 4,
    ]
    assert probabilities(count, given, chosen, "kneser-ney") == pytest.approx(expected)
    # 1 becomes 2 n(2) / n(1) = 1, 2 becomes 3 n(3) / n(2) = 3, which is more than 2 and so does not count
    assert probabilities(count, given, chosen, "good-turing").tolist() == [1 / 4, 3 / 4, 1 / 3, 2 / 3]


# ---------------------------------------------------------------- the decoder
#
# These laws of test_laws.py hold and are tested here: row, company, padding and exactness. The other laws (chunk,
# candidates, stagger, fork, score, greedy, accumulate) need token probabilities, and a derivation has none.


@pytest.fixture(scope="module")
def model() -> PhraseBased:
    return counted_phrases()


def counted_phrases() -> PhraseBased:
    random = np.random.default_rng(0)
    pairs = []
    for _ in range(60):
        row = random.integers(4, 9, random.integers(2, 6)).tolist()
        turned = [row[1], row[0], *row[2:]] if random.random() < 0.5 else row
        pairs.append(([*row, EOS], [*(i + 1 if i % 2 else i for i in turned), EOS]))
    made = PhraseBased(10, 11, longest=2, limit=3, order=3)
    made.counts(Pairs(*(ragged([pair[side] for pair in pairs]) for side in (0, 1)))).store()
    return made.eval()


def test_no_option_writes_unk() -> None:
    """Half of the targets have UNK in training; only a source word without another option is passed on."""
    made = PhraseBased(10, 11, longest=2, limit=3, order=3)
    pairs = [([4, 5, EOS], [4, UNK, EOS]), ([4, 5, EOS], [4, 6, EOS]), ([7, EOS], [UNK, EOS]), ([4, EOS], [4, EOS])] * 9
    made.counts(Pairs(*(ragged([pair[side] for pair in pairs]) for side in (0, 1)))).store()
    found = StackSearch(nbest=9)(made.eval(), Padded.of([[4, 5, EOS], [7, 4, EOS]]))
    assert found[0]
    assert not any(UNK in each.tokens for each in found[0])
    assert {each.tokens for each in found[1]} == {(UNK, 4, EOS), (4, UNK, EOS)}, "7 has no word, and is passed on"


def weighted(model: PhraseBased, seed: int) -> PhraseBased:
    random = np.random.default_rng(seed)
    model.weights.data = torch.from_numpy(random.uniform(0.05, 1, len(model.feature_names))).float()
    return model


def derivations(model: PhraseBased, row: list[int], furthest: float) -> Iterator[tuple[tuple[int, ...], float]]:
    """All derivations: their tokens and their scores, by the definition of each feature."""
    options = model.options(Padded.of([row]))
    weights = dict(zip(model.feature_names, model.weights.tolist(), strict=True))
    kinds = ("monotone", "swap", "discontinuous")

    def words(tokens: list[int]) -> float:
        state, total = model.language_start(1), 0.0
        for token in [*tokens, EOS]:
            step, state = model.language_step(state, torch.tensor([token]))
            total += float(step)
        return total

    def grown(covered: set[int], tokens: list[int], last: int | None, score: float) -> Iterator[tuple[Any, float]]:
        start, end = (0, 0) if last is None else (int(options.start_O[last]), int(options.end_O[last]))
        if len(covered) == len(row) - 1:
            kind = 0 if end == len(row) - 1 else 2
            after = 0.0 if last is None else float(options.orientation_O6[last, 3 + kind])
            yield (
                (*tokens, EOS),
                score + weights[f"{kinds[kind]}-after"] * after + weights["language-model"] * words(tokens),
            )
        for o in range(len(options.row_O)):
            a, b = int(options.start_O[o]), int(options.end_O[o])
            if covered & {*range(a, b)} or abs(a - end) > furthest:
                continue
            kind = 0 if a == end else 1 if b == start else 2
            more = sum(
                weight * float(value)
                for weight, value in zip(model.weights[: -len(DERIVED)].tolist(), options.features_OF[o], strict=True)
            )
            more -= weights["distortion"] * abs(a - end)
            more += weights[f"{kinds[kind]}-before"] * float(options.orientation_O6[o, kind])
            if last is not None:
                more += weights[f"{kinds[kind]}-after"] * float(options.orientation_O6[last, 3 + kind])
            written = options.tokens_OP[o, : int(options.length_O[o])].tolist()
            yield from grown(covered | {*range(a, b)}, [*tokens, *written], o, score + more)

    yield from grown(set(), [], None, 0.0)


def best_of_each(found: Iterator[tuple[tuple[int, ...], float]]) -> dict[tuple[int, ...], float]:
    best: dict[tuple[int, ...], float] = {}
    for tokens, score in found:
        best[tokens] = max(score, best.get(tokens, -math.inf))
    return best


ROWS = [[4, 5, 6, EOS], [7, 4, 8, 5, EOS], [9, 5, EOS], [EOS], [6, 6, 6, 7, EOS]]


@pytest.mark.parametrize("recombination", [True, False])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("seed", mostly_slow([1, 2], fast=[2]))
def test_the_search_without_limits_is_exhaustive(
    model: PhraseBased, seed: int, monotone: bool, recombination: bool
) -> None:
    weighted(model, seed)
    search = replace(UNLIMITED, nbest=5, recombination=recombination, distortion=0 if monotone else -1)
    for row, found in zip(ROWS, search(model, Padded.of(ROWS)), strict=True):
        expected = best_of_each(derivations(model, row, 0 if monotone else math.inf))
        wanted = sorted(expected.values(), reverse=True)[:5]
        assert [each.score for each in found] == pytest.approx(wanted, rel=1e-6)
        assert [expected[each.tokens] for each in found] == pytest.approx(wanted, rel=1e-6)


def counted(seed: int) -> Ngram:
    """An n-gram model whose counts differ from the counts in the phrase-based model's own language model."""
    other = Ngram(11, order=4)
    random = np.random.default_rng(seed)
    lines = ragged([[*random.integers(4, 11, 5).tolist(), EOS] for _ in range(200)])
    other.counts(Pairs(lines, lines)).store()
    return other.eval()


GRU, TRANSFORMER = (FAMILIES[f"language model, {name}, no attention"] for name in ("gru", "transformer"))
NEURAL = {"gru": GRU, "transformer": TRANSFORMER, "two": mixture("ensemble", GRU, TRANSFORMER)}


def forced(other: Any, tokens: tuple[int, ...]) -> list[float]:
    """The log-probability of each token, from the whole output at once."""
    with torch.no_grad():
        output, _ = other.extend(torch.tensor([[BOS, *tokens[:-1]]]), other.start(Padded.of([[EOS]])))
        found: list[float] = other.readout(output)[0].log_softmax(-1)[range(len(tokens)), list(tokens)].tolist()
    return found


@pytest.mark.parametrize(
    ("kind", "recombination"),
    mostly_slow(itertools.product(["n-gram", *NEURAL], [True, False]), fast=[("n-gram", True), ("two", False)]),
)
def test_a_second_language_model_is_searched_with(model: PhraseBased, kind: str, recombination: bool) -> None:
    """Enumerates all derivations, and adds the second language model's weighted log-probability to each output."""
    weighted(model, 1)
    other: Any = counted(1) if kind == "n-gram" else build(NEURAL[kind])
    search = replace(UNLIMITED, nbest=5, language_model=other, weight=4.0, recombination=recombination)
    differs = False
    for row, found in zip(ROWS, search(model, Padded.of(ROWS)), strict=True):
        own = best_of_each(derivations(model, row, math.inf))
        outside = {tokens: 4 * sum(forced(other, tokens)) for tokens in own}
        expected = {tokens: score + outside[tokens] for tokens, score in own.items()}
        assert [each.score for each in found] == pytest.approx(sorted(expected.values(), reverse=True)[:5], rel=1e-5)
        for each in found:
            assert each.score == pytest.approx(expected[each.tokens], rel=1e-5)
            assert sum(step.outside for step in each.steps) == pytest.approx(outside[each.tokens], rel=1e-5)
        differs |= found[0].tokens != max(own, key=own.__getitem__)
    assert differs


@pytest.mark.parametrize("last", [0, 1, 2])
def test_merging_by_the_last_tokens_is_an_approximation_with_exact_scores(model: PhraseBased, last: int) -> None:
    weighted(model, 2)
    other, grown = build(GRU), list[int]()

    def count(_: Any, growth: Growth) -> None:
        grown.append(len(np.unique(growth.node_E)))

    exact = replace(UNLIMITED, nbest=4, language_model=other, weight=3.0, observer=count)
    expected, all_of = exact(model, Padded.of(ROWS)), sum(grown)
    grown.clear()
    found = replace(exact, recombine_tokens=last)(model, Padded.of(ROWS))
    assert sum(grown) < all_of
    for one, best in zip(found, expected, strict=True):
        assert one[0].score <= best[0].score + 1e-9
        assert [each.score for each in one] == sorted((each.score for each in one), reverse=True)
        for each in one:
            features = np.array(each.features) @ model.weights.double().numpy()
            assert each.score == pytest.approx(features + 3 * sum(forced(other, each.tokens)), rel=1e-5)
            for step in each.steps:
                log_probs = forced(other, each.tokens)[slice(*step.target)]
                assert step.outside == pytest.approx(3 * sum(log_probs), rel=1e-5)
    grown.clear()
    again = replace(exact, recombine_tokens=50)(model, Padded.of(ROWS))
    assert [[each.tokens for each in one] for one in again] == [[each.tokens for each in one] for one in expected]
    assert sum(grown) == all_of


@pytest.mark.parametrize("second", [True, False])
def test_a_word_without_probability_leaves_scores_finite(model: PhraseBased, second: bool) -> None:
    """As in an ARPA file, whose 1-grams may have minus infinity: such words lose, and give no NaN in future scores."""
    weighted(model, 1)
    own, other = copy.deepcopy(model), counted(1)
    changed = other.ngrams if second else own.language
    changed.log_prob.data[1:][changed.keys % (changed.end + 2) == 6 - UNK] = -math.inf
    changed.back_off.data[1:][changed.keys % (changed.end + 2) == 4 - UNK] = -math.inf  # of the token before
    own.weights.data[-1] *= second  # 0 times minus infinity would be no number
    search = replace(UNLIMITED, nbest=3, language_model=other if second else None, weight=1.0)
    for row, found in zip(ROWS, search(own, Padded.of(ROWS)), strict=True):
        assert all(math.isfinite(each.score) for each in found)
        assert all(math.isfinite(value) for each in found for value in each.features)
        if second:
            expected = best_of_each(derivations(own, row, math.inf))
            for tokens in expected:
                state = other.start(Padded.of([[EOS]]))
                for token in tokens:
                    step, state = other.step(state, torch.tensor([token]))
                    expected[tokens] += max(float(step), -1e6)
            assert [each.score for each in found] == pytest.approx(sorted(expected.values())[::-1][:3], rel=1e-5)


def test_a_neural_language_model_of_other_words_is_refused(model: PhraseBased) -> None:
    smaller = config.build(GRU, Model, Facts(9, 6), "model").eval()
    with pytest.raises(UserError, match="a language model of 6 words cannot score phrases with the token id"):
        replace(UNLIMITED, language_model=smaller)(model, Padded.of(ROWS))
    with pytest.raises(UserError, match="this model cannot score the next token of an output"):
        StackSearch(language_model=model)  # type: ignore[arg-type]


def test_a_score_is_the_weighted_sum_of_the_steps(model: PhraseBased) -> None:
    weighted(model, 3)
    for found in replace(UNLIMITED, nbest=3)(model, Padded.of(ROWS)):
        for derivation in found:
            summed = np.sum([step.features for step in derivation.steps], 0)
            assert derivation.features == pytest.approx(summed)
            assert derivation.score == pytest.approx(summed @ model.weights.double().numpy())
            assert [place for step in derivation.steps for place in range(*step.target)] == [
                *range(len(derivation.tokens))
            ]


def test_limits_lose_some_score_and_find_derivations_all_the_same(model: PhraseBased) -> None:
    weighted(model, 1)
    whole = [found[0].score for found in UNLIMITED(model, Padded.of(ROWS))]
    limited = [found[0].score for found in StackSearch(size=1, pool=1, distortion=1)(model, Padded.of(ROWS))]
    assert all(some <= best + 1e-9 for some, best in zip(limited, whole, strict=True))


@pytest.mark.parametrize(
    "search",
    [
        StackSearch(nbest=3),
        StackSearch(size=3, pool=5, nbest=2),
        StackSearch(size=3, pool=5, nbest=2, language_model=build(GRU)),
    ],
    ids=["wide", "narrow", "neural"],
)
def test_company_and_padding_change_nothing(model: PhraseBased, search: StackSearch) -> None:
    weighted(model, 4)
    together = search(model, Padded.of(ROWS))
    alone = [search(model, Padded.of([row]))[0] for row in ROWS]
    assert [[each.tokens for each in found] for found in together] == [[e.tokens for e in found] for found in alone]
    wider = Padded.of([*ROWS, [4] * 9 + [EOS]])
    padded = search(model, Padded(wider.values[:-1], wider.lengths[:-1]))
    assert [found[0].tokens for found in padded] == [found[0].tokens for found in together]


# -------------------------------------------------------------------- tuning


def lists(seed: int) -> Candidates:
    random = np.random.default_rng(seed)
    example = np.repeat(np.arange(6), random.integers(1, 9, 6))
    features = random.normal(size=(len(example), 3)).round(1)  # some lines are parallel, some are equal
    statistics = random.integers(0, 2, (len(example), 1)).astype(float)
    exact = metric("exact")
    width = len(exact.statistics(Prediction("a"), Example("a", ("a",))))
    statistics = np.concatenate([statistics, np.ones((len(example), width - 1))], 1)
    return Candidates(exact, example, features, statistics)


@pytest.mark.parametrize("seed", range(5))
def test_a_line_search_is_exact(seed: int) -> None:
    candidates = lists(seed)
    w, d = np.random.default_rng(seed + 50).normal(size=(2, 3))
    found = envelope(candidates.features_CF @ w, candidates.features_CF @ d, candidates.first_N)
    assert (np.diff(found.step_X) >= 0).all()
    step, score = best_step(candidates, w, d)
    bounds = [found.step_X[0] - 1, *found.step_X, found.step_X[-1] + 1]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(bounds) if b > a]
    assert score == pytest.approx(max(candidates.score(w + g * d) for g in middles))
    assert candidates.score(w + step * d) == pytest.approx(score)


def test_tuning_raises_the_score_and_is_deterministic() -> None:
    candidates, w = lists(7), np.array([1.0, -1.0, 0.2])
    (tuned, score), (again, _) = (optimise(candidates, w, 2, 3, np.random.default_rng(3)) for _ in range(2))
    assert score > candidates.score(w)
    assert (tuned == again).all()
    assert np.abs(tuned).sum() == pytest.approx(np.abs(w).sum())
    assert candidates.score(tuned) == pytest.approx(score)


# ----------------------------------------------------------------------- runs

NOUNS = [("Hund", "dog"), ("Mann", "man"), ("Ball", "ball"), ("Baum", "tree"), ("Wagen", "car")]
PAIRS = [(f"Ein {a} sieht einen {c}.", f"A {b} sees a {d}.") for (a, b), (c, d) in itertools.product(NOUNS, NOUNS)] * 2
TINY = {"tuning.iterations": 1, "tuning.nbest": 5, "tuning.starts": 0, "tuning.rounds": 1, "model.longest": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "phrases"
    transduce.train("phrase-based", out, TINY, pairs=PAIRS, progress=False, threads=1)
    return out


def test_a_run_translates_passes_unknown_words_on_and_aligns(run: Path) -> None:
    trained = transduce.load(run)
    assert trained("Ein Mann sieht einen Baum.") == "A man sees a tree."
    (outputs,) = trained.predict(["Ein Axolotl sieht einen Ball."])
    assert outputs[0].text == "A Axolotl sees a ball."
    assert outputs[0].log_prob is None
    derived = outputs[0].derived
    assert derived is not None
    sources = " ".join(phrase.source.replace(".", " .") for phrase in derived.phrases).split()
    assert sorted(sources) == sorted(["Ein", "Axolotl", "sieht", "einen", "Ball", "."])
    assert sum(phrase.score for phrase in derived.phrases) == pytest.approx(outputs[0].score, rel=1e-5)
    assert trained("") == ""


@pytest.mark.parametrize(
    "passed",
    [
        "12.345,67",
        "max.muster@x.de",
        "http://a.b/c?d=E&f",
        "XyzAbc-Quux",
        "sieht@x.de",  # a known word in an address is no word
        "12:30.5",
        "naïve.Ça",
        "e\u0301t-Xyz",
        "你好-世界",
    ],
)
def test_what_passes_keeps_its_spelling(run: Path, passed: str) -> None:
    """Spaces, signs and case stay: in all outputs of an n-best list, wherever the word goes, and alignments fit."""
    trained = transduce.load(run, settings={"search.nbest": 3})
    for source in (f"Ein {passed} sieht einen Ball.", f"Ein Mann sieht einen {passed}", f"{passed}  {passed}"):
        (answer,) = trained.answer([transduce.Request(source, extras=transduce.Extras(alignments=True))])
        assert len(answer.outputs) == 3 or source.startswith(passed)
        for output in answer.outputs:
            words = output.text.split()
            assert passed in [word.strip(".") for word in words]
            assert passed not in words or (source.split().index(passed), words.index(passed)) in output.alignment
    assert answer.best.text == source


def test_which_tokens_are_joined() -> None:
    """Known numbers are joined with unknown ones, and known words only in addresses."""
    tokenizer = passing(Words().learn(["12 known , x . 3"]))
    for text, pieces in (
        ("12.345 x", ["12.345", " x"]),
        ("known.New x", ["known", ".", "New", " x"]),
        ("known@new.New, x", ["known@new.New", ",", " x"]),
        ("(New-Newer)", ["(", "New-Newer", ")"]),
    ):
        (row,) = tokenizer.encode([text])
        spans = tokenizer.spans(text)
        assert len(row) == len(spans)
        assert [text[start:end] for start, end in spans[:-1]] == pieces


def test_what_touches_in_the_source_touches_in_the_output() -> None:
    assert touches(" Rome", ",", " Rom")
    assert touches(" (", "Rome", " (")
    assert not touches(" (", "Rome", " says")  # a word was written in place of the sign
    assert not touches(" Rome", ",", " :")
    assert not touches(" Stra", "ße", " road")  # each part stands for the whole word
    assert not touches(" Rome", " ,", " Rom")
    assert not touches("", "Rome", " x")


def test_signs_touch_their_words_as_in_the_source(run: Path) -> None:
    """A known word beside an unknown one is translated. An unknown sign or word touches what it touched."""
    trained = transduce.load(run)
    assert trained("Ball,Xyz") == "ball,Xyz"
    assert trained('"Xyz" (Xyz) #Xyz') == '"Xyz" (Xyz) #Xyz'
    assert trained("Xyz , Xyz") == "Xyz , Xyz"


def test_tuning_is_reported_and_repeats(run: Path, tmp_path: Path) -> None:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scores = [event["score"] for event in events if event["event"] == "tuning"]
    assert scores
    assert all(event["metric"] == "bleu" for event in events if event["event"] == "tuning")
    validated = next(event for event in events if event["event"] == "validation")
    assert validated["metrics"]["bleu"] == pytest.approx(max(scores), abs=0.01)
    transduce.train("phrase-based", tmp_path / "again", TINY, pairs=PAIRS, progress=False, threads=1)
    first, second = (transduce.load(path).model.weights for path in (run, tmp_path / "again"))
    assert torch.equal(first, second)


def test_what_a_phrase_based_model_cannot_do(run: Path) -> None:
    trained = transduce.load(run)
    with pytest.raises(RequestError, match="no probability of a given target: its scores are of derivations"):
        list(trained.score([("Ein Mann", "A man")]))
    with pytest.raises(UserError, match=r"phrase-based model cannot start .* so it cannot be mixed word by word"):
        transduce.load(f"{run}+{run}")
    (answer,) = trained.answer([transduce.Request("Ein Mann")])
    with pytest.raises(UserError, match="scores and no probabilities; use uniform"):
        MinimumRisk(metric("bleu"), "posterior")([answer])
    with pytest.raises(UserError, match=r"tuning: .*no weights of features"):
        transduce.train("reverse", run.parent / "no", {"tuning.metric": "bleu"}, progress=False)
    with pytest.raises(UserError, match="metric 'perplexity' compares no texts"):
        transduce.train("phrase-based", run.parent / "no", {"tuning.metric": "perplexity"}, pairs=PAIRS, progress=False)


def test_pairs_without_words_on_both_sides(tmp_path: Path) -> None:
    empty = {**TINY, "data.lines.empty": "keep"}
    with pytest.raises(UserError, match="words on both sides"):
        transduce.train("phrase-based", tmp_path / "no", empty, pairs=[("", "a"), ("b", "")] * 20, progress=False)


def test_a_derivation_is_no_hypothesis() -> None:
    assert not hasattr(Derivation((EOS,), 0.0, (), ()), "log_prob")


def test_inspect_shows_the_phrases(run: Path, tmp_path: Path) -> None:
    def inspect(*options: str) -> str:
        found = CliRunner().invoke(app, ["inspect", str(run), "Ein Mann sieht einen Baum.", *options])
        return found.output if found.exception is None else str(found.exception)

    shown = inspect("--phrases").splitlines()
    assert shown[0].split()[:3] == ["source", "target", "score"]
    assert shown[-2].startswith("sum")
    inspect("--phrases", "--out", str(tmp_path / "phrases.json"))
    record = json.loads((tmp_path / "phrases.json").read_text())
    assert record["text"] == "A man sees a tree."
    summed = sum(weight * record["features"][name] for name, weight in record["weights"].items())
    assert summed == pytest.approx(record["score"], rel=1e-5)
    assert inspect().splitlines() == shown
    assert "end the name with one of them" in inspect("--phrases", "--out", "x.png")
    assert "add --out stacks.html" in inspect("--phrases", "--pruned")
    assert "--phrases shows a derivation" in inspect("--phrases", "--head=1")


def test_the_stacks_are_a_tree(run: Path, tmp_path: Path) -> None:
    source = "Ein Mann sieht einen Baum."
    trained = transduce.load(run)
    narrow = trained.changed({"search.size": 3, "search.nbest": 3})
    tree = stack_tree(narrow, source)
    every = parents_first(tree.root)
    for node in every:
        for child in node.children:
            before, after = dict(node.details), dict(child.details)
            assert after["score"] == pytest.approx(before["score"] + child.added)
            assert after["covered"] > before["covered"] or child.fate == "finished"
        assert node.survived or not node.children
    stacks = [dict(node.details)["covered"] for node in every if node.fate == "lived" and node.children]
    assert max(Counter(stacks).values()) <= 3
    assert {node.fate for node in every} == {"lived", "pruned", "recombined", "finished"}
    best = [node for node in every if node.best]
    (output, *_) = next(narrow.predict([source]))
    assert output.derived is not None
    assert [node.label for node in best[1:-1]] == [f"{p.source} → {p.target}" for p in output.derived.phrases[:-1]]
    assert [node.added for node in best[1:]] == pytest.approx([p.score for p in output.derived.phrases], rel=1e-5)
    assert best[-1].score == tree.hypotheses[0].score == pytest.approx(output.score)
    assert tree.texts == tuple(each.text for each in next(narrow.predict([source])))
    few = tree.root.limited(len(best) + 2)
    assert len(parents_first(few)) == len(best) + 2
    assert [node for node in parents_first(few) if node.best][-1] == best[-1]
    html = page(tree, story=replace(STACKS, limit=8))
    assert html.count('class="node"') == 16
    assert f"8 of {len(every):,} hypotheses are drawn" in html
    command = ["inspect", str(run), source, "--phrases", "--out"]
    for name in ("tree.html", "tree.svg", "tree.json"):
        assert CliRunner().invoke(app, [*command, str(tmp_path / name)]).exception is None
    assert "<title>" in (tmp_path / "tree.html").read_text()
    assert "Mann → man" in (tmp_path / "tree.svg").read_text()
    whole = json.loads((tmp_path / "tree.json").read_text())
    assert len(whole["hypotheses"]) == len(parents_first(stack_tree(trained, source).root))
    assert all(row["parent"] is None or row["parent"] < number for number, row in enumerate(whole["hypotheses"]))
    with pytest.raises(UserError, match="does not write phrase by phrase"):
        stack_tree(replace(trained, model=build(GRU)), source)


def test_outputs_are_reranked_and_join_another_models_lists(run: Path) -> None:
    trained = transduce.load(run)
    reranker = LogLinear(((Own(), 1.0), (LengthFeature(), 10.0)))
    (answer,) = rerank(trained, ["Ein Mann sieht einen Ball."], reranker, trained.search.resized(nbest=5))
    expected = [
        output.derived.derivation.score + 10 * len(output.tokens) for output in answer.outputs if output.derived
    ]
    assert [output.score for output in answer.outputs] == pytest.approx(expected)
    assert expected == sorted(expected, reverse=True)
    others = CandidateLists({"Ein Mann": {"No such output": 0.0}})
    with pytest.raises(RequestError, match="no probability of a given target"):
        list(rerank(trained, ["Ein Mann"], LogLinear(((others, 1.0),)), candidates=[others]))


@pytest.fixture(scope="module")
def english(run: Path) -> Path:
    """n-grams of the targets, with the vocabulary of ``run``."""
    files = {}
    for split in ("train", "valid", "test"):
        (run.parent / "english.txt").write_text("".join(f"{target}\n" for _, target in PAIRS), encoding="utf-8")
        files[f"data.{split}.path"] = str(run.parent / "english.txt")
    transduce.train("ptb-ngram", run.parent / "english", files, init=run, progress=False, threads=1)
    return run.parent / "english"


def test_the_settings_name_a_second_language_model(run: Path, english: Path) -> None:
    source, settings = "Ein Mann sieht einen Baum.", {"search.language_model": str(english), "search.weight": 0.7}
    (alone,), (both,) = (transduce.load(run, settings=changes).predict([source]) for changes in ({}, settings))
    (scored,) = transduce.load(english).score([("", both[0].text)])
    assert both[0].text == alone[0].text
    assert both[0].score - alone[0].score == pytest.approx(0.7 * scored.log_prob, rel=1e-4)
    assert both[0].derived is not None
    assert sum(phrase.score for phrase in both[0].derived.phrases) == pytest.approx(both[0].score, rel=1e-5)
    twice = transduce.load(run, settings=settings | {"search.language_model": f"{english}+{english}"})
    (two,) = twice.predict([source])  # their mean is the same model, searched as neural ones are
    assert two[0].text == both[0].text
    assert two[0].score == pytest.approx(both[0].score, rel=1e-4)
    tiny = {f"model.decoder.{name}": 8 for name in ("width", "feedforward")} | {"training": {"steps": 2}}
    files = {f"data.{split}.path": str(run.parent / "english.txt") for split in ("train", "valid", "test")}
    transduce.train(
        "language-model", run.parent / "neural", tiny | files, init=run, progress=False, threads=1, device="cpu"
    )
    neural = settings | {"search.language_model": str(run.parent / "neural")}
    (heard,) = transduce.load(run, settings=neural, device="cpu").predict([source])
    (scored,) = transduce.load(run.parent / "neural", device="cpu").score([("", heard[0].text)])
    assert heard[0].derived is not None
    outside = sum(phrase.outside for phrase in heard[0].derived.phrases)
    assert outside == pytest.approx(0.7 * scored.log_prob, rel=1e-2)
    with pytest.raises(UserError, match="tuning weighs the model's own features only"):
        transduce.train("phrase-based", run.parent / "no", TINY | settings, pairs=PAIRS, progress=False, threads=1)


def test_the_noisy_channel_is_one_command(run: Path, english: Path, tmp_path: Path) -> None:
    """p(x|y) of a model in the other direction times p(y) of a language model chooses among the derivations."""
    swapped = [(target, source) for source, target in PAIRS]
    transduce.train(
        "reverse", tmp_path / "channel", {"training": {"steps": 3}}, pairs=swapped, device="cpu", progress=False
    )
    source = "Ein Mann sieht einen Baum."
    (tmp_path / "german.txt").write_text(f"{source}\n", encoding="utf-8")
    options = ["--nbest", "5", "--keep", "5", "--own", "0", "--format", "jsonl", "--device", "cpu"]
    models = ["--channel", f"{tmp_path / 'channel'}=0.5", "--language-model", f"{english}=0.3"]
    found = CliRunner().invoke(app, ["rerank", str(run), str(tmp_path / "german.txt"), *options, *models])
    assert found.exception is None, found.output
    outputs = next(json.loads(line) for line in found.stdout.splitlines() if line.startswith("{"))["nbest"]
    assert len(outputs) > 1
    trained = transduce.load(run)
    listed = next(trained.predict([source], trained.search.resized(nbest=5)))
    channel, language = transduce.load(tmp_path / "channel", device="cpu"), transduce.load(english, device="cpu")
    texts = [output.text for output in listed]
    pairs = [channel.score([(text, source) for text in texts]), language.score([("", text) for text in texts])]
    expected = {t: 0.5 * c.log_prob + 0.3 * w.log_prob for t, c, w in zip(texts, *pairs, strict=True)}  # type: ignore[operator]
    assert [output["text"] for output in outputs] == sorted(expected, key=expected.__getitem__, reverse=True)
    assert [output["score"] for output in outputs] == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-4)


def test_of_equal_values_the_first_are_kept() -> None:
    row, value = np.array([0, 0, 0, 0, 1, 2, 2, 2]), np.array([1.0, 3.0, 1.0, 1.0, 0.0, 2.0, 2.0, 2.0])
    assert _largest(row, value, 2, 3).tolist() == [0, 1, 4, 5, 6]


def test_without_iterations_the_first_weights_stay(tmp_path: Path) -> None:
    untuned = {**TINY, "tuning.iterations": 0}
    transduce.train("phrase-based", tmp_path / "run", untuned, pairs=PAIRS[:40], progress=False, threads=1)
    assert transduce.load(tmp_path / "run").model.weights.tolist() == pytest.approx(WEIGHTS)
