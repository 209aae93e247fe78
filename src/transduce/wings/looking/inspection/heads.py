"""The roles of a Transformer's heads over a corpus: where they look, and how well that fits simple rules
(Voita et al., "Analyzing multi-head self-attention", ACL 2019).

B sentences, H heads, T queries, S keys.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from transduce.answers.batches import windows
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, can
from transduce.core.registry import model_name
from transduce.core.types import Padded
from transduce.search.forcing import shifted
from transduce.wings.alignment.attention_weights import recorded

Kind = Literal["source", "output", "across"]  # self-attention of the encoder, of the decoder, attention to the source

POSITIONAL = 0.8  # share of queries of a positional head that look most at one relative position
DIAGONAL = 0.8  # share of queries that look most at the same part of the sentence, one token more or less
RARE = 0.5  # share of queries that look most at the rarest token
END = 0.5  # share of the weight on the end of the sentence


@dataclass(frozen=True)
class HeadRole:
    """One head and where it looks, on average over all queries of the corpus except the end of a sentence.

    ``attention`` is its name in the model. ``kind`` is "source" for self-attention of the encoder, "output" for
    self-attention of the decoder and "across" for attention to the source. ``entropy`` is the entropy of the weights
    divided by the logarithm of the number of keys: 0 for a single key, 1 for equal weights. ``peak`` is the largest
    weight. ``offset`` is the most frequent relative position of the largest weight; -1 is the token before.
    ``at_offset`` is the share of queries whose largest weight is there. ``diagonal`` is the share of queries whose
    largest weight is at the same part of the other side, one token more or less. It is 0 for self-attention. ``rarest``
    is the share of queries whose largest weight is on the token of the sentence that is rarest in the corpus. ``end``
    is the weight on the end of the sentence.
    """

    attention: str
    head: int
    kind: Kind
    entropy: float
    peak: float
    offset: int
    at_offset: float
    diagonal: float
    rarest: float
    end: float

    @property
    def role(self) -> str:
        """The rule that the head follows: "place -1" for a relative position, "diagonal", "end", "rarest token", or
        "none".
        """
        if self.kind != "across" and self.at_offset >= POSITIONAL:
            return f"place {self.offset:+d}"
        if self.diagonal >= DIAGONAL:
            return "diagonal"
        if self.end >= END:
            return "end"
        return "rarest token" if self.rarest >= RARE else "none"

    @property
    def name(self) -> str:
        return f"{self.attention} {self.head}"


class Maps(NamedTuple):
    """The attention of a batch: for each attention, by name, its kind and its weights [B, H, T, S]. ``source`` and
    ``target`` are ids with their lengths.
    """

    heads: dict[str, tuple[Kind, Tensor]]
    source: Padded
    target: Padded


@torch.inference_mode()
def attention_maps(transducer: Transducer, pairs: Sequence[tuple[str, str]]) -> Maps:
    """All attention of a batch of ``pairs`` (source, target) by teacher forcing. The source of a language model is "".

    The numbers of keys and queries decide the kind of an attention. Raises UserError for a model that does not write
    token by token, for a model that reads signals, and for a model without attention with several heads.
    """
    model = transducer.model
    if not can(type(model), Autoregressive) or transducer.source_tokenizer.signal:
        raise UserError(
            f"this {model_name(type(model))} model does not read and write token by token, so its heads have no roles"
        )
    source = transducer.padded([source.row for source in transducer.read([text for text, _ in pairs])])
    rows = transducer.target_tokenizer.encode([text for _, text in pairs])
    target = transducer.padded(rows, torch.long)
    with transducer.computing():
        with recorded(model) as of_source:
            state = transducer.stepwise.start(source)
        with recorded(model) as of_output:
            transducer.stepwise.extend(shifted(target), state)
    found: dict[str, tuple[Kind, Tensor]] = {}
    across = source.values.shape[1]
    for name, parts in of_source.items():
        if parts and parts[0].ndim == 4 and parts[0].shape[-1] == parts[0].shape[-2] == across:
            found[name] = "source", parts[0].float()
    for name, parts in of_output.items():
        if parts and parts[0].ndim == 4:
            weights_BHTS = torch.cat(parts, -2).float()
            found[name] = _kind(weights_BHTS), weights_BHTS
    if not found:
        raise UserError(f"this {model_name(type(model))} model has no attention with several heads")
    return Maps(found, source, target)


def _kind(weights_BHTS: Tensor) -> Kind:
    """The kind of a decoder's attention: "output" if the first query sees only the first key, otherwise "across"."""
    T, S = weights_BHTS.shape[-2:]
    own = T == S and bool((weights_BHTS.triu(1) == 0).all())
    return "output" if own else "across"


class _Sums:
    """Running sums for one attention; each tensor has one entry for each head."""

    def __init__(self, kind: Kind, heads: int) -> None:
        self.kind = kind
        self.queries = 0
        self.sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros(heads, dtype=torch.double))
        self.offsets: list[Counter[int]] = [Counter() for _ in range(heads)]

    def add(self, weights_HTS: Tensor, rarest: int) -> None:
        """Adds a sentence without padding, whose last key is its end. ``rarest`` is the key of its rarest token."""
        _, T, S = weights_HTS.shape
        self.queries += T
        entropy_HT = -(weights_HTS * weights_HTS.clamp_min(1e-12).log()).sum(-1)
        keys_T = torch.arange(1, T + 1) if self.kind == "output" else torch.full((T,), S)
        self.sums["entropy"] += (entropy_HT / keys_T.log().clamp_min(math.log(2))).sum(-1)
        peak_HT, best_HT = weights_HTS.max(-1)
        self.sums["peak"] += peak_HT.sum(-1)
        self.sums["rarest"] += (best_HT == rarest).sum(-1)
        self.sums["end"] += weights_HTS[..., -1].sum(-1) if self.kind != "output" else 0
        place_T = torch.arange(T)
        if self.kind == "across":
            even_T = place_T * max(1, S - 2) / max(1, T - 1)
            self.sums["diagonal"] += ((best_HT - even_T).abs() <= 1).sum(-1)
        for counter, offsets_T in zip(self.offsets, best_HT - place_T, strict=True):
            counter.update(offsets_T.tolist())

    def roles(self, name: str) -> Iterator[HeadRole]:
        for head, counter in enumerate(self.offsets):
            ((offset, count),) = counter.most_common(1)
            shares = {each: float(sums[head]) / self.queries for each, sums in self.sums.items()}
            yield HeadRole(
                name,
                head,
                self.kind,
                shares["entropy"],
                shares["peak"],
                offset,
                count / self.queries,
                shares.get("diagonal", 0.0),
                shares["rarest"],
                shares["end"],
            )


def head_roles(transducer: Transducer, pairs: Sequence[tuple[str, str]], batch_size: int = 32) -> list[HeadRole]:
    """The role of each head over the ``pairs`` (source, target), in the order of the model's layers. Raises UserError
    if there are no pairs, and like ``attention_maps``.
    """
    if not pairs:
        raise UserError("there are no pairs: give at least one source and its target")
    frequency = Counter(token for row in transducer.read_told([text for text, _ in pairs]) for token in row)
    written = Counter(token for ids in transducer.read_targets([text for _, text in pairs]) for token in ids)
    sums: dict[str, _Sums] = {}
    for batch in windows(pairs, batch_size):
        maps = attention_maps(transducer, batch)
        for name, (kind, weights_BHTS) in maps.heads.items():
            into = sums.setdefault(name, _Sums(kind, weights_BHTS.shape[1]))
            counts = written if kind == "output" else frequency
            for row, weights_HTS in enumerate(weights_BHTS.cpu()):
                keys, queries = (
                    maps.target if kind == "output" else maps.source,
                    maps.source if kind == "source" else maps.target,
                )
                S, T = int(keys.lengths[row]), int(queries.lengths[row])
                if T > 1:
                    ids = keys.values[row, :S].tolist()
                    # A decoder's keys are shifted: the first key is the beginning, and the end is no key.
                    tokens = [None, *ids[:-1]] if kind == "output" else ids
                    rarest = min(range(S), key=lambda key: counts[tokens[key]] or math.inf)
                    into.add(weights_HTS[:, : T - 1, :S].double(), rarest)
    return [role for name, each in sums.items() for role in each.roles(name)]


def lines(roles: Sequence[HeadRole]) -> list[str]:
    """A table for the terminal: a line for each head."""
    width = max(len(role.attention) for role in roles)
    head = f"{'attention':{width}} head  role            entropy  peak  one place      diagonal  rarest  end"
    return [head] + [
        f"{each.attention:{width}} {each.head:4}  {each.role:14}  {each.entropy:7.2f}  {each.peak:4.2f}  "
        f"{each.at_offset:4.2f} at {each.offset:+4d}  {each.diagonal:8.2f}  {each.rarest:6.2f}  {each.end:4.2f}"
        for each in roles
    ]
