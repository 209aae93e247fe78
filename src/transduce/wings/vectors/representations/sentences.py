"""The vectors of sentences, from the encoder of a trained run. B rows, D features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from transduce.answers.batches import sorted_batches, windows
from transduce.answers.shares import telling
from transduce.answers.transducer import Transducer
from transduce.core import tree
from transduce.core.errors import RequestError, UserError
from transduce.core.protocols import ComparesSentences, Model, Several, can
from transduce.core.registry import model_name
from transduce.core.types import Memory, Padded
from transduce.data.tokenizers.base import cut
from transduce.layers.modules.pooling import pool
from transduce.wings.labels.pairs import PairTokenizer
from transduce.wings.vectors.table import Floats

Pooling = Literal["own", "mean", "max", "summary"]
POOLINGS = ("own", "mean", "max", "summary")


def sentence_vectors(
    transducer: Transducer, texts: Iterable[str], pooling: Pooling = "own", batch_size: int = 64
) -> Iterator[Floats]:
    """Yields the vector [D] of each text, in order, as float32.

    "mean" and "max" reduce the states of the run's encoder over the real positions, EOS among them. "summary" is what a
    decoder starts from: the last states of a recurrent encoder (of an LSTM, h and c of each layer and direction), the
    mean of a Transformer's states. "own" is the model's own way: the pooling of a siamese encoder or of a classifier,
    otherwise the mean. A text longer than the run's limit is cut. A run of pairs reads each text as one sentence.

    Raises RequestError if the run has no encoder or several, reads numbers or signals, or reads pairs and ``pooling``
    is not "own". Raises UserError for an unknown ``pooling``.
    """
    if pooling not in POOLINGS:
        raise UserError(f"pooling = {pooling!r}: expected one of {', '.join(POOLINGS)}")
    encode = _encode(transducer, pooling)
    tokenizer = transducer.source_tokenizer
    tokenizer = tokenizer.sentence if isinstance(tokenizer, PairTokenizer) else tokenizer
    limit = transducer.max_source_length
    with telling() as shares:
        for window in windows(texts, transducer.window_size(batch_size)):
            rows = [cut(row, limit, tokenizer) for row in tokenizer.encode(window)]
            for row, text in zip(rows, window, strict=True):
                shares.input.read(tokenizer, row, text)
            yield from sorted_batches([(len(row), row) for row in rows], batch_size, encode)


def _encode(transducer: Transducer, pooling: Pooling) -> Callable[[Iterable[list[Sized]]], Iterator[Floats]]:
    """Returns a function that maps batches of rows of ids to their vectors, [B, D] for each batch."""
    vectors_of = vectors_by(transducer, pooling)

    def encode(batches: Iterable[list[Sized]]) -> Iterator[Floats]:
        for rows in batches:
            with transducer.computing(), torch.inference_mode():
                yield vectors_of(transducer.padded(rows)).float().cpu().numpy()

    return encode


def vectors_by(transducer: Transducer, pooling: Pooling) -> Callable[[Padded], Tensor]:
    """The function that maps a batch of sentences to vectors [B, D]. Raises RequestError as ``sentence_vectors``."""
    model = with_encoder(transducer.model)
    name = f"this {model_name(type(model))} model"
    encoder = model.encoder
    if transducer.source_tokenizer.numeric:
        raise RequestError(f"{name} reads numbers or signals, and embed reads text: give a run with a text source")
    if can(type(encoder), ComparesSentences):
        if pooling != "own":
            raise RequestError(f"--pooling {pooling}: a siamese encoder has a pooling of its own: leave the option out")
        found: Callable[[Padded], Tensor] = encoder.sentences
        return found
    poolers: dict[str, Callable[[Memory], Tensor]] = {
        "mean": lambda memory: pool(Padded(memory.read_BSD, memory.states.lengths), "mean"),
        "max": lambda memory: pool(Padded(memory.read_BSD, memory.states.lengths), "max"),
        "summary": lambda memory: torch.cat(list(tree.leaves(memory.summary)), -1),
    }
    pooler = poolers[pooling] if pooling in poolers else getattr(model, "pooling", poolers["mean"])
    return lambda source: pooler(encoder(source))


def members_with(model: Any, part: str) -> list[Any]:
    """The members of a model that have an "encoder" or a "decoder", such as the network beside counts; of a model
    without members, itself.
    """
    members = model.members() if can(type(model), Several) else [model]
    return [member for member in members if getattr(member, part, None) is not None]


def with_encoder(model: Model) -> Any:
    """The only one of ``members_with`` an encoder. Raises RequestError if there is none, or if there are several."""
    found = members_with(model, "encoder")
    if len(found) != 1:
        number = "several encoders" if found else "no encoder"
        raise RequestError(
            f"this {model_name(type(model))} model has {number}, and a sentence's vector comes from one: give a run "
            "with one encoder"
        )
    return found[0]


def own_pooling(transducer: Transducer) -> bool:
    """True if the model reduces sentences to vectors itself: a siamese encoder, or a classifier's pooling. Raises
    RequestError as ``with_encoder``.
    """
    model = with_encoder(transducer.model)
    return can(type(model.encoder), ComparesSentences) or hasattr(model, "pooling")


def stacked(vectors: Iterable[Floats]) -> Floats:
    """All vectors as one matrix [N, D]. Raises UserError if there are none."""
    rows: Sequence[Floats] = list(vectors)
    if not rows:
        raise UserError("there are no sentences to embed: give a text of at least one line")
    return np.stack(rows)
