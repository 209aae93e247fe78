"""Joint n-gram models: all readings of a source against enumeration, outputs without a reading, and a whole run."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_cli import told
from torch import Tensor
from torch.testing import assert_close

import transduce
from families import COUNTED, FACTS, build, paired, sources
from libraries import needs_library, usable
from transduce.answers.answer import Output
from transduce.compute.library import VARIANTS
from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.training.begin import train
from transduce.training.callbacks import Callback, Finished, Saved, Started, Update, Validated
from transduce.training.job import Job
from transduce.wings.counted.readings import compiled
from transduce.wings.counted.readings.lattice import Readings
from transduce.wings.counted.readings.reader import _BEST, LEFT_OUT, ROUNDING, Reader
from transduce.wings.lab.sweeps.measurement import Conditions, measure
from transduce.wings.looking.inspection.units import UnitReading, units

Call = Callable[..., tuple[int, str, str]]
EVERYTHING = {"type": "joint-ngram", "order": 3, "beam": 1e3, "width": 10**6, "escape": 1e-12}


@pytest.fixture(scope="module")
def model() -> Any:
    return build(EVERYTHING)


def padded(rows: list[list[int]]) -> Padded:
    lengths = [len(row) for row in rows]
    return Padded(torch.tensor([row + [PAD] * (max(lengths) - len(row)) for row in rows]), torch.tensor(lengths))


def readings(model: Any, source: list[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yields every reading of a source: its output, and its log-probability, one n-gram after the other."""
    ways, width = [(0, model.ngrams.begun, (), 0.0)], model.longest[0]
    first_tokens = {tokens[0] for tokens in model.units.tolist() if not any(tokens[1:width])}
    while ways:
        place, history, written, log_prob = ways.pop()
        if place == len(source):
            last, _ = model.ngrams(torch.tensor([history]), torch.tensor([model.ngrams.end]))
            yield written, log_prob + float(last)
            continue
        if source[place] not in first_tokens:
            ways.append((place + 1, history, written, log_prob + LEFT_OUT))
        for unit, tokens in enumerate(model.units.tolist()):
            piece = [token for token in tokens[:width] if token]
            if source[place : place + len(piece)] == piece:
                more, after = model.ngrams(torch.tensor([history]), torch.tensor([unit]))
                target = tuple(token for token in tokens[width:] if token)
                ways.append((place + len(piece), int(after), written + target, log_prob + float(more)))


SOURCES = [[4], [6, 5], [5, 5, 6], pytest.param([7, 4, 8], marks=pytest.mark.slow)]


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_probability_is_the_sum_over_all_readings(source: list[int], model: Any) -> None:
    together: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for written, log_prob in readings(model, source):
        together[written] += math.exp(log_prob)
    everything = sum(together.values())
    outputs = sorted(together, key=lambda output: -together[output])[:200]
    given = padded([[*source, EOS]] * len(outputs))
    found = force(model, given, padded([[*output, EOS] for output in outputs]))
    for output, each in zip(outputs, found, strict=True):
        assert each.log_prob == pytest.approx(math.log(together[output] / everything), abs=1e-6)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_the_best_cut_is_the_most_probable_of_all(source: list[int], model: Any) -> None:
    best: defaultdict[tuple[int, ...], float] = defaultdict(lambda: -math.inf)
    for written, log_prob in readings(model, source):
        best[written] = max(best[written], log_prob)
    for output in sorted(best, key=lambda output: -best[output])[:100]:
        cut = model.cut(source, output)
        assert cut.log_prob == pytest.approx(best[output], abs=1e-9)
        assert [token for piece, _ in cut.pieces for token in piece] == source
        assert tuple(token for _, piece in cut.pieces for token in piece) == output
    assert model.cut(source, [4, *[9] * 2 * len(source)]) is None


def test_what_no_unit_has_stands_beside_nothing(model: Any) -> None:
    plain, strange = model.cut([4, 6], [5, 6]), model.cut([4, 6, UNK], [5, 6])
    assert strange.pieces == (*plain.pieces, ((UNK,), ()))
    assert model.cut([], []).pieces == ()


@pytest.mark.parametrize("table", [EVERYTHING, *COUNTED.values()], ids=lambda table: str(table.get("width")))
def test_probabilities_sum_to_one(table: config.Table) -> None:
    """The probabilities sum to 1 with a pruned lattice, after any tokens, even after tokens that no reading writes."""
    pruned, source = build(table), sources([6, 1, 4])
    tokens = torch.tensor([[BOS, 5, 9, 9, 9, 9, 4], [BOS, 10, 6, 7, 5, 5, 5], [BOS, 7, 7, 4, 8, 6, 5]])
    output, _ = pruned.extend(tokens, pruned.start(source))
    logits = pruned.readout(output)
    assert_close(logits.exp().sum(-1), torch.ones(3, 7, dtype=torch.float64))
    assert (logits[..., [PAD, BOS]] == -math.inf).all()
    assert torch.isfinite(logits[..., [UNK, EOS, *range(4, FACTS.target_vocabulary)]]).all()


def test_a_narrow_beam_has_the_probable_readings(model: Any) -> None:
    source = sources([5, 6, 4, 7], seed=3)
    wide, narrow = (Greedy(12)(build(EVERYTHING | {"width": width}), source) for width in (10**6, 40))
    assert [h[0].tokens for h in wide] == [h[0].tokens for h in narrow]
    assert build(EVERYTHING | {"width": 1}).start(source).next_NE.shape[1] < model.start(source).next_NE.shape[1] / 2


def test_ways_on_no_probable_reading_go(model: Any) -> None:
    source, beam = [7, 4, 8], 3.0
    near = build(EVERYTHING | {"beam": beam})
    every = list(readings(model, source))
    best, everything = max(log_prob for _, log_prob in every), sum(math.exp(log_prob) for _, log_prob in every)
    probable = [(written, log_prob) for written, log_prob in every if log_prob > best - beam]
    given = padded([[*source, EOS]] * len(probable))
    found = force(near, given, padded([[*written, EOS] for written, _ in probable]))
    for output, (_, log_prob) in zip(found, probable, strict=True):
        assert output.log_prob > log_prob - math.log(everything)
    few, all_ways = (each.start(padded([[*source, EOS]])).next_NE.shape[1] for each in (near, model))
    assert len(probable) < few < all_ways / 4


def test_a_beam_of_nothing_has_one_reading() -> None:
    """A beam of 0 keeps one reading. It does so in single precision too, in which the reading is slightly less probable
    from the other side.
    """
    best = build(EVERYTHING | {"beam": 0.0}).float()
    for only in Greedy(60)(best, sources([5, 16, 24, 27], seed=3)):
        assert only[0].log_prob == pytest.approx(0.0, abs=1e-6)


def chances(readings: Readings) -> Tensor:
    """For each node, the sum [B, Q] of the probabilities of its arcs and of ending there."""
    writing_BQ = torch.zeros_like(readings.ending_BQ).scatter_add_(1, readings.start_BE, readings.chance_BE)
    return writing_BQ + readings.silent_BQ + readings.ending_BQ


@pytest.mark.parametrize("beam", [math.inf, 0.0])
def test_no_way_ends_nowhere(beam: float) -> None:
    """The probabilities at every node sum to 1. A narrow width would leave dead ends, and a long source rounds more."""
    model = build(EVERYTHING | {"beam": beam, "width": 3}).float()
    for source in (sources([7, 4, 9], seed=3), sources([400], seed=4)):
        sums_BQ = chances(model.start(source).readings.value)
        assert_close(sums_BQ[sums_BQ != 0], torch.ones_like(sums_BQ[sums_BQ != 0]), atol=1e-2, rtol=0)
        assert (sums_BQ[:, 0] != 0).all()


def test_a_beam_that_ends_at_a_reading_breaks_none(model: Any) -> None:
    """A beam may end exactly at a reading. The sums that decide round differently, but a reading is kept or dropped as
    a whole.
    """
    source, single = sources([9, 8, 9], seed=3), build(EVERYTHING).float()
    reader = Reader(single.units, 2, single.ngrams, 30.0, 10**6)
    nodes, arcs = reader._graph(source.values, source.lengths - 1)
    ahead_Q = reader._ahead(nodes, arcs, source.lengths - 1, _BEST)
    behind_Q = nodes.reached_Q.masked_fill(nodes.place_Q > 0, -torch.inf)
    for come in arcs:
        behind_Q.scatter_reduce_(0, come.end_E, behind_Q[come.start_E] + come.log_prob_E, "amax")
    distance_Q = ahead_Q[: len(source.lengths)].double()[nodes.row_Q] - (behind_Q + ahead_Q)
    for beam in distance_Q[torch.isfinite(distance_Q) & (distance_Q < 30)].unique()[::30].tolist():
        sums_BQ = chances(Reader(single.units, 2, single.ngrams, max(beam - ROUNDING, 0.0), 10**6)(source))
        assert_close(sums_BQ[sums_BQ != 0], torch.ones_like(sums_BQ[sums_BQ != 0]), atol=1e-3, rtol=0)


@needs_library
@pytest.mark.parametrize("variant", range(len(VARIANTS)), ids=VARIANTS)
@pytest.mark.parametrize(
    "options",
    [{}, {"beam": 3.0, "width": 12}, {"beam": math.inf, "width": 5}, {"source_tokens": 3, "target_tokens": 3}],
    ids=str,
)
def test_the_compiled_library_finds_the_same(
    options: dict[str, Any], variant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lattices and steps equal the plain operators'. Some tokens are in no unit, one source is empty, and some
    outputs are in no reading.
    """
    if variant >= len(usable()):
        pytest.skip("this processor does not run the variant, or it was not built")
    functions = compiled.declared(usable()[variant])
    monkeypatch.setattr(compiled, "_functions", lambda: functions)
    model = build(EVERYTHING | options).float()
    source = padded([[4, UNK, 6, 5, EOS], [7, 4, 8, 5, 5, 6, 4, EOS], [EOS], [4, 4, 4, EOS]])
    tokens_NT = torch.tensor([[BOS, 5, 9, 4], [BOS, 6, EOS, 5], [BOS, 10, 10, 10], [BOS, 4, 4, 4]])
    own, state = model.extend(tokens_NT, model.start(source))
    monkeypatch.setattr(compiled, "fits", lambda numbers: False)
    expected, by_operators = model.extend(tokens_NT, model.start(source))
    for name, table in vars(state.readings.value).items():
        assert_close(table, getattr(by_operators.readings.value, name), rtol=1e-9, atol=1e-12)
    assert_close(own, expected)
    assert_close((state.next_NE, state.ending_N), (by_operators.next_NE, by_operators.ending_N))


def test_what_no_unit_has_is_left_out(model: Any) -> None:
    """A token that is in no unit is left out at any position. An empty source has an empty output."""
    strange = force(model, padded([[UNK, 4, 6, EOS], [4, UNK, 6, EOS], [4, 6, UNK, EOS]]), padded([[5, 6, EOS]] * 3))
    plain = force(model, padded([[4, 6, EOS]]), padded([[5, 6, EOS]]))
    assert strange[0].log_prob == pytest.approx(plain[0].log_prob, abs=1e-9)
    assert strange[2].log_prob == pytest.approx(plain[0].log_prob, abs=1e-9)
    assert math.isfinite(strange[1].log_prob)  # the unknown token separates tokens that could be one unit
    empty = Greedy(5)(model, padded([[EOS], [4, EOS]]))
    assert empty[0][0].tokens == (EOS,)


def test_what_is_impossible_has_the_probability_of_an_escape() -> None:
    """A token that no reading writes has the probability of an escape. After it, all tokens are equally probable."""
    small = build(EVERYTHING | {"escape": 1e-3})
    reachable = {output for output, _ in readings(small, [4])}
    assert not any(output[:1] == (10,) for output in reachable)
    (found,) = force(small, padded([[4, EOS]]), padded([[10, 5, EOS]]))
    alike = 1 / (FACTS.target_vocabulary - 2)
    expected = [math.log(1e-3 * alike), math.log(alike), math.log(alike)]
    assert found.token_log_probs == pytest.approx(expected, abs=1e-9)


def uncounted(**options: Any) -> Any:
    return config.build(options | {"type": "joint-ngram"}, transduce.core.protocols.Model, FACTS, "model")


LONG, SHORT = ([4, EOS], [5, 5, 5, EOS]), ([4, EOS], [5, EOS])


def test_pairs_that_cannot_be_cut_are_reported_up_to_a_share() -> None:
    counts = uncounted().counts(paired([LONG] + [SHORT] * 19))
    assert counts.report == (
        "1 of 20 pairs cannot be cut into units: they have no source, or more than model.target_tokens = 2 target "
        "tokens for each source token, and are not counted",
    )
    assert counts.tokens == 2 * 19
    with pytest.raises(
        UserError, match=r"^1 of 19 pairs cannot .* at most 5% .* Set model\.target_tokens = 3, or choose"
    ):
        uncounted().counts(paired([LONG] + [SHORT] * 18))
    assert uncounted(uncut=0.5).counts(paired([LONG, SHORT])).tokens == 2
    assert uncounted(target_tokens=3).counts(paired([LONG, SHORT])).report == ()
    for options in ({}, {"uncut": 1.0}):
        with pytest.raises(UserError, match=r"1 of 1 pairs cannot be cut"):
            uncounted(**options).counts(paired([LONG]))
    with pytest.raises(UserError, match="1 pairs have no source: remove them"):
        uncounted().counts(paired([([EOS], [EOS])]))


@pytest.mark.parametrize("longest", [(1, 3), (3, 1), (3, 3)], ids=str)
@pytest.mark.parametrize("source", [[4], [6, 5], [7, 4, 8], [6, 8, 6], [4, UNK, 9]], ids=str)
def test_units_of_any_length(longest: tuple[int, int], source: list[int]) -> None:
    """The probability is the sum over all readings, and the best cut is the best reading, for units of any length."""
    model = uncounted(**EVERYTHING, source_tokens=longest[0], target_tokens=longest[1], uncut=0.9)
    together = [([6, 8, 6], [9]), ([9], [5, 6, 7])] * 9  # one unit, if units may be so long
    apart = [([4], [5]), ([5], [6]), ([6], [4, 5]), ([7, 4], [6]), ([8], []), ([7], [7]), ([4, 5, 8], [6, 6])]
    counts = model.counts(paired([([*read, EOS], [*written, EOS]) for read, written in together + apart]))
    for _ in range(5):
        counts.reestimate()
    counts.store()
    model.double()
    sizes = {(sum(map(bool, unit[: longest[0]])), sum(map(bool, unit[longest[0] :]))) for unit in model.units.tolist()}
    assert (1, 0) in sizes
    assert sizes <= {(1, 0), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)}
    assert tuple(map(max, zip(*sizes, strict=True))) == longest
    probability: defaultdict[tuple[int, ...], float] = defaultdict(float)
    best: defaultdict[tuple[int, ...], float] = defaultdict(lambda: -math.inf)
    for written, log_prob in readings(model, source):
        probability[written] += math.exp(log_prob)
        best[written] = max(best[written], log_prob)
    total = sum(probability.values())
    outputs = [output for output in probability if probability[output] > 1e-5 * total]  # far above an escape
    found = force(model, padded([[*source, EOS]] * len(outputs)), padded([[*output, EOS] for output in outputs]))
    for output, each in zip(outputs, found, strict=True):
        assert each.log_prob == pytest.approx(math.log(probability[output] / total), abs=1e-6)
        assert model.cut(source, output).log_prob == pytest.approx(best[output], abs=1e-9)


def test_numbers_and_factors_are_refused() -> None:
    with pytest.raises(ValueError, match="reads one id a token, and each step of the source has 3"):
        config.build({"type": "joint-ngram"}, transduce.core.protocols.Model, replace(FACTS, source_factors=3), "model")
    numbers = Pairs(*(Ragged(np.ones(3, np.float32), np.array([0, 3])) for _ in range(2)))
    model: Any = config.build({"type": "joint-ngram"}, transduce.core.protocols.Model, FACTS, "model")
    with pytest.raises(ValueError, match="counts tokens, and the data has numbers"):
        model.counts(numbers)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"order": 0}, "order = 0: at least 1 was expected"),
        ({"beam": -1.0}, "beam = -1.0: at least 0 was expected"),
        ({"beam": math.nan}, "beam: nan is not a finite number"),
        ({"width": 0}, "width = 0"),
        ({"escape": 0.0}, "escape = 0.0: more than 0 and less than 1"),
        ({"escape": 1.0}, "escape = 1.0"),
        ({"target_tokens": 0}, "target_tokens = 0: at least 1"),
        ({"uncut": 1.5}, "uncut = 1.5: a share"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        config.build({"type": "joint-ngram"} | options, transduce.core.protocols.Model, FACTS, "model")


# ------------------------------------------------------------------------- a run

WORDS = ["cab", "dad", "bead", "face", "cede", "deface", "abed", "decade", "faded", "beef", "ab", "facade", "bed"]
PAIRS = [(word, " ".join(word.upper().replace("EA", "I").replace("EE", "I"))) for word in WORDS]
SETTINGS: config.Table = {
    "metrics": ["exact", "ter"],
    "data": {"units": {"source": "characters", "target": "symbols"}},
    "model": {"type": "joint-ngram", "order": 4},
    "training": {"epochs": 20, "validation": {"metrics": ["exact"]}},
    "search": {"type": "beam", "size": 3, "max_length": 12},
}


LSTM: config.Table = {"type": "recurrent", "cell": "lstm", "embedding_width": 4}
NEURAL: config.Table = {
    "type": "encoder-decoder",
    "encoder": LSTM | {"width": 4},
    "decoder": LSTM | {"width": 8, "bridge": "linear", "wiring": "plain"},
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "joint.toml"
    path.write_text(config.write(SETTINGS | changes), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joint")
    transduce.train(written(folder), folder / "run", pairs=PAIRS * 3, progress=False, device="cpu")
    return folder / "run"


def test_a_run_is_counted_saved_and_used(counted: Path) -> None:
    model = transduce.load(counted, device="cpu")
    assert [model(word) for word, _ in PAIRS] == [target for _, target in PAIRS]
    events = [json.loads(line) for line in (counted / "metrics.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "update"]
    assert len(losses) > 1
    assert losses == sorted(losses, reverse=True)
    assert events[-1]["event"] == "validation"
    assert events[-1]["metrics"]["exact"] > 50
    last = transduce.load(counted, "last", device="cpu")
    assert next(last.score(PAIRS[:1])) == next(model.score(PAIRS[:1]))
    assert all(parameter.numel() for parameter in model.model.parameters())


def test_a_kill_after_the_last_checkpoint_loses_no_validation(tmp_path: Path) -> None:
    class Kill(Callback):
        def on_checkpoint(self, saved: Saved) -> None:
            if saved.checkpoint == "last":
                raise KeyboardInterrupt

    asked = {"pairs": PAIRS * 3, "progress": False, "device": "cpu"}
    with pytest.raises(KeyboardInterrupt):
        transduce.train(written(tmp_path), tmp_path / "run", callbacks=[Kill()], **asked)
    transduce.train(written(tmp_path), tmp_path / "run", resume=True, **asked)
    events = [json.loads(line)["event"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert events.count("validation") == 1


def test_an_empty_source_has_one_empty_output(counted: Path) -> None:
    """Other outputs need an escape. Otherwise, the longest of them would be returned with length normalisation."""
    transducer = transduce.load(counted)
    empty, other = transducer.predict(["", "ab"], transducer.search.resized(nbest=3))
    assert [output.text for output in empty] == [""]
    assert len(other) == 3
    deep = next(transducer.predict(["ab"], transducer.search.resized(size=200, nbest=200)))
    assert len(deep) > 50, "the escape draws every token"
    assert not any(UNK in output.ids for output in deep)


def test_a_run_is_counted_again_where_its_settings_changed(counted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(counted, run)
    weights = run / "checkpoints" / "best" / "model.safetensors"
    before, made, told = weights.read_bytes(), weights.stat().st_ino, (run / "metrics.jsonl").read_text()
    transduce.train("joint", run, resume=True, progress=False, device="cpu")
    assert weights.stat().st_ino == made
    assert (run / "metrics.jsonl").read_text() == told
    transduce.train("joint", run, {"model.order": 2}, resume=True, progress=False, device="cpu")
    assert len(weights.read_bytes()) < len(before)
    transduce.train("joint", run, {"model.order": 4}, resume=True, progress=False, device="cpu")
    assert weights.read_bytes() == before


def test_a_run_is_mixed_with_a_trained_one(counted: Path, tmp_path: Path, call: Call) -> None:
    """Both runs learn the same vocabularies, since they have the same data."""
    recipe = written(tmp_path, model=NEURAL, training={"steps": 2})
    transduce.train(recipe, tmp_path / "lstm", pairs=PAIRS * 3, progress=False, device="cpu")
    own = {"init.vocabulary": "own"}
    with pytest.raises(ValueError, match=r"init.run: nothing of .* fits this model"):
        transduce.train(recipe, tmp_path / "next", own, pairs=PAIRS * 3, progress=False, device="cpu", init=counted)
    both = transduce.load(f"{counted}+{tmp_path / 'lstm'}", device="cpu")
    alone = [transduce.load(run, device="cpu") for run in (counted, tmp_path / "lstm")]
    pair = ("face", "F A C E")
    first = [math.exp(next(model.score([pair])).token_log_probs[0]) for model in alone]
    assert math.exp(next(both.score([pair])).token_log_probs[0]) == pytest.approx(sum(first) / 2, rel=1e-4)
    status, out, _ = call("predict", counted, "--precision=bfloat16", stdin=b"face\n")
    assert (status, out) == (0, "F A C E\n")


def test_one_of_other_data_has_the_vocabularies_of_a_run(counted: Path, tmp_path: Path) -> None:
    """A run on other data takes over the vocabularies of a run. Its own would have another order, and the two runs
    could not be mixed.
    """
    some = [(word, target) for word, target in reversed(PAIRS) if "f" not in word]
    lines: list[str] = []

    class Told(Callback):
        def on_start(self, started: Started) -> None:
            lines.extend(started.report)

    for name, init in (("own", None), ("theirs", counted)):
        transduce.train(
            written(tmp_path),
            tmp_path / name,
            pairs=some * 3,
            progress=False,
            device="cpu",
            init=init,
            callbacks=[Told()],
        )
    assert f"has the vocabularies of {counted} (keep), and nothing else of it" in lines
    with pytest.raises(ValueError, match="different source and target vocabularies"):
        transduce.load(f"{counted}+{tmp_path / 'own'}", device="cpu")
    assert transduce.load(f"{tmp_path / 'theirs'}+{counted}", device="cpu")("bead") == "B I D"


def test_what_is_not_counted_yet_says_so(tmp_path: Path) -> None:
    mixture = {"type": "ensemble", "models": [NEURAL, SETTINGS["model"]]}
    with pytest.raises(ValueError, match="has not been counted: train it by itself, then mix it with others"):
        transduce.train(
            written(tmp_path, model=mixture), tmp_path / "run", pairs=PAIRS * 2, progress=False, device="cpu"
        )


def test_a_sweep_measures_it_as_any_other(counted: Path) -> None:
    found = measure(transduce.load(counted, device="cpu"), counted, Conditions.here(1, 1, "cpu"))
    assert found.split == "valid"
    assert found.parameters > 100
    assert found.updates > 1
    assert found.tokens_per_second > 0


def test_minutes_and_passes_are_budgets(tmp_path: Path) -> None:
    for training, passes in (({"epochs": 2}, 2), ({"steps": 3}, 3), ({"minutes": 1e-6}, 1)):
        recipe = written(tmp_path, training=training)
        out = tmp_path / str(passes)
        report = Ends()
        transduce.train(recipe, out, pairs=PAIRS * 2, callbacks=[report], progress=False, device="cpu")
        assert json.loads((out / "checkpoints" / "last" / "state.json").read_text())["step"] == passes
        assert 0 < report.finished.validating < report.finished.seconds


class Ends(Callback):
    def on_finish(self, finished: Finished) -> None:
        self.finished = finished


def test_units_of_wide_letters_stand_under_each_other() -> None:
    output = Output("d jn", ("d", "jn", "</s>"), -1.0, -1.0, (-0.5, -0.5, 0.0))
    first, second, third, _ = UnitReading(output, [("東", "d"), ("京", "jn")], (0.5, 0.25, 1.0), -2.0).lines()
    assert (first, second, third) == ("東   京", "d    jn", "0.5  0.25")


class StopsInPasses(Callback):
    def on_update(self, update: Update) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


class StopsAtTheEnd(Callback):
    def on_validation(self, validated: Validated) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("stops", "kept"), [(StopsInPasses(), False), (StopsAtTheEnd(), True)])
def test_a_signal_stops_the_program_and_what_is_not_all_counted_begins_anew(
    stops: Callback, kept: bool, tmp_path: Path
) -> None:
    recipe, out = written(tmp_path), tmp_path / "run"
    with pytest.raises(SystemExit):
        transduce.train(recipe, out, pairs=PAIRS * 3, progress=False, device="cpu", callbacks=[stops])
    assert (out / "checkpoints").exists() == kept
    again = transduce.train(recipe, out, resume=True, progress=False, device="cpu")
    assert again("face") == "F A C E"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"objective": {"type": "r-drop"}}, "objective"),
        ({"objective": {"type": "cross-entropy", "smoothing": 0.1}}, "objective"),
        ({"distillation": {"teacher": "elsewhere"}}, "distillation"),
        ({"training": {"epochs": 3, "freeze": ["units"]}}, "training.freeze"),
    ],
    ids=str,
)
def test_what_takes_gradients_is_refused(changes: config.Table, key: str, tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match=f"{key}.*JointNgram is counted, and not trained by gradients"):
        train(Job(tmp_path / "run", Merged(config.read(written(tmp_path, **changes)))))
    assert not (tmp_path / "run" / "config.toml").exists()


def test_the_units_of_a_word(counted: Path, call: Call) -> None:
    status, out, _ = call("inspect", counted, "facade", "--units")
    above, below, each, probabilities = out.splitlines()
    assert status == 0
    assert "".join(above.split()) == "facade"
    assert [piece for piece in below.split() if piece != "-"] == list("FACADE")
    found = units(transduce.load(counted, device="cpu"), "facade")
    assert [f"{p:.2g}" for p in found.probabilities[:-1]] == each.split()
    assert sum(map(math.log, found.probabilities)) == pytest.approx(found.log_prob)
    log_prob = next(transduce.load(counted, device="cpu").score([("facade", "F A C A D E")])).log_prob
    assert probabilities.startswith(f"log p {log_prob:.3f} given the source, -")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["face", "--head=0"], "--head 0: this joint-ngram model has no attention: leave it out"),
        (["face", "--out=units.png"], "this joint-ngram model has none; give --out page.html or page.json"),
        (["face", "--units", "--out=units.png"], "to which --out does not apply: leave it out"),
        (["face", "--units", "--target=F F F F F F F F F"], "'face' cannot be read as 'F F F F F F F F F'"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_told(options: list[str], expected: str, counted: Path, call: Call) -> None:
    assert expected in told(call("inspect", counted, *options))


def test_other_models_have_no_units(trained: Path, call: Call) -> None:
    assert 'has no units; a model of pieces side by side has them: model.type = "joint-ngram"' in told(
        call("inspect", trained, "abc", "--units")
    )
