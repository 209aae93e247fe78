"""The data of a run that keeps the vocabulary of another run, and targets that this vocabulary cannot write."""

from __future__ import annotations

from pathlib import Path

from transduce.core.errors import DataError, UserError
from transduce.data.preparation import Prepared, Tokenizers, prepare
from transduce.data.settings import Data
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.unknown import Unknown

TOLD = 0.01  # share of the training targets with an unknown token, up to which a vocabulary that cannot grow is kept


def prepare_writable(data: Data, cache: Path, kept: Tokenizers, run: Path | str) -> tuple[Prepared, Unknown]:
    """The data encoded with the vocabularies ``kept`` of ``run``. If training targets have tokens that these lack, they
    are extended, and the second result counts these tokens; otherwise it is empty.

    A token counts if a vocabulary learned from the new data would have it: not one that is rarer than its unit's
    ``minimum_count``. A vocabulary of pieces would also get pieces of known letters, so it stays if at most ``TOLD`` of
    the targets have such a token. If more have one, and the vocabulary cannot grow, it raises UserError.
    """
    prepared = prepare(data, cache, kept)
    unknown = unknown_targets(prepared)
    if not unknown:
        return prepared, Unknown()
    own = prepare(data, cache)
    if unknown_targets(own).count >= unknown.count:
        return prepared, Unknown()
    try:
        target = kept.target.extended(own.tokenizers.target)
    except DataError as error:
        if unknown.affected > TOLD * unknown.lines:
            way_out = 'Set init.vocabulary = "own" to learn a vocabulary'
            raise UserError(_refusal(unknown, run, str(error), way_out)) from error
        return prepared, Unknown()
    if unknown.affected <= TOLD * unknown.lines and len(target) - len(kept.target) > unknown.count:
        return prepared, Unknown()
    if data.units.joint is not None:
        return prepare(data, cache, Tokenizers.shared(target, data.units)), unknown
    return prepare(data, cache, Tokenizers(_extended(kept.source, own.tokenizers.source), target)), unknown


def check_writable(prepared: Prepared, teacher: Path | str) -> None:
    """Raises UserError if more than ``TOLD`` of the training targets have a token that the vocabularies of a
    ``teacher``, which its student must have, do not have.
    """
    unknown = unknown_targets(prepared)
    if unknown.affected > TOLD * unknown.lines:
        raise UserError(_refusal(unknown, teacher, "teacher and student must have one vocabulary", "Train the teacher"))


def unknown_targets(prepared: Prepared) -> Unknown:
    """The unknown tokens of the training targets."""
    return prepared.report.splits["train"].unknown["target"]


def _extended(kept: Tokenizer, own: Tokenizer) -> Tokenizer:
    """The source's vocabulary with the new tokens, or unchanged if it cannot grow: the model need not write them."""
    try:
        return kept.extended(own)
    except DataError:
        return kept


def _refusal(unknown: Unknown, run: Path | str, reason: str, way_out: str) -> str:
    return (
        f"targets of data.train: {unknown}; the vocabulary comes from {run}, so these could never be written "
        f"({reason}). {way_out} on such targets, write them in the tokens of that run, or leave these pairs out"
    )
