"""The tree of a beam search: the candidates of every step.

A child extends its parent by one token. Its fate is "lived" (it was in the next beam), "pruned" or "finished".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import AnySearch, Autoregressive, can
from transduce.core.registry import model_name
from transduce.core.types import BOS, SPECIALS, Hypothesis
from transduce.search.base import Expansion
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.looking.inspection.tree import Fate, Node, SearchTree, parents_first


def beam_tree(transducer: Transducer, source: str, search: AnySearch | None = None, prefix: str = "") -> SearchTree:
    """Searches for the output of ``source`` and records the tree. ``search`` replaces the transducer's own search; None
    keeps it. ``prefix`` is the text that all outputs begin with.

    Greedy search counts as a beam of size 1. Raises UserError for any other search, and for a model that does not write
    token by token.
    """
    if not can(type(transducer.model), Autoregressive):
        raise UserError(
            f"this {model_name(type(transducer.model))} model writes all at once, and a tree grows token by token; "
            "models "
            'that write so have one, such as model.type = "encoder-decoder"'
        )
    beam = transducer.search if search is None else search
    beam = beam.resized(1) if isinstance(beam, Greedy) else beam
    if not isinstance(beam, Beam):
        raise UserError(
            f"{type(beam).__name__} grows no tree, only a beam does: --set search.type=beam, and no --shortlist"
        )
    recorder = _Recorder()
    padded = transducer.padded([transducer.read_one(source)])
    ids = transducer.read_prefix(prefix)
    forced = transducer.padded([ids], torch.long) if ids else None
    with transducer.computing():
        (found,) = replace(beam, observer=recorder)(transducer.stepwise, padded, forced)
    texts = tuple(transducer.target_tokenizer.decode(hypothesis.tokens) for hypothesis in found)
    return SearchTree(source, recorder.tree(transducer, found), tuple(found), texts)


@dataclass
class _Recorded:
    """A node of the tree while the search runs. ``token`` is the id of the hypothesis' last token. ``tokens`` are all
    its ids, without BOS.
    """

    token: int
    log_prob: float
    total: float
    fate: Fate
    tokens: tuple[int, ...]
    children: list[_Recorded] = field(default_factory=list)


class _Recorder:
    """An observer that records each step of the search for one source, which is row 0 of the batch."""

    def __init__(self) -> None:
        self.root = _Recorded(BOS, 0.0, 0.0, "lived", ())
        self.living: list[_Recorded] = []

    def __call__(self, expansion: Expansion) -> None:
        if not self.living:
            self.living = [self._beginning(expansion)]
        candidates = expansion.candidates
        columns = zip(
            candidates.origin_BC[0].tolist(),
            candidates.token_BC[0].tolist(),
            expansion.log_prob_BC[0].tolist(),
            candidates.total_BC[0].tolist(),
            candidates.ended_BC[0].tolist(),
            strict=True,
        )
        alive = {
            place
            for place, total in zip(candidates.live_BK[0].tolist(), candidates.live_total_BK[0].tolist(), strict=True)
            if math.isfinite(total)
        }
        seen: dict[int, _Recorded] = {}
        for place, (origin, token, log_prob, total, ended) in enumerate(columns):
            if not math.isfinite(total):
                continue
            parent = self.living[origin if len(self.living) > 1 else 0]
            fate: Fate = "finished" if ended else "lived" if place in alive else "pruned"
            seen[place] = _Recorded(token, log_prob, total, fate, (*parent.tokens, token))
            parent.children.append(seen[place])
        self.living = [seen.get(place, self.root) for place in candidates.live_BK[0].tolist()]

    def _beginning(self, expansion: Expansion) -> _Recorded:
        """Adds the nodes of the forced prefix below the root and returns the last one; without a prefix, the root."""
        node = self.root
        for token in [] if expansion.begun_BT is None else expansion.begun_BT[0].tolist():
            node.children.append(_Recorded(token, 0.0, 0.0, "lived", (*node.tokens, token)))
            node = node.children[0]
        return node

    def tree(self, transducer: Transducer, found: Sequence[Hypothesis]) -> Node:
        every = parents_first(self.root)
        # two groups of a beam may finish the same output; the search returns the better one
        ends = {node.tokens: node for node in sorted(every, key=lambda node: node.total) if node.fate == "finished"}
        ranks = {id(ends[hypothesis.tokens]): rank for rank, hypothesis in enumerate(found)}
        made: dict[int, Node] = {}
        for node in reversed(every):
            children = [made[id(child)] for child in node.children]
            children.sort(key=lambda child: (not child.best, -child.total))
            rank = ranks.get(id(node))
            made[id(node)] = Node(
                transducer.target_tokenizer.tokens([node.token])[0] if node.tokens else SPECIALS[BOS],
                node.log_prob,
                node.total,
                node.fate,
                tuple(children),
                rank,
                None if rank is None else found[rank].score,
                rank == 0 or any(child.best for child in children),
            )
        return made[id(self.root)]
