"""Learning from a teacher: the loss by definition, whole runs, and models that cannot be taught."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from test_resume import At, KilledError, Report, kill, same_bytes
from torch.testing import assert_close

import transduce
from families import FAMILIES, PARALLEL, build, sources, targets
from transduce import api
from transduce.core import config
from transduce.core.types import BOS, EOS, PAD, UNK, Batch, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.models.mixtures import Ensemble
from transduce.objectives import readout
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.objectives.forcing import WordDropout
from transduce.search.forcing import shifted
from transduce.training import distillation
from transduce.training.callbacks import Callback
from transduce.training.distillation import ComputedDistributions, Distilled, StoredDistributions
from transduce.training.settings import Distillation, Training

LUONG, TRANSFORMER = "luong, gru, scaled dot, fed", "transformer, pre-norm"


def batch() -> Batch:
    rows = [[*targets(1, n, seed=n)[0].clamp(min=4).tolist(), EOS] for n in (3, 1, 4)]
    longest = max(map(len, rows))
    target = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return Batch(sources([5, 2, 4]), Padded(target, torch.tensor([len(row) for row in rows])), torch.arange(3))


def log_probs(model: Any, given: Batch) -> torch.Tensor:
    """log p of each next word after the target's own words, at real positions."""
    output, _ = model.extend(shifted(given.target), model.start(given.source))
    log_p: torch.Tensor = model.readout(output).log_softmax(-1)[given.target.mask]
    return log_p


@pytest.fixture
def student() -> Any:
    model = build(FAMILIES[LUONG], seed=1)
    model.training = True  # only this flag: the parts have no dropout
    return model


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("teachers", [[TRANSFORMER], [TRANSFORMER, LUONG]])
def test_it_is_its_definition(teachers: list[str], share: float, student: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = batch()
    models = [build(FAMILIES[name]) for name in teachers]
    loss, _ = Distilled(CrossEntropy(), ComputedDistributions(Ensemble(models)), share)(student, given)
    log_p = log_probs(student, given)
    q = torch.stack([log_probs(model, given).exp() for model in models]).mean(0).detach()
    nll = -log_p.gather(1, given.target.values[given.target.mask][:, None]).sum()
    learned = -(q * log_p).sum()
    assert_close(loss.total, (1 - share) * nll + share * learned)
    assert_close(loss.parts, {"nll": nll.detach(), "teacher": learned.detach()})
    assert loss.count == 11
    parameters = list(student.parameters())
    expected = torch.autograd.grad((1 - share) * nll + share * learned, parameters)
    assert_close(torch.autograd.grad(loss.total, parameters), expected)
    monkeypatch.setattr(readout, "CHUNK", 30)  # readout in parts
    by_parts, _ = Distilled(CrossEntropy(), ComputedDistributions(Ensemble(models)), share)(student, given)
    assert_close(torch.autograd.grad(by_parts.total, parameters), expected)
    assert all(parameter.grad is None for model in models for parameter in model.parameters())


def test_who_is_as_good_as_the_teacher_learns_nothing(student: Any) -> None:
    teacher = build(FAMILIES[LUONG])
    teacher.load_state_dict(student.state_dict())
    loss, _ = Distilled(CrossEntropy(), ComputedDistributions(teacher), 1.0)(student, batch())
    for gradient in torch.autograd.grad(loss.total, list(student.parameters())):
        assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


def test_validation_is_that_of_the_objective(student: Any) -> None:
    student.eval()
    ours, _ = Distilled(CrossEntropy(smoothing=0.1), ComputedDistributions(build(FAMILIES[TRANSFORMER])), 0.5)(
        student, batch()
    )
    plain, _ = CrossEntropy(smoothing=0.1)(student, batch())
    assert_close((ours.total, ours.parts), (plain.total, plain.parts))


def test_the_teacher_reads_what_the_student_reads(student: Any) -> None:
    """Word dropout replaces every word after BOS by <unk>, and the teacher reads the same words."""

    class Listening:
        def start(self, source: Padded) -> Any:
            return teacher.start(source)

        def extend(self, tokens_BT: torch.Tensor, state: Any) -> Any:
            read.append(tokens_BT)
            return teacher.extend(tokens_BT, state)

        def readout(self, output: Any) -> torch.Tensor:
            logits: torch.Tensor = teacher.readout(output)
            return logits

    read: list[torch.Tensor] = []
    teacher = build(FAMILIES[TRANSFORMER])
    Distilled(CrossEntropy(forcing=WordDropout(share=1.0)), ComputedDistributions(Listening()), 0.5)(student, batch())
    (tokens_BT,) = read
    assert tokens_BT[:, 0].tolist() == [BOS] * 3
    assert set(tokens_BT[:, 1:][batch().target.mask[:, 1:]].tolist()) == {UNK}


def test_what_both_rule_out_is_no_loss() -> None:
    class Fixed(torch.nn.Module):
        """A model that never writes the last word. Its features are its logits."""

        def start(self, source: Padded) -> Padded:
            return source

        def extend(self, tokens_BT: torch.Tensor, state: Any) -> Any:
            logits = torch.zeros(*tokens_BT.shape, 12, dtype=torch.float64)
            logits[..., -1] = -torch.inf
            return logits.requires_grad_(), state

        def readout(self, output: torch.Tensor) -> torch.Tensor:
            return output

    loss, _ = Distilled(CrossEntropy(), ComputedDistributions(Fixed()), 1.0)(Fixed(), batch())
    assert_close(loss.total, 11 * torch.tensor(11.0, dtype=torch.float64).log())


# ------------------------------------------------------------- asked only once


class Counting:
    """A teacher that counts the sentences that it reads."""

    def __init__(self, model: Any) -> None:
        self.model, self.asked = model, 0

    def start(self, source: Padded) -> Any:
        self.asked += len(source.lengths)
        return self.model.start(source)

    def extend(self, tokens_BT: torch.Tensor, state: Any) -> Any:
        return self.model.extend(tokens_BT, state)

    def readout(self, output: Any) -> torch.Tensor:
        logits: torch.Tensor = self.model.readout(output)
        return logits


def pairs() -> Pairs:
    """Ten pairs. The pairs of ``batch`` are rows 2, 7 and 4."""

    def ragged(rows: list[list[int]]) -> Ragged:
        offsets = np.cumsum([0, *map(len, rows)])
        return Ragged(np.array([token for row in rows for token in row], np.uint16), offsets)

    random, given = np.random.default_rng(1), batch()
    sides = [[[*random.integers(4, 9, random.integers(1, 9)).tolist(), EOS] for _ in range(10)] for _ in range(2)]
    for row, place in enumerate((2, 7, 4)):
        for side, padded in zip(sides, (given.source, given.target), strict=True):
            side[place] = padded.values[row, : padded.lengths[row]].tolist()
    return Pairs(ragged(sides[0]), ragged(sides[1]))


@pytest.mark.parametrize("questions", [1, 30, 2**14])
def test_asked_once_it_says_what_it_says_always(questions: int, student: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored distributions equal computed ones up to half precision, for any batch size. The teacher reads each
    sentence once.
    """
    monkeypatch.setattr(distillation, "TEACHER_TOKENS", questions)
    monkeypatch.setattr(readout, "CHUNK", 100)
    teacher = Counting(build(FAMILIES[TRANSFORMER]))
    once = Distilled(CrossEntropy(), StoredDistributions(teacher, pairs(), 11, torch.device("cpu")), 0.5)
    given = pairs().batch(np.array([2, 7, 4]))
    assert_close(given.target.values, batch().target.values)
    for _ in range(2):
        ours, _ = once(student, given)
    assert teacher.asked == 10
    always, _ = Distilled(CrossEntropy(), ComputedDistributions(teacher), 0.5)(student, given)
    assert_close(ours.parts["teacher"], always.parts["teacher"], rtol=1e-3, atol=0, check_dtype=False)
    assert_close(ours.parts["nll"], always.parts["nll"])


@pytest.mark.parametrize(
    ("objective", "settings", "once"),
    [
        (CrossEntropy(), {}, True),
        (CrossEntropy(), {"room": 0.0}, False),
        (CrossEntropy(), {"room": 1e-9}, False),
        (CrossEntropy(forcing=WordDropout()), {}, False),
    ],
)
def test_it_is_asked_once_where_epochs_are_alike_and_memory_allows(
    objective: CrossEntropy, settings: dict[str, float], once: bool, trained: Path
) -> None:
    teacher = distillation.Teacher(Distillation(trained, **settings), torch.device("cpu"))
    answers = teacher.taught(objective, pairs(), Training(steps=1)).teacher
    assert isinstance(answers, StoredDistributions if once else ComputedDistributions)
    (line,) = teacher.lines(objective, pairs(), Training(steps=1))
    assert ("computed once, before the first update" in line, "computed with every batch" in line) == (once, not once)


# ------------------------------------------------------------------ whole runs


def train(run: Path, settings: dict[str, Any], *callbacks: Callback, **options: Any) -> transduce.Transducer:
    return api.train("reverse", run, settings, callbacks=callbacks, device="cpu", progress=False, **options)


def test_a_run_learns_from_two_and_says_so(tiny: dict[str, Any], trained: Path, sister: Path, tmp_path: Path) -> None:
    report = Report()
    teachers = f"{trained}+{sister}"
    student = train(tmp_path / "run", tiny | {"distillation.share": 0.25}, report, teacher=teachers)
    count = sum(p.numel() for run in (trained, sister) for p in transduce.load(run, device="cpu").model.parameters())
    about = f"{count:,} parameters, a share of 0.25, computed once, before the first update"
    assert report.started.report[-1] == f"learns from {teachers}, {about}"
    table = config.read(tmp_path / "run" / "config.toml")
    assert table["distillation"] == {
        "teacher": teachers,
        "checkpoint": "best",
        "share": 0.25,
        "room": 1.0,
    }
    plain = transduce.load(trained, device="cpu").model
    assert student.model.state_dict().keys() == plain.state_dict().keys(), "the teacher is no part of it"


@pytest.mark.slow
def test_it_comes_closer_to_its_teacher(tiny: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    """A student that learns only from its teacher is nearer to it than a student without a teacher."""
    long = tiny | {"training.steps": 60, "model.encoder.dropout": 0.0, "model.decoder.dropout": 0.0}
    settings = long | {"training.seed": 3, "distillation.share": 1.0}
    pairs = [("abc", "cba"), ("cd", "dc"), ("e", "e")]
    teacher = transduce.load(trained, device="cpu")

    def distance(run: Path) -> float:
        student = transduce.load(run, "last", device="cpu")
        both = zip(teacher.score(pairs), student.score(pairs), strict=True)
        return sum(abs(one.log_prob - other.log_prob) for one, other in both)

    train(tmp_path / "plain", long | {"training.seed": 3})
    train(tmp_path / "taught", settings, teacher=trained)
    assert distance(tmp_path / "taught") < distance(tmp_path / "plain") / 2


@pytest.mark.parametrize("room", [1.0, 0.0])
def test_a_killed_run_goes_on_learning_from_its_teacher(
    room: float, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    settings = tiny | {"distillation.room": room}
    train(tmp_path / "whole", settings, teacher=trained)
    with pytest.raises(KilledError):
        train(tmp_path / "killed", settings, At(3, kill), teacher=trained)
    train(tmp_path / "killed", {}, resume=True)
    same_bytes(tmp_path / "killed", tmp_path / "whole")


def test_it_has_its_teachers_vocabularies_whatever_its_data(
    tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    """The student's own data would give it other letters in another order."""
    (tmp_path / "more.tsv").write_text("jih\thij\nab\tba\n" * 20, encoding="utf-8")
    settings = tiny | {"data.train.path": str(tmp_path / "more.tsv")}
    with pytest.raises(KilledError):
        train(tmp_path / "run", settings, At(3, kill), teacher=trained)
    student = train(tmp_path / "run", {}, resume=True)
    teacher = transduce.load(trained, device="cpu")
    assert student.target_tokenizer.fingerprint == teacher.target_tokenizer.fingerprint
    assert student.source_tokenizer.fingerprint == teacher.source_tokenizer.fingerprint


def test_from_the_command_line(call: Any, trained: Path, tmp_path: Path) -> None:
    settings = trained / "config.toml"
    status, _, err = call("train", settings, "--out", tmp_path / "run", "--teacher", trained, "--device", "cpu")
    assert status == 0, err
    assert f"learns from {trained}" in err


# ------------------------------------------------------- what cannot be taught


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distillation.teacher": "nowhere"}, "nowhere is no run directory.*transduce train"),
        ({"distillation.share": 0}, r"distillation: share = 0.0: more than 0 and at most 1"),
        ({"distillation.share": 1.5}, r"share = 1\.5: more than 0 and at most 1"),
        ({"distillation.room": -1}, r"room = -1.0: 0 GiB"),
        (
            {"data.units": {"joint": "words"}},
            "another source and another target .*use its data.units.*--init",
        ),
    ],
)
def test_mistakes_leave_no_run(
    settings: dict[str, Any], message: str, tiny: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        train(tmp_path / "run", tiny | {"distillation.teacher": str(trained)} | settings)
    assert not (tmp_path / "run" / "config.toml").exists()


def test_a_teacher_has_a_distribution_over_each_next_word(monkeypatch: pytest.MonkeyPatch) -> None:
    instant = SimpleNamespace(model=build(next(iter(PARALLEL.values()))))
    monkeypatch.setattr(distillation, "load", lambda *_: instant)
    teacher: Any = distillation.Teacher(Distillation(Path("runs/instant")), torch.device("cpu"))
    with pytest.raises(ValueError, match=r"runs/instant cannot extend.*`transduce predict`"):
        teacher.check(None)


def test_a_teacher_is_not_overwritten_by_its_pupil(tiny: dict[str, Any], own_run: Path) -> None:
    with pytest.raises(ValueError, match=r"distillation\.teacher is .*, which overwrite would delete"):
        train(own_run, tiny, overwrite=True, teacher=own_run)
    assert (own_run / "checkpoints" / "best").exists()
