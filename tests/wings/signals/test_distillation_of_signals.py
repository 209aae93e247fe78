"""What the wing signals adds to test_distillation.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_distillation import pairs

from transduce import api
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.training import distillation
from transduce.training.distillation import ComputedDistributions
from transduce.training.settings import Distillation, Training
from transduce.wings.signals.augmentation.masks import SpecAugment


def test_changed_signals_are_asked_about_always(trained: Path) -> None:
    teacher = distillation.Teacher(Distillation(trained), torch.device("cpu"))
    changing = Training(steps=1, augmentation=(SpecAugment(),))
    assert isinstance(teacher.taught(CrossEntropy(), pairs(), changing).teacher, ComputedDistributions)


def test_who_writes_all_at_once_has_no_teacher(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"objective cross-entropy, not ParallelCrossEntropy"):
        api.train("multi30k-de-en-instant", tmp_path / "run", teacher=trained, device="cpu", progress=False)
    assert not (tmp_path / "run").exists()
