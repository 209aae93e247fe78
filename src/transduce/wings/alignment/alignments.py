"""The alignments of pairs of given texts: by the posteriors of a word aligner, or by attention.

T target tokens, S source tokens, I = 1 + S: first the null word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

import torch

from transduce.answers.batches import sorted_batches
from transduce.answers.text_model import TextModel
from transduce.core.errors import UserError
from transduce.core.protocols import Aligner, TwoWayAligner, can
from transduce.core.registry import model_name
from transduce.core.types import Padded
from transduce.data.tokenizers.base import Tokenizer, encoded
from transduce.wings.alignment.attention_weights import AttentionChoice, attention_weights, check_attends
from transduce.wings.alignment.sides import Side, parts_of_words, read_side
from transduce.wings.alignment.token_alignment import TokenAlignment

EVERY = AttentionChoice()


def pair_alignments(
    model: TextModel,
    pairs: Sequence[tuple[str, str]],
    choice: AttentionChoice = EVERY,
    turned: bool = False,
    batch_size: int = 64,
) -> list[TokenAlignment]:
    """For each pair of a source and a target text, in order, its alignment.

    ``turned`` aligns source words to target words: then the alignment's source is the pair's target. Raises UserError
    if the model cannot align (see ``check_alignable``), if it has no such attention, or if ``turned`` is asked of
    attention.
    """
    return [found for (found,) in align_encoded(model, encode_pairs(model, pairs), [choice], batch_size, turned)]


def alignments_by_head(
    model: TextModel, pairs: Sequence[tuple[str, str]], batch_size: int = 64
) -> dict[AttentionChoice, list[TokenAlignment]]:
    """The alignments of all pairs, in order, by each choice of attention to the source (``AttentionWeights.choices``):
    the mean of all attentions, and for each attention the mean of its heads and each head; each before and after the
    token is read.

    Raises UserError if there are no pairs, or if the model has no attention to its source.
    """
    check_alignable(model)
    check_attends(model.model)
    if not pairs:
        raise UserError("no pairs to align: give at least one source and its target")
    encoded = encode_pairs(model, pairs)
    choices = attention_weights(model, [encoded[0].source_ids], [encoded[0].target_ids]).choices
    found = align_encoded(model, encoded, choices, batch_size)
    return dict(zip(choices, map(list, zip(*found, strict=True)), strict=True))


def check_alignable(model: TextModel) -> None:
    """Raises UserError if the source is a signal. Also raises it if the model is no word aligner and does not write
    token by token. A model that passes may still lack attention to its source.
    """
    check_text(model.source_tokenizer)
    if not can(type(model.model), Aligner):
        check_attends(model.model)


def check_text(source: Tokenizer) -> None:
    """Raises UserError if the source is a signal."""
    if source.signal:
        raise UserError("alignments are between words, and a signal has none")


class EncodedPair(NamedTuple):
    """A pair: the source's text, its ids, the target's ids, and the target as a Side."""

    source: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    target: Side


def encode_pairs(model: TextModel, pairs: Sequence[tuple[str, str]], told: bool = True) -> list[EncodedPair]:
    """The pairs as ids, in order. If ``told``, logs a warning for a source that is cut, and for unknown tokens. Raises
    UserError if the model cannot align.
    """
    check_alignable(model)
    ones, others = [source for source, _ in pairs], [target for _, target in pairs]
    if told:
        sources, rows = model.read_told(ones, "source"), model.read_targets(others, what="targets")
    else:
        sources = [source.row for source in model.read(ones)]
        rows = encoded(model.target_tokenizer, others, [""] * len(others))
    tokenizer, parts = model.target_tokenizer, parts_of_words(model.target_tokenizer)
    return [
        EncodedPair(source, row, ids, read_side(tokenizer, target, range(len(ids)), len(ids), parts))
        for (source, target), row, ids in zip(pairs, sources, rows, strict=True)
    ]


def align_encoded(
    model: TextModel,
    pairs: Sequence[EncodedPair],
    choices: Sequence[AttentionChoice],
    batch_size: int,
    turned: bool = False,
) -> list[list[TokenAlignment]]:
    """For each pair, its alignments by ``choices``, in their order. A word aligner has one choice, ``EVERY``. Raises
    UserError for other choices of a word aligner, and for ``turned`` attention.
    """
    if can(type(model.model), Aligner):
        if [*choices] != [EVERY]:
            raise UserError(
                f"this {model_name(type(model.model))} model is a word aligner and has no attention: leave out the "
                "attention, the head, and whether the word is read"
            )
        batch = partial(_by_posterior, model, turned)
    elif turned:
        raise UserError(
            f"attention of this {model_name(type(model.model))} model aligns target words to source words only; for "
            "the other direction, give a run that was trained in that direction, or a word aligner"
        )
    else:
        batch = partial(_by_attention, model, choices)
    rows = [(max(len(pair.source_ids), len(pair.target_ids)), pair) for pair in pairs]
    return sorted_batches(rows, batch_size, partial(map, batch))


def _by_attention(
    model: TextModel, choices: Sequence[AttentionChoice], pairs: Sequence[EncodedPair]
) -> list[list[TokenAlignment]]:
    found = attention_weights(model, [pair.source_ids for pair in pairs], [pair.target_ids for pair in pairs])
    parts = parts_of_words(model.source_tokenizer)
    every = [found.chosen(choice).cpu() for choice in choices]
    sides = [
        read_side(model.source_tokenizer, pair.source, [first for first, _ in columns], len(pair.source_ids), parts)
        for pair, columns in zip(pairs, found.columns, strict=True)
    ]
    return [
        [
            TokenAlignment(weights_BTS[row, : len(pair.target_ids), : len(side.words)], side, pair.target)
            for weights_BTS in every
        ]
        for row, (pair, side) in enumerate(zip(pairs, sides, strict=True))
    ]


@torch.inference_mode()
def _by_posterior(model: TextModel, turned: bool, pairs: Sequence[EncodedPair]) -> list[list[TokenAlignment]]:
    parts = parts_of_words(model.source_tokenizer)
    rows = [pair.source_ids for pair in pairs], [pair.target_ids for pair in pairs]
    ids = [Padded.of(side, torch.long).to(model.device) for side in rows]
    aligner = cast(TwoWayAligner, model.model).reverse() if turned else cast(Aligner, model.model)
    posterior_BTI = aligner.align(*(ids[::-1] if turned else ids)).float().cpu()
    found = []
    for pair, posterior_TI in zip(pairs, posterior_BTI, strict=True):
        size = len(pair.source_ids)
        sides = [read_side(model.source_tokenizer, pair.source, range(size), size, parts), pair.target]
        source, target = reversed(sides) if turned else sides
        T, S = len(target.words), len(source.words)
        found.append([TokenAlignment(posterior_TI[:T, 1 : 1 + S], source, target, posterior_TI[:T, 0])])
    return found
