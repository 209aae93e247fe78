"""What the wing signals adds to test_distillation.py."""

from __future__ import annotations

from pathlib import Path

import torch
from test_distillation import pairs

from transduce.objectives.cross_entropy import CrossEntropy
from transduce.training import distillation
from transduce.training.distillation import ComputedDistributions
from transduce.training.settings import Distillation, Training
from transduce.wings.signals.augmentation.masks import SpecAugment


def test_changed_signals_are_asked_about_always(trained: Path) -> None:
    teacher = distillation.Teacher(Distillation(trained), torch.device("cpu"))
    changing = Training(steps=1, augmentation=(SpecAugment(),))
    assert isinstance(teacher.taught(CrossEntropy(), pairs(), changing).teacher, ComputedDistributions)
