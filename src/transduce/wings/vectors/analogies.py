"""Analogies: a is to b as c is to which word? Q questions, V words, D features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import UserError
from transduce.data import corpora
from transduce.wings.vectors.correlation import Estimate, share
from transduce.wings.vectors.table import Floats, Vectors

Method = Literal["add", "mul"]
AT_ONCE = 256  # questions at a time, because their cosines with all words are in memory
TINY = 1e-6  # keeps 3CosMul from dividing by 0, as in gensim
TOTAL = "total"
METHODS: tuple[Method, ...] = ("add", "mul")


class Question(NamedTuple):
    """a : b = c : d. The words a, b and c are given, and d is the right answer."""

    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True)
class SectionResult:
    """The counts of a section: all ``questions``, the questions whose four words have vectors (``covered``), and the
    covered questions with a ``right`` answer.
    """

    name: str
    questions: int
    covered: int
    right: int

    @property
    def accuracy(self) -> Estimate:
        """The share of right answers among the covered questions, with Wilson's 95 % interval."""
        return share(self.right, self.covered)


def read_questions(path: str | Path) -> dict[str, list[Question]]:
    """The questions of a file, by section, in the format of word2vec's questions-words.txt. The line ": name" begins a
    section, and any other line has four words. Raises UserError, with the line, for another form, and for a file
    without questions.
    """
    sections: dict[str, list[Question]] = {}
    current: list[Question] | None = None
    for number, line in enumerate(corpora.text_lines(Path(path)), 1):
        if line.startswith(":"):
            current = sections.setdefault(line[1:].strip(), [])
            continue
        if not line.strip():
            continue
        words = line.split()
        if current is None or len(words) != 4:
            wanted = "a section (: name) before the first question" if current is None else "four words"
            raise UserError(f"{path}:{number}: {line[:60]!r}: {wanted} expected")
        current.append(Question(*words))
    if not any(sections.values()):
        raise UserError(f"{path} has no questions: four words on each line were expected, after a section (: name)")
    return sections


def analogies(
    vectors: Vectors,
    sections: Mapping[str, Sequence[Question]],
    method: Method = "add",
    ignore_case: bool = True,
) -> list[SectionResult]:
    """The accuracy of each section, and of all questions together in a last section "total".

    The answer is the word x, other than a, b and c, with the highest score. Let cos be the cosine of unit vectors. The
    score of "add" is cos(x, b) - cos(x, a) + cos(x, c) (3CosAdd, Mikolov et al. 2013). The score of "mul" is
    cos'(x, b) cos'(x, c) / (cos'(x, a) + 1e-6) with cos' = (1 + cos) / 2 (3CosMul, Levy and Goldberg 2014). A question
    with a word that has no vector is not covered. The accuracies of "add" equal gensim's ``evaluate_word_analogies``.
    """
    found = []
    for name, questions in sections.items():
        rows = [[vectors.place(word, ignore_case) for word in question] for question in questions]
        covered = np.array([row for row in rows if None not in row], dtype=np.int64).reshape(-1, 4)
        right = answered(vectors, covered, method, ignore_case) == covered[:, 3]
        found.append(SectionResult(name, len(questions), len(covered), int(right.sum())))
    totals = [sum(getattr(each, part) for each in found) for part in ("questions", "covered", "right")]
    return [*found, SectionResult(TOTAL, *totals)]


def answered(vectors: Vectors, rows_Q4: NDArray[np.int64], method: Method, ignore_case: bool) -> NDArray[np.int64]:
    """The row of the answer to each question [Q]. ``rows_Q4`` has the rows of its words; only the first three are read.

    If ``ignore_case`` is True, a word that differs from a given word only in case is no answer. If several words differ
    only in case, only the first of them can be the answer.
    """
    first_V = np.arange(len(vectors))
    if ignore_case:
        first_V = np.array([vectors.folded[word.upper()] for word in vectors.words], dtype=np.int64)
    score = SCORES[method]
    found = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(rows_Q4), AT_ONCE):
        given_Q3 = rows_Q4[start : start + AT_ONCE, :3]
        score_QV = score(vectors.unit_VD, given_Q3)
        for place in range(3):
            score_QV[first_V[None] == first_V[given_Q3[:, place], None]] = -np.inf
        found.append(first_V[score_QV.argmax(1)])
    return np.concatenate(found)


def _add(unit_VD: Floats, given_Q3: NDArray[np.int64]) -> Floats:
    a_QD, b_QD, c_QD = (unit_VD[given_Q3[:, place]] for place in range(3))
    score_QV: Floats = (b_QD - a_QD + c_QD) @ unit_VD.T
    return score_QV


def _mul(unit_VD: Floats, given_Q3: NDArray[np.int64]) -> Floats:
    a_QV, b_QV, c_QV = ((1 + unit_VD[given_Q3[:, place]] @ unit_VD.T) / 2 for place in range(3))
    return b_QV * c_QV / (a_QV + TINY)


SCORES: dict[Method, Callable[[Floats, NDArray[np.int64]], Floats]] = {"add": _add, "mul": _mul}
