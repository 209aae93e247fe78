"""Reranking: minimum risk against sums over all pairs, log-linear scores against their terms, and the command."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from test_cli import told

import transduce
from transduce.answers.answer import Answer, Output
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.search.sampling import Sampling
from transduce.wings.alignment.readings import readings
from transduce.wings.combining.reranking.base import Reranker, distinct, rerank
from transduce.wings.combining.reranking.candidates import CandidateLists
from transduce.wings.combining.reranking.coverage import Coverage
from transduce.wings.combining.reranking.loglinear import (
    Channel,
    Direct,
    Language,
    LengthFeature,
    LogLinear,
    Own,
    Score,
)
from transduce.wings.combining.reranking.risk import MinimumRisk

Call = Callable[..., tuple[int, str, str]]
TEXTS = ["a cat", "a hat", "a cat", "the dog", "a bat", "a hat sat", "a cat", ""]
LOG_PROBS = [-1.0, -2.5, -1.0, -0.5, -3.0, -2.0, -1.0, -0.7]


def outputs(texts: list[str] = TEXTS, log_probs: list[float] = LOG_PROBS) -> list[Output]:
    return [Output(text, (), log_prob, log_prob, ()) for text, log_prob in zip(texts, log_probs, strict=True)]


def ranked_by(reranker: Reranker, found: list[Output]) -> Sequence[Output]:
    """The outputs of one source, reranked."""
    (answer,) = reranker([Answer(Request("x"), found)])
    return answer.outputs


@pytest.mark.parametrize("name", ["chrf", "cer", "bleu", "exact"])
@pytest.mark.parametrize("weights", ["uniform", "posterior"])
def test_the_least_risk_is_the_best_of_all_sums(name: str, weights: Any) -> None:
    measure, found = metric(name), outputs()
    mass = [1.0 if weights == "uniform" else math.exp(output.log_prob) for output in found]

    def utility(h: str, r: str) -> float:
        if name == "bleu":
            return float(sacrebleu.sentence_bleu(h, [r]).score)
        score = measure.score(measure.statistics(Prediction(h), Example("x", (r,))))
        return score if measure.higher_is_better else -score

    def expected(h: str) -> float:
        return sum(w * utility(h, other.text) for w, other in zip(mass, found, strict=True)) / sum(mass)

    ranked = ranked_by(MinimumRisk(metric(name), weights), found)
    assert {output.text for output in ranked} == set(TEXTS)
    assert [output.score for output in ranked] == pytest.approx([expected(output.text) for output in ranked])
    assert ranked[0].score == pytest.approx(max(expected(text) for text in TEXTS))
    assert [output.score for output in ranked] == sorted((output.score for output in ranked), reverse=True)
    assert ranked[0].log_prob == LOG_PROBS[TEXTS.index(ranked[0].text)]


def test_least_risk_is_not_most_probable() -> None:
    ranked = ranked_by(MinimumRisk(metric("chrf")), outputs())
    assert ranked[0].text == "a cat"
    assert max(outputs(), key=lambda output: output.log_prob).text == "the dog"


def test_a_short_output_is_most_like_itself_by_bleu() -> None:
    """It has no four tokens in a row, and as a corpus would be worth nothing."""
    ranked = ranked_by(MinimumRisk(metric("bleu")), outputs(["a c"] * 9 + ["a c b d"], [-1.0] * 10))
    assert ranked[0].text == "a c"
    assert ranked[0].score > 90


def test_of_one_output_that_one() -> None:
    assert ranked_by(MinimumRisk(metric("cer")), outputs(["a"], [-2.0]))[0].text == "a"
    assert ranked_by(MinimumRisk(metric("cer"), "posterior"), outputs(["a", "b"], [-2e4, -1e4]))[0].text == "b"
    impossible = outputs(["a", "b", "b"], [-math.inf] * 3)
    assert ranked_by(MinimumRisk(metric("cer"), "posterior"), impossible)[0].text == "b"


def test_risk_of_what_compares_no_texts() -> None:
    with pytest.raises(ValueError, match="metric 'perplexity' compares no texts"):
        MinimumRisk(metric("perplexity"))
    with pytest.raises(ValueError, match=r"weights = 'counts': uniform \(of samples\) or posterior"):
        MinimumRisk(metric("cer"), "counts")  # type: ignore[arg-type]


# ----------------------------------------------------------------------- log-linear

LINES = ["abc", "de", "", "edcba", "b"]


@pytest.fixture(scope="module")
def model(trained: Path) -> Transducer:
    return transduce.load(trained, device="cpu", settings={"search.size": 6, "search.nbest": 6})


@pytest.fixture(scope="module")
def other(sister: Path) -> Transducer:
    return transduce.load(sister, device="cpu")


def test_log_linear_scores_are_sums_of_weighted_terms(model: Transducer, other: Transducer) -> None:
    ranker = LogLinear(
        ((Own(), 0.5), (Channel(other), 0.8), (Language(other), -0.3), (Direct(other, 3), 2.0), (LengthFeature(), 0.7))
    )
    reordered = 0
    for source, before, after in zip(LINES, model.predict(LINES), rerank(model, LINES, ranker), strict=True):
        assert after.request.source == source
        assert {output.text for output in after.outputs} == {output.text for output in before}
        for output in after.outputs:
            pairs = [(output.text, source), ("", output.text), (source, output.text)]
            reverse, language, direct = (next(iter(other.score([pair]))).log_prob for pair in pairs)
            terms = [0.5 * output.log_prob, 0.8 * reverse, -0.3 * language, 2 * direct, 0.7 * len(output.tokens)]
            assert output.score == pytest.approx(sum(terms), rel=1e-4)
        assert [output.score for output in after.outputs] == sorted((o.score for o in after.outputs), reverse=True)
        reordered += [output.text for output in after.outputs] != [output.text for output in distinct(before)]
    assert reordered > 2


def test_a_model_alone_ranks_as_it_did(model: Transducer) -> None:
    by_itself = LogLinear(((Own(), 1.0), (LengthFeature(), 0.0)))
    for before, after in zip(model.predict(LINES), rerank(model, LINES, by_itself), strict=True):
        assert [o.text for o in after.outputs] == [o.text for o in sorted(before, key=lambda output: -output.log_prob)]


def test_reranking_samples_reads_its_sources_once(model: Transducer) -> None:
    ranker, sampling = MinimumRisk(metric("cer")), Sampling(8, max_length=6)
    found = list(rerank(model, iter(LINES), ranker, sampling, batch_size=2))
    expected = ranker([*model.answer(map(Request, LINES), sampling)])
    assert [[o.text for o in one.outputs] for one in found] == [[o.text for o in other.outputs] for other in expected]


def test_coverage_is_what_has_been_read(model: Transducer) -> None:
    """A column that got all the attention of one token counts 0, one that got half the logarithm of a half."""
    found = next(model.predict(["abcd"], model.search.resized(4, 4)))
    (read,) = readings(model, [Answer(Request("abcd"), found)])
    for output, reading in zip(found, read, strict=True):
        each = [sum(column) for column in zip(*reading.tokens.weights_TS.tolist(), strict=True)]
        assert len(each) == len("abcd") + 1
        expected = sum(math.log(min(1.0, share)) for share in each)
        assert Coverage(model)([("abcd", output)]) == pytest.approx([expected], abs=1e-5)
    assert Coverage(model)([("abcd", output) for output in found]) == pytest.approx(
        [Coverage(model)([("abcd", output)])[0] for output in found], abs=1e-5
    )


def test_what_another_program_found_is_among_the_outputs(model: Transducer, tmp_path: Path) -> None:
    """The model scores each output, and the list gives its own score. An output that is not listed gets the lowest
    score of its source, or 0 if the source is not listed."""
    own = [[output.text for output in found] for found in model.predict(LINES)]
    file = tmp_path / "found.tsv"
    rows = [(LINES[0], -3.0, "zzzz"), (LINES[0], -2.0, own[0][1]), (LINES[0], -5.0, "zzzz"), (LINES[1], 4.0, "yy")]
    file.write_text("".join(f"{source}\t{score}\t{text}\n" for source, score, text in rows), encoding="utf-8")
    listed = CandidateLists.read(file)
    ranker = LogLinear(((Own(), 0.5), (listed, 2.0)))
    found = list(rerank(model, iter(LINES), ranker, batch_size=2, candidates=[listed]))
    others = [["zzzz"], ["yy"], *([] for _ in LINES[2:])]
    assert [{output.text for output in answer.outputs} for answer in found] == [
        {*texts, *more} for texts, more in zip(own, others, strict=True)
    ]
    for number, (source, answer) in enumerate(zip(LINES, found, strict=True)):
        for output in answer.outputs:
            said = {0: -2.0 if output.text == own[0][1] else -3.0, 1: 4.0}.get(number, 0.0)
            log_prob = next(model.score([(source, output.text)])).log_prob
            assert output.log_prob == pytest.approx(log_prob, rel=1e-4)
            assert output.score == pytest.approx(0.5 * log_prob + 2 * said, rel=1e-4)


def test_a_list_says_what_it_can(model: Transducer, tmp_path: Path) -> None:
    """An impossible output says nothing of those that are not listed; a tab in a source is written as a space."""
    (tmp_path / "found.tsv").write_text("a b\t-inf\tx\na b\t-3\ty\na b\t-2\tz w\nc\t-inf\tx\n")
    listed = CandidateLists.read(tmp_path / "found.tsv")
    one, *_ = next(model.predict(["a"]))
    pairs = [("a\tb", replace(one, text=text)) for text in ("x", "y", "z\tw", "other")]
    assert listed(pairs) == [-math.inf, -3.0, -2.0, -3.0]
    assert listed([("c", one), ("d", one)]) == [0.0, 0.0]
    with pytest.raises(ValueError, match="weight = nan: a feature's weight is a finite number"):
        LogLinear(((listed, math.nan),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc\tinf\tx\n", "line 1: 'abc\\tinf\\tx' has no source, score"),
        ("", "is empty: lines of a source, a score and an output were expected"),
        ("abc\t-1\tx\nabc\tx\n", "line 2: 'abc\\tx' has no source, score and output, tab-separated"),
        ("abc\tx\t-1\n", "line 1: 'abc\\tx\\t-1' has no source, score"),
        ("abc\tnan\tx\n", "line 1: 'abc\\tnan\\tx' has no source, score"),
    ],
)
def test_lists_that_cannot_be_read(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "found.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(expected)):
        CandidateLists.read(tmp_path / "found.tsv")


def test_weights_that_are_all_zero() -> None:
    with pytest.raises(ValueError, match="at least one with a weight that is not 0"):
        LogLinear(((Own(), 0.0), (LengthFeature(), 0.0)))


# ----------------------------------------------------------------------- the command


def test_the_command_takes_the_least_risk(trained: Path, model: Transducer, call: Call) -> None:
    sampling = ["--set=search.type=sampling", "--set=search.max_length=6", "--nbest=8"]
    status, out, _ = call("rerank", trained, "--mbr=cer", *sampling, "--device=cpu", stdin=b"abc\nde\n")
    found = rerank(model, ["abc", "de"], MinimumRisk(metric("cer")), Sampling(8, 8, max_length=6))
    assert (status, out.splitlines()) == (0, [answer.best.text for answer in found])
    beams = call("rerank", trained, "--mbr=cer", "--posterior", "--format=jsonl", "--keep=2", stdin=b"abc\n")[1]
    record = json.loads(beams)
    assert len(record["nbest"]) == 2
    assert record["score"] <= 0 != record["log_prob"]


def test_the_command_weighs_models(trained: Path, sister: Path, model: Transducer, call: Call) -> None:
    other = transduce.load(sister, device="cpu")
    options = [f"--channel={sister}=0.5", "--language-model", sister, "--own=2", "--length=0.25", "--nbest=6"]
    status, out, _ = call("rerank", trained, *options, "--format=tsv", "--device=cpu", stdin=b"abc\nde\n")
    ranker = LogLinear(((Own(), 2.0), (Channel(other), 0.5), (Language(other), 1.0), (LengthFeature(), 0.25)))
    found = list(rerank(model, ["abc", "de"], ranker))
    assert status == 0
    assert [line.split("\t")[2] for line in out.splitlines()] == [answer.best.text for answer in found]
    assert [float(line.split("\t")[1]) for line in out.splitlines()] == pytest.approx(
        [answer.best.score for answer in found], rel=1e-4
    )


def test_a_file_holds_the_options_and_the_options_win(trained: Path, sister: Path, call: Call, tmp_path: Path) -> None:
    kept = tmp_path / "channel.toml"
    kept.write_text(
        f"[rerank]\nown = 2\nlength = 0.25\nnbest = 6\nchannel = {{ '{sister}' = 0.5 }}\n"
        f"[rerank.language_model]\n'{sister}' = 1.0\n",
        encoding="utf-8",
    )
    options = [f"--channel={sister}=0.5", "--language-model", sister, "--own=2", "--length=0.25", "--nbest=6"]
    asked = ["rerank", trained, "--format=tsv", "--keep=6", "--device=cpu"]
    lines = b"abc\nde\n"
    written = call(*asked, *options, stdin=lines)
    assert len(written[1].splitlines()) == 12
    assert call(*asked, f"--config={kept}", stdin=lines) == written
    changed = [f"--channel={sister}=-3", "--own=0", "--nbest=4"]
    overridden = call(*asked, f"--config={kept}", *changed, stdin=lines)
    assert overridden == call(*asked, *options[1:3], "--length=0.25", *changed, stdin=lines)
    assert overridden[1] != written[1]
    kept.write_text('[rerank]\nmbr = "cer"\nposterior = true\n', encoding="utf-8")
    for flags, expected in (([], ["--mbr=cer", "--posterior"]), (["--no-posterior"], ["--mbr=cer"])):
        assert call(*asked, f"--config={kept}", *flags, stdin=lines) == call(*asked, *expected, stdin=lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[rerank]\nchanel = { a = 1.0 }", 'rerank.chanel: .*did you mean "channel"'),
        ("[rerank]\nown = 'much'", "rerank.own: .*expected a number"),
        ("[rerank]\nchannel = ['runs/a=1']", "rerank.channel: .*expected a table"),
        ("[rerank]\nnbest = 0", "rerank.*nbest = 0: at least one output"),
        ("[rerank]\nown = 0.5", "nothing to rank by"),
        ("[rerank]\nmbr = 'cer'\nlength = 1.0", "give one kind"),
        ("[reranking]\nown = 0.5", 'reranking: .*did you mean "rerank"'),
        ("", "rerank: missing"),
        ("[rerank", "kept.toml"),
    ],
)
def test_mistakes_in_a_file_of_criteria(text: str, expected: str, trained: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "kept.toml").write_text(text, encoding="utf-8")
    assert re.search(expected, told(call("rerank", trained, f"--config={tmp_path / 'kept.toml'}", stdin=b"a\n")))


def test_a_file_of_criteria_that_is_not_there(trained: Path, call: Call) -> None:
    assert "nope.toml" in told(call("rerank", trained, "--config=nope.toml", stdin=b"a\n"))


def test_a_model_with_sources_is_no_language_model_without_a_word(trained: Path, call: Call, caplog: Any) -> None:
    assert call("rerank", trained, f"--language-model={trained}=0.5", "--nbest=2", stdin=b"abc\n")[0] == 0
    assert f"--language-model {trained} was trained with sources; here it gets an empty source" in caplog.text


def test_the_checkpoint_is_that_of_every_model(trained: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, load = [], transduce.runs.loading.load

    def spied(run: str, checkpoint: Any = "best", *rest: Any, **options: Any) -> Transducer:
        asked.append(checkpoint)
        return load(run, checkpoint, *rest, **options)

    monkeypatch.setattr(transduce.runs.loading, "load", spied)
    options = [f"--direct={trained}", "--checkpoint=last", "--device=cpu"]
    assert call("rerank", trained, *options, stdin=b"abc\n")[0] == 0
    assert asked == ["last", "last"]


def test_the_command_asks_for_coverage(trained: Path, model: Transducer, call: Call) -> None:
    options = ["--own=0", "--score=1", "--coverage=0.3", "--nbest=6", "--set=search.ranking=wu"]
    status, out, _ = call("rerank", trained, *options, "--format=tsv", "--device=cpu", stdin=b"abc\nde\n")
    wu = model.changed({"search.ranking": "wu"})
    found = list(
        rerank(wu, ["abc", "de"], LogLinear(((Score(), 1.0), (Coverage(wu), 0.3))), wu.search.resized(nbest=6))
    )
    assert status == 0
    assert [line.split("\t")[2] for line in out.splitlines()] == [answer.best.text for answer in found]


def test_a_small_beam_has_fewer_outputs_to_choose_from(trained: Path, call: Call) -> None:
    asked = "rerank", trained, "--mbr=chrf", "--keep=9", "--device=cpu", "--beam=4"
    small, named = (call(*asked, *more, stdin=b"abcde\n") for more in ([], ["--nbest=4"]))
    assert small == named
    assert small[0] == 0


def test_the_command_reads_what_predict_writes(trained: Path, sister: Path, call: Call, tmp_path: Path) -> None:
    lines = b"abc\nde\n"
    listed = tmp_path / "sister=1.tsv"  # a file's name may look like a weight
    listed.write_text(call("predict", sister, "--format=tsv", "--nbest=3", "--beam=3", stdin=lines)[1])
    theirs = [line.split("\t")[2] for line in listed.read_text().splitlines()]
    status, out, _ = call("rerank", trained, f"--candidates={listed}=10000", "--nbest=6", stdin=lines)
    assert (status, out.splitlines()) == (0, [theirs[0], theirs[3]])
    assert call("rerank", trained, f"--candidates={listed}", "--own=0", stdin=lines)[1] == out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "nothing to rank by: give --mbr METRIC, or --channel"),
        (["--mbr=chrf", "--length=1"], "give one kind"),
        (["--mbr=chfr"], 'did you mean "chrf"'),
        (["--mbr=perplexity"], "compares no texts"),
        (["--channel=nothing"], "nothing is no run directory"),
        (["--channel=nothing=0.5"], "nothing is no run directory"),
        (["--channel=RUN=half"], "a run directory and its weight were expected"),
        (["--candidates=nothing.tsv"], "nothing.tsv"),
        (["--candidates=RUN=half"], "a file and its weight were expected, such as found.tsv=0.5"),
        (["--candidates=RUN/config.toml=0.5"], "tab-separated"),
        (["--mbr=chrf", "--candidates=any.tsv"], "give one kind"),
        (["--length=1", "--beam=2", "--nbest=3"], "--nbest 3: a beam of --beam 2 finds at most 2 outputs"),
        (
            ["--candidates=any.tsv", "--score=1"],
            "--score is the search's own score, and outputs of --candidates have none",
        ),
        (["--candidates=any.tsv", "--shortlist"], "--shortlist leaves words out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told(options: list[str], expected: str, trained: Path, call: Call) -> None:
    given = [option.replace("RUN", str(trained)) for option in options]
    assert expected in told(call("rerank", trained, *given, stdin=b"a\n"))
