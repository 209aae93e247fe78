"""The tree of a beam search: the candidates of every step.

A child extends its parent by one token. Its fate is "lived" (it was in the next beam), "pruned" or "finished".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from transduce.errors import UserError
from transduce.protocols import Autoregressive, Search, can
from transduce.search.base import Expansion
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.transducer import Transducer
from transduce.types import BOS, SPECIALS, Hypothesis

Fate = Literal["lived", "pruned", "finished"]


@dataclass(frozen=True)
class Node:
    """A prefix of an output, named by its last token.

    ``log_prob`` is the natural log-probability of this token, given the prefix before it. ``total`` is the score of the
    whole prefix by which the beam compares prefixes. Both are 0 for the root and for the tokens of a forced prefix. If
    the search returned the finished prefix, ``rank`` is its place (0 is the best) and ``score`` its final score;
    otherwise both are None.

    ``best`` is True on the path to the best output. The child on that path is the first of ``children``; the others
    follow, highest total first.
    """

    token: str
    log_prob: float
    total: float
    fate: Fate
    children: tuple[Node, ...] = ()
    rank: int | None = None
    score: float | None = None
    best: bool = False

    @property
    def survived(self) -> bool:
        """True if the node was in the beam or finished."""
        return self.fate != "pruned"

    def without_pruned(self) -> Node:
        """A copy of the node without its pruned descendants. The node itself is not changed."""
        made: dict[int, Node] = {}
        for node in reversed(_parents_first(self)):
            children = tuple(made[id(child)] for child in node.children if child.survived)
            made[id(node)] = replace(node, children=children)
        return made[id(self)]

    def chain(self) -> tuple[list[Node], tuple[Node, ...]]:
        """Follows single children from this node. Returns the nodes down to the first fork or leaf, this one included,
        and the children of the last of them.
        """
        nodes, node = [self], self
        while len(node.children) == 1:
            node = node.children[0]
            nodes.append(node)
        return nodes, node.children


@dataclass(frozen=True)
class BeamTree:
    """The search for one source.

    ``root`` is the beginning of the sentence; a forced prefix is a chain of nodes below it. ``hypotheses`` are the
    results of the search, best first, and ``texts`` are the same outputs as text.
    """

    source: str
    root: Node
    hypotheses: tuple[Hypothesis, ...]
    texts: tuple[str, ...]

    def lines(self, pruned: bool = False) -> list[str]:
        """The tree as lines for the terminal, with forks indented. ``pruned`` also shows pruned continuations."""
        root = self.root if pruned else self.root.without_pruned()
        return list(_branches(root))


def beam_tree(transducer: Transducer, source: str, search: Search[Any] | None = None) -> BeamTree:
    """Searches for the output of ``source`` and records the tree. ``search`` replaces the transducer's own search; None
    keeps the transducer's own.

    Greedy search counts as a beam of size 1. Raises UserError for any other search, and for a model that does not write
    token by token.
    """
    if not can(type(transducer.model), Autoregressive):
        raise UserError(
            f"this {type(transducer.model).__name__} writes all at once, and a tree grows token by token; models "
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
    with transducer.computing():
        (found,) = replace(beam, observer=recorder)(transducer.model, padded)
    texts = tuple(transducer.target_tokenizer.decode(hypothesis.tokens) for hypothesis in found)
    return BeamTree(source, recorder.tree(transducer, found), tuple(found), texts)


@dataclass
class _Recorded:
    """A node of the tree while the search runs. ``token`` is the id of the prefix's last token; ``tokens`` are all its
    ids, without BOS.
    """

    token: int
    log_prob: float
    total: float
    fate: Fate
    tokens: tuple[int, ...]
    children: list[_Recorded] = field(default_factory=list)


class _Recorder:
    """An observer that records each step of the search for one source: only row 0 of the batch."""

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
        every = _parents_first(self.root)
        # two groups of a beam may finish the same output; the search returned the better one
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


AnyNode = TypeVar("AnyNode", Node, _Recorded)


def _parents_first(root: AnyNode) -> list[AnyNode]:
    """All nodes, each before its children. It does not recurse, because a tree can be deeper than Python's stack."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.children
    return found


# ------------------------------------------------------------------- terminal

MARKS = {"lived": "", "pruned": " ×", "finished": " ■"}


def _branches(root: Node) -> Iterator[str]:
    """Yields one line for each chain of nodes without a fork, indented below the fork that the chain starts from."""
    waiting = [(root, "", "")]
    while waiting:
        node, first, later = waiting.pop()
        nodes, children = node.chain()
        last = nodes[-1]
        words = " ".join(each.token for each in nodes)
        score = "" if last.score is None else f"  score {last.score:.3f}{', the best' if last.rank == 0 else ''}"
        yield f"{first}{words}{MARKS[last.fate]}  {last.total:.3f}{score}"
        waiting += [(child, later + "└─ ", later + "   ") for child in children[-1:]]
        waiting += [(child, later + "├─ ", later + "│  ") for child in reversed(children[:-1])]
