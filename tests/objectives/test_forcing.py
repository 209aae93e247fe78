"""The words that a decoder reads in training: the target's or its own, chosen token by token or all together."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import At, KilledError, kill, same_bytes, train
from torch import Tensor, nn
from torch.testing import assert_close

from families import FAMILIES, build, sources, targets
from transduce.core import config
from transduce.core.protocols import Objective
from transduce.core.registry import NAMES
from transduce.core.schedules import Constant, Exponential, InverseSigmoid, Linear, Probability
from transduce.core.types import BOS, EOS, PAD, UNK, Batch, Padded
from transduce.objectives import readout
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.forcing import (
    Forcing,
    ParallelScheduledSampling,
    ScheduledSampling,
    TeacherForcing,
    WordDropout,
    at_quantile,
)
from transduce.search.forcing import shifted

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
EVER, NEVER = Constant(1.0), Constant(0.0)
CHOICES = pytest.mark.parametrize("choose", ["sample", "argmax"])
LENGTHS = [5, 2, 4]
TARGET = Padded(targets(3, 7).clamp(min=3), torch.tensor([7, 3, 5]))
BATCH = Batch(sources(LENGTHS), TARGET, torch.arange(3))


@pytest.fixture(scope="module")
def model() -> Any:
    return build(FAMILIES["luong, general"])


def draws(p: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The positions of the model's own words, and the quantiles of its distribution that select them."""
    generator = torch.Generator().manual_seed(seed)
    coin_BT, quantile_BT = torch.rand(2, *TARGET.values.shape, generator=generator)
    own_BT = (coin_BT >= p) & TARGET.mask
    own_BT[:, 0] = False
    return own_BT, quantile_BT


def by_hand(model: Any, own_BT: Tensor, quantile_BT: Tensor, choose: str) -> Tensor:
    """Chooses words by loops over rows and positions. Each word reads the whole prefix again."""
    rows = []
    for b in range(3):
        source = Padded(BATCH.source.values[b : b + 1, : LENGTHS[b]], BATCH.source.lengths[b : b + 1])
        row = [BOS]
        for t in range(1, 7):
            word = int(TARGET.values[b, t - 1])
            if own_BT[b, t]:
                output, _ = model.extend(torch.tensor([row]), model.start(source))
                weights = model.readout(output)[0, -1].exp().tolist()
                weights[PAD] = weights[BOS] = weights[EOS] = weights[UNK] = 0.0
                sums = list(itertools.accumulate(weights))
                if choose == "argmax":
                    word = weights.index(max(weights))
                else:
                    word = next(v for v, total in enumerate(sums) if total > float(quantile_BT[b, t]) * sums[-1])
            row.append(word)
        rows.append(row)
    return torch.tensor(rows)


# ----------------------------------------------------------------- token by token, and all together


@CHOICES
@pytest.mark.parametrize("p", [0.0, 0.5])
@torch.no_grad()
def test_token_by_token_it_reads_what_it_would_have_written(model: Any, p: float, choose: Any) -> None:
    own_BT, quantile_BT = draws(p)
    gold_BT = shifted(TARGET)
    mixed_BT = ScheduledSampling(EVER, choose).mix(model, model.start(BATCH.source), gold_BT, own_BT, quantile_BT)
    assert torch.equal(mixed_BT, by_hand(model, own_BT, quantile_BT, choose))
    assert torch.equal(mixed_BT[~own_BT], gold_BT[~own_BT])
    assert not torch.equal(mixed_BT, gold_BT)


@pytest.mark.parametrize("family", ["luong, additive, fed", "transformer, pre-norm", "convs2s"])
@torch.no_grad()
def test_one_pass_chooses_after_the_target(family: str) -> None:
    """One pass gives the two-pass form: every word is chosen after the target's words, and not after chosen words."""
    model = build(FAMILIES[family])
    own_BT, quantile_BT = draws(0.4)
    expected_BT = shifted(TARGET)
    for t in range(1, 7):
        alone_BT = own_BT & (torch.arange(7) == t)  # nothing chosen before t
        expected_BT = torch.where(alone_BT, by_hand(model, alone_BT, quantile_BT, "sample"), expected_BT)
    forcing = ParallelScheduledSampling(EVER)
    mixed_BT = forcing.mix(model, model.start(BATCH.source), shifted(TARGET), own_BT, quantile_BT)
    assert torch.equal(mixed_BT, expected_BT)


def test_passes_end_when_nothing_changes(model: Any) -> None:
    """The passes stop when nothing changes. One word's choice changes no other here, and the second pass sees it."""
    own_BT, quantile_BT = torch.zeros(3, 7, dtype=torch.bool), torch.full((3, 7), 0.5)
    own_BT[0, 3] = True
    counted = Counted(model)
    ParallelScheduledSampling(EVER, passes=100).mix(
        counted, model.start(BATCH.source), shifted(TARGET), own_BT, quantile_BT
    )
    assert counted.extended == 2


class Counted:
    """A model that counts the calls of ``extend`` and the features that it reads out."""

    def __init__(self, model: Any) -> None:
        self.model, self.start = model, model.start
        self.extended = self.most = self.asked = 0
        self.with_gradients = False

    def extend(self, tokens_BT: Tensor, state: Any) -> Any:
        self.extended += 1
        return self.model.extend(tokens_BT, state)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Any:
        self.most = max(self.most, len(output))
        self.asked += len(output)
        self.with_gradients |= torch.is_grad_enabled()
        return self.model.readout(output, candidates)


@pytest.mark.parametrize("forcing", [ScheduledSampling, ParallelScheduledSampling])
def test_choices_cost_no_gradients_and_no_padding(model: Any, forcing: Any) -> None:
    counted = Counted(model)
    forcing(NEVER)(counted, model.start(BATCH.source), TARGET, 0.0)
    assert counted.asked - (forcing is ParallelScheduledSampling) == 6 + 2 + 4  # and one row that shows the width
    assert not counted.with_gradients


@torch.no_grad()
def test_choices_are_read_out_in_chunks(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forcing, (own_BT, quantile_BT) = ParallelScheduledSampling(EVER, passes=3), draws(0.0)
    whole_BT = forcing.mix(model, model.start(BATCH.source), shifted(TARGET), own_BT, quantile_BT)
    monkeypatch.setattr(readout, "CHUNK", 2 * 11)
    counted = Counted(model)
    assert torch.equal(forcing.mix(counted, model.start(BATCH.source), shifted(TARGET), own_BT, quantile_BT), whole_BT)
    assert counted.most == 2


# -------------------------------------------------------------------------------- the choice of a word


def test_quantiles_sample_the_distribution() -> None:
    """Evenly spaced quantiles choose each word in proportion to its probability."""
    probability_V = torch.tensor([0.0, 0.0, 0.3, 0.05, 0.0, 0.65, 0.0])
    quantile_N = torch.arange(1000) / 1000
    drawn_N = at_quantile(probability_V.log().expand(1000, -1), quantile_N)
    found_V = torch.bincount(drawn_N, minlength=7) / 1000
    assert_close(found_V, probability_V, rtol=0, atol=0.0021)
    assert found_V[probability_V == 0].sum() == 0


def test_the_ends_of_the_distribution() -> None:
    """Quantile 0 gives the first possible word, and a quantile just below 1 gives the last. Impossible words are never
    chosen.
    """
    logits_NV = torch.tensor([-torch.inf, 0.0, 5.0, -torch.inf]).expand(2, -1)
    just_below = 1 - 2.0**-24  # the largest number that torch.rand draws
    assert at_quantile(logits_NV, torch.tensor([0.0, just_below])).tolist() == [1, 2]
    spread = torch.randn(400, 50, generator=torch.Generator().manual_seed(0)) * 4
    spread[:, -1] = -torch.inf
    assert at_quantile(spread, torch.full((400,), just_below)).max() < 49


@CHOICES
@pytest.mark.parametrize("forcing", [ScheduledSampling, ParallelScheduledSampling])
def test_what_no_search_reads_is_never_chosen(choose: Any, forcing: Any) -> None:
    """The model never chooses padding, BOS or EOS, since no search reads them."""
    table = torch.full((11, 11), -9.0)
    table[:, [PAD, BOS, EOS]] = 9.0
    model = Bigram(table)
    torch.manual_seed(0)
    read_BT = forcing(NEVER, choose)(model, None, TARGET, 0.0)
    assert (read_BT[:, 0] == BOS).all()
    assert (read_BT[:, 1:][TARGET.mask[:, 1:]] > EOS).all()


class Bigram(nn.Module):
    """A model whose logits of the next word depend only on the last word."""

    def __init__(self, table_VV: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table_VV)

    def start(self, source: Any) -> None:
        return None

    def extend(self, tokens_BT: Tensor, state: None) -> tuple[Tensor, None]:
        return self.table[tokens_BT], None

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone()


class Consuming(Bigram):
    """A model that writes into its state. It may do so, since a call consumes its state."""

    def extend(self, tokens_BT: Tensor, state: Any) -> Any:
        return super().extend(tokens_BT, None)[0], state.add_(tokens_BT.shape[1])


@pytest.mark.parametrize("forcing", [ScheduledSampling, ParallelScheduledSampling])
def test_the_state_is_left_as_it_is(forcing: Any) -> None:
    state_B = torch.zeros(3)
    forcing(NEVER)(Consuming(torch.zeros(11, 11)), state_B, TARGET, 0.0)
    assert not state_B.any()


# ------------------------------------------------------------------------------------------ the draws


@pytest.mark.parametrize("forcing", [ScheduledSampling, ParallelScheduledSampling])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.9])
def test_the_share_of_the_targets_words(p: float, forcing: Any) -> None:
    """The model always writes one word that no target has. So the result shows which words are its own."""
    table = torch.full((11, 11), -torch.inf)
    table[:, 10] = 0.0
    target = Padded(torch.full((100, 101), 4), torch.full((100,), 101))
    torch.manual_seed(0)
    read_BT = forcing(Constant(p))(Bigram(table), None, target, 0.0)
    share = float((read_BT[:, 1:] == 4).double().mean())
    assert share == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 10_000))


@pytest.mark.parametrize("forcing", [TeacherForcing(), ScheduledSampling(EVER), ParallelScheduledSampling(EVER)])
def test_nothing_is_drawn_nor_asked_where_p_is_1(forcing: Forcing) -> None:
    before = torch.get_rng_state()
    assert torch.equal(forcing(nn.Identity(), None, TARGET, 0.7), shifted(TARGET))  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before)


def test_the_schedule_sees_the_progress(model: Any) -> None:
    forcing, state = ScheduledSampling(Linear(start=1.0, slope=1.0)), model.start(BATCH.source)
    torch.manual_seed(0)
    assert torch.equal(forcing(model, state, TARGET, 0.0), shifted(TARGET))
    assert not torch.equal(forcing(model, state, TARGET, 1.0), shifted(TARGET))


# ---------------------------------------------------------------------------------------- the objective


class Recorded:
    """A forcing that keeps the words it chose."""

    def __init__(self, forcing: Forcing) -> None:
        self.forcing = forcing

    def __call__(self, model: Any, state: Any, target: Padded, progress: float) -> Tensor:
        self.read_BT = self.forcing(model, state, target, progress)
        return self.read_BT


@pytest.mark.parametrize("forcing", [ScheduledSampling(Constant(0.4)), ParallelScheduledSampling(Constant(0.4))])
@pytest.mark.parametrize("family", ["luong, additive, fed", "transformer, pre-norm"])
def test_the_loss_is_that_of_the_target_after_what_is_read(family: str, forcing: Forcing) -> None:
    """The loss and its gradients are the cross-entropy after the chosen words. Choosing leaves no trace in the state or
    in the graph.
    """
    model = build(FAMILIES[family]).train()
    for part in model.modules():
        if hasattr(part, "p"):
            part.p = 0.0  # dropout
    torch.manual_seed(1)
    recorded = Recorded(forcing)
    loss, _ = CrossEntropy(0.1, recorded)(model, BATCH, 0.5)
    output, _ = model.extend(recorded.read_BT, model.start(BATCH.source))
    expected = nn.functional.cross_entropy(
        model.readout(output[TARGET.mask]), TARGET.values[TARGET.mask], label_smoothing=0.1, reduction="sum"
    )
    assert not torch.equal(recorded.read_BT, shifted(TARGET))
    assert_close(loss.total, expected)
    assert loss.count == 15
    parameters = list(model.parameters())
    assert_close(torch.autograd.grad(loss.total, parameters), torch.autograd.grad(expected, parameters))


def test_a_model_out_of_training_is_measured_after_the_target(model: Any) -> None:
    loss, _ = CrossEntropy(0.0, ScheduledSampling(NEVER))(model, BATCH, 1.0)
    assert torch.equal(loss.total, CrossEntropy()(model, BATCH)[0].total)


def test_gradients_reach_every_weight_in_bfloat16() -> None:
    """Autocast caches cast weights. Training must not use a weight that was cast without gradients while words were
    chosen.
    """
    model = build(FAMILIES["transformer, pre-norm"], dtype=torch.float32).train()
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = CrossEntropy(0.0, ParallelScheduledSampling(NEVER))(model, BATCH)
    loss.total.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


# --------------------------------------------------------------------------------------------- untold words


def test_a_share_of_the_words_is_not_told() -> None:
    torch.manual_seed(0)
    target = Padded(torch.full((200, 50), 9), torch.full((200,), 40))
    gold_BT = shifted(target)
    read_BT = WordDropout(0.3)(None, None, target, 0.0)  # type: ignore[arg-type]
    untold_BT = read_BT == UNK
    assert torch.equal(read_BT[~untold_BT], gold_BT[~untold_BT])
    assert not untold_BT[:, 0].any(), "where a sentence begins is always told"
    assert not untold_BT[:, 40:].any()
    assert untold_BT[:, 1:40].float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert torch.equal(WordDropout(0.0)(None, None, target, 0.0), gold_BT)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- whole runs


def sampling(kind: str, probability: config.Table) -> config.Table:
    return {"objective": {"type": "cross-entropy", "forcing": {"type": kind, "probability": probability}}}


@pytest.mark.parametrize("kind", ["scheduled-sampling", "parallel-scheduled-sampling"])
def test_p_of_1_is_plain_training_to_the_last_bit(
    kind: str, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    """If p is 1, weights and optimiser are the same as in plain training, and dropout draws the same random numbers."""
    train(tmp_path / "run", tiny | sampling(kind, {"type": "constant", "value": 1.0}))
    same_bytes(tmp_path / "run", trained)


@pytest.mark.parametrize("kind", ["scheduled-sampling", "parallel-scheduled-sampling"])
def test_a_killed_run_draws_the_same_again(kind: str, tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    draws_again(tiny | sampling(kind, {"type": "linear", "slope": 1.0}), trained, tmp_path)


def test_a_killed_run_forgets_the_same_words(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    forcing = {"type": "word-dropout", "share": 0.5}
    draws_again(tiny | {"objective": {"type": "cross-entropy", "forcing": forcing}}, trained, tmp_path)


def draws_again(settings: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    train(tmp_path / "whole", settings)
    with pytest.raises(KilledError):
        train(tmp_path / "killed", settings, At(5, kill))
    train(tmp_path / "killed", (), resume=True)
    same_bytes(tmp_path / "killed", tmp_path / "whole")
    with pytest.raises(AssertionError):
        same_bytes(tmp_path / "whole", trained)


# -------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(0.75), [0.75, 0.75, 0.75, 0.75, 0.75]),
        (Linear(), [1.0, 0.875, 0.75, 0.625, 0.5]),
        (Linear(start=0.9, slope=1.2, floor=0.25), [0.9, 0.6, 0.3, 0.25, 0.25]),
        (Exponential(0.0625), [1.0, 0.5, 0.25, 0.125, 0.0625]),
        (InverseSigmoid(), [1 / (1 + math.exp(10 * (s - 0.5))) for s in (0.0, 0.25, 0.5, 0.75, 1.0)]),
        (InverseSigmoid(middle=0.25, steepness=1e6), [1.0, 0.5, 0.0, 0.0, 0.0]),
    ],
)
def test_schedules(schedule: Probability, expected: list[float]) -> None:
    assert [schedule(s) for s in (0.0, 0.25, 0.5, 0.75, 1.0)] == pytest.approx(expected)


def test_schedules_are_the_papers() -> None:
    """Bengio et al. 2015, section 2.4: linear, exponential and inverse sigmoid decay in the update's number i of n,
    with their constants k, c and epsilon.
    """
    n, k, c, epsilon = 400, 60.0, 0.002, 0.3
    sigmoid = InverseSigmoid(middle=k * math.log(k) / n, steepness=n / k)
    linear, exponential = Linear(start=0.95, slope=n * c, floor=epsilon), Exponential(0.99**n)
    for i in range(n + 1):
        assert linear(i / n) == pytest.approx(max(epsilon, 0.95 - c * i))
        assert exponential(i / n) == pytest.approx(0.99**i)
        assert sigmoid(i / n) == pytest.approx(k / (k + math.exp(i / k)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(1.5), r"value = 1\.5: a number from 0 to 1"),
        (lambda: Linear(start=-0.1), r"start = -0\.1: a number from 0 to 1"),
        (lambda: Linear(floor=math.nan), "floor = nan: a number from 0 to 1"),
        (lambda: Linear(start=0.5, floor=0.6), r"floor = 0\.6: at most start = 0\.5"),
        (lambda: Linear(slope=-1.0), r"slope = -1\.0: a number of at least 0"),
        (lambda: Exponential(0.0), "end = 0.* try 0.01"),
        (lambda: Exponential(1.1), r"end = 1\.1: a number from 0 to 1"),
        (lambda: InverseSigmoid(steepness=-1.0), r"steepness = -1\.0: a number of at least 0"),
        (lambda: InverseSigmoid(middle=math.inf), "middle = inf: a share of the budget"),
        (lambda: WordDropout(1.5), r"share = 1\.5: a share of the words, from 0 to 1"),
        (lambda: ScheduledSampling(EVER, "best"), 'choose = "best": "sample" or "argmax"'),  # type: ignore[arg-type]
        (lambda: ParallelScheduledSampling(EVER, passes=0), 'passes = 0: at least 1.*forcing = "teacher"'),
    ],
)
def test_bad_values_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_the_page_says_what_the_schedules_are() -> None:
    """The objective in docs/training.md can be built. Its table has the values of the schedules to two digits."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if "forcing" in each)
    table = config.parse(block.encode(), PAGE.name)
    built: Any = config.build(table["objective"], Objective, path="objective")
    assert built.forcing == ScheduledSampling(InverseSigmoid(middle=0.6))
    rows = re.findall(r"^\| `\{ (type = .*) \}` \|[^|]*\| (.*) \|$", text, re.MULTILINE)
    assert len(rows) == len(NAMES["Probability"])
    for keys, values in rows:
        schedule: Any = config.build(config.parse(f"p = {{ {keys} }}".encode(), PAGE.name)["p"], Probability)
        assert values.split(" | ") == [f"{schedule(s):.2f}" for s in (0.0, 0.25, 0.5, 0.75, 1.0)]


@pytest.mark.parametrize("name", ["constant", "linear", "exponential", "inverse-sigmoid"])
def test_every_schedule_has_a_name(name: str) -> None:
    probability = {"type": name, **({"value": 0.5} if name == "constant" else {})}
    table = {"type": "cross-entropy", "forcing": {"type": "scheduled-sampling", "probability": probability}}
    objective: Any = config.build(table, Objective, path="objective")
    assert 0.4 < objective.forcing.probability(0.5) < 0.8
