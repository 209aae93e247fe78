"""Exercises with tests: ``check(1, answer)`` says whether an answer is right, and helps with a typical wrong one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from book import chapter

TOLERANCE = 2e-3  # relative: answers with three digits are right


def _itself(answer: Any) -> Any:
    return answer


@dataclass(frozen=True)
class Exercise:
    """An exercise. ``right`` is an example of a right answer, ``wrong`` are typical wrong ones with the message that
    helps, and ``hint`` is for all others. ``measure`` turns an answer into the value that is compared, such as the
    outputs of a function that the reader writes.
    """

    right: Any
    wrong: Sequence[tuple[Any, str]]
    hint: str
    measure: Callable[[Any], Any] = _itself


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and what to tell the reader."""

    right: bool
    message: str

    def __repr__(self) -> str:
        return self.message


def check(number: int, answer: Any, of: str | None = None) -> Verdict:
    """The verdict on an answer to exercise ``number`` of the chapter ``of``, by default of the chapter that runs.

    In a build of the site, a wrong answer raises AssertionError, because it is a solution of ours.
    """
    if answer is ...:
        return Verdict(False, f"Exercise {number}: write your answer in place of the three dots.")
    verdict = judge(exercises(of or chapter.name)[number - 1], answer)
    if chapter.is_build() and of is None:
        assert verdict.right, f"our solution of exercise {number} is wrong: {verdict.message}"
    return verdict


def exercises(name: str) -> Sequence[Exercise]:
    """The three exercises of a chapter, such as "15-edit-distance"."""
    found: Sequence[Exercise] = import_module(f"book.exercises.{name[3:].replace('-', '_')}").EXERCISES
    return found


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer."""
    try:
        value = exercise.measure(answer)
    except Exception as error:  # of a function that the reader wrote
        return Verdict(False, f"Your answer raised {type(error).__name__}: {error}. {exercise.hint}")
    if same(value, exercise.measure(exercise.right)):
        return Verdict(True, "Right.")
    for example, message in exercise.wrong:
        if same(value, exercise.measure(example)):
            return Verdict(False, f"Not yet. {message}")
    return Verdict(False, f"Not yet. {exercise.hint}")


def same(one: Any, other: Any) -> bool:
    """True if two values are equal, up to ``TOLERANCE`` for numbers. Arrays and tensors are compared as lists."""
    one, other = (each.tolist() if hasattr(each, "tolist") else each for each in (one, other))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (str, bool, set)) or isinstance(other, (str, bool, set)):
        return type(one) is type(other) and bool(one == other)
    if not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
        return one is other
    return bool(one == other) or abs(one - other) <= TOLERANCE * max(abs(one), abs(other))
