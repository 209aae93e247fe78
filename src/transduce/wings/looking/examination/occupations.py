"""The gender that a translation gives to people whose English sentence has none (Stanovsky et al., ACL 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.core.errors import UserError
from transduce.wings.looking.examination.findings import Case, Finding, found
from transduce.wings.looking.examination.said import Said

SENTENCE = "The {} is working outside."
# fmt: off
OCCUPATIONS = (
    "accountant", "actor", "baker", "barber", "builder", "butcher", "carpenter", "cashier", "chef", "cleaner",
    "cook", "dancer", "dentist", "designer", "doctor", "driver", "editor", "engineer", "farmer", "guard",
    "hairdresser", "judge", "lawyer", "librarian", "mechanic", "nurse", "painter", "pharmacist", "pilot", "plumber",
    "programmer", "receptionist", "scientist", "secretary", "singer", "student", "tailor", "teacher", "waiter",
    "writer",
)
# fmt: on
MARKS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "de": (frozenset({"der", "ein"}), frozenset({"die", "eine"})),
    "fr": (frozenset({"le", "un"}), frozenset({"la", "une"})),
    "es": (frozenset({"el", "un"}), frozenset({"la", "una"})),
    "it": (frozenset({"il", "lo", "un", "uno"}), frozenset({"la", "una"})),
}
"""For each target language, the articles that mark a man and those that mark a woman, in the nominative singular."""


def sentences(occupations: Sequence[str]) -> list[str]:
    """An English sentence for each occupation. It does not say whether the person is a man or a woman."""
    return [SENTENCE.format(occupation) for occupation in occupations]


def check_language(language: str) -> None:
    """Raises UserError for a language without marks here."""
    if language not in MARKS:
        raise UserError(f"gender {language!r}: expected {', '.join(MARKS)}, where the article marks it")


def gender(said: Sequence[Said], language: str) -> list[Finding]:
    """Two findings for the translations of ``sentences``: as a man, and as a woman, by the first word of the output.

    An output that begins with another word, such as the French "l'", counts in ``of`` but is no case.
    """
    made = []
    for name, marks in zip(("man", "woman"), MARKS[language], strict=True):
        judged = [(Case(each.number, each.source, each.text), _first(each.text) in marks) for each in said]
        made.append(found(f"as a {name}", f"an occupation translated as of a {name}", judged))
    return made


def _first(text: str) -> str:
    return next(iter(text.lower().split()), "")
