"""The tree of a search: the hypotheses that it compared. Each is a child of the hypothesis that it extends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from transduce.core.types import Derivation, Hypothesis

Fate = Literal["lived", "recombined", "pruned", "finished"]


@dataclass(frozen=True)
class Node:
    """A hypothesis of a search. ``label`` is the token or the phrase that it adds to its parent.

    ``added`` is the score of this addition: in a beam, the natural log-probability of the token, given the prefix
    before it. ``total`` is the score by which the search compares hypotheses. Both are 0 for the root of a beam and for
    the tokens of a forced prefix. ``fate`` is "lived" if the search extended the hypothesis, and "recombined" if it was
    merged into a better one. Otherwise it is "pruned" or "finished". If the search returned the finished hypothesis,
    ``rank`` is its rank (0 is the best) and ``score`` its final score. Otherwise both are None.

    ``best`` is True on the path to the best output. The child on that path is the first of ``children``. The others
    follow, highest total first. ``note`` is a short text to draw after the label. ``details`` are names and values for
    people.
    """

    label: str
    added: float
    total: float
    fate: Fate
    children: tuple[Node, ...] = ()
    rank: int | None = None
    score: float | None = None
    best: bool = False
    note: str = ""
    details: tuple[tuple[str, str | int | float], ...] = ()

    @property
    def survived(self) -> bool:
        """True if the search extended the hypothesis, or if it finished."""
        return self.fate in ("lived", "finished")

    def without_pruned(self) -> Node:
        """A copy of the node without the descendants that were pruned or recombined. The node itself does not
        change.
        """
        return _copied(self, lambda node: node.survived)

    def limited(self, count: int) -> Node:
        """A copy with at most ``count`` nodes (at least the node itself). It prefers the best path, then the returned
        outputs, then the hypotheses that survived, highest total first. A node that stays keeps its ancestors.
        """
        every, parents = parents_first(self), dict[int, Node]()
        for node in every:
            parents.update((id(child), node) for child in node.children)
        every.sort(key=lambda node: (not node.best, node.rank is None, not node.survived, -node.total))
        kept = {id(self)}
        for node in every:
            path = list[int]()
            while id(node) not in kept:
                path.append(id(node))
                node = parents[id(node)]
            if len(kept) + len(path) <= count:
                kept.update(path)
        return _copied(self, lambda node: id(node) in kept)

    def chain(self) -> tuple[list[Node], tuple[Node, ...]]:
        """Follows single children from this node. Returns the nodes from this one to the first fork or leaf, and the
        children of the last of them.
        """
        nodes, node = [self], self
        while len(node.children) == 1:
            node = node.children[0]
            nodes.append(node)
        return nodes, node.children


class _Keeps(Protocol):
    def __call__(self, node: Node) -> bool: ...


def _copied(root: Node, keeps: _Keeps) -> Node:
    """A copy of the root, without the descendants that ``keeps`` rejects."""
    made: dict[int, Node] = {}
    for node in reversed(parents_first(root)):
        children = tuple(made[id(child)] for child in node.children if keeps(child))
        made[id(node)] = replace(node, children=children)
    return made[id(root)]


@dataclass(frozen=True)
class SearchTree:
    """The search for one source.

    ``root`` is the beginning of the sentence. In a beam search, a forced prefix is a chain of nodes below it.
    ``hypotheses`` are the results of the search, best first, and ``texts`` are the same outputs as text.
    """

    source: str
    root: Node
    hypotheses: tuple[Hypothesis | Derivation, ...]
    texts: tuple[str, ...]

    def lines(self, pruned: bool = False) -> list[str]:
        """The tree as lines for the terminal, with forks indented. ``pruned`` also shows pruned and recombined
        hypotheses.
        """
        root = self.root if pruned else self.root.without_pruned()
        return list(branches(root))

    def rows(self) -> list[dict[str, object]]:
        """All nodes as values for JSON, parents first. ``parent`` is the index of a node's parent, None for the
        root.
        """
        every = parents_first(self.root)
        numbers = {id(node): number for number, node in enumerate(every)}
        parent = {id(child): numbers[id(node)] for node in every for child in node.children}
        return [
            {
                "parent": parent.get(id(node)),
                "label": node.label,
                "added": node.added,
                "total": node.total,
                "fate": node.fate,
                "best": node.best,
                "rank": node.rank,
                **dict(node.details),
            }
            for node in every
        ]


class _Parent(Protocol):
    @property
    def children(self) -> Any: ...


AnyNode = TypeVar("AnyNode", bound=_Parent)


def parents_first(root: AnyNode) -> list[AnyNode]:
    """All nodes, each before its children. It does not recurse, because a tree can be deeper than Python's stack."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.children
    return found


# ------------------------------------------------------------------- terminal

MARKS = {"lived": "", "recombined": " =", "pruned": " ×", "finished": " ■"}


def branches(root: Node) -> Iterator[str]:
    """Yields one line for each chain of nodes without a fork. It is indented below the fork at its beginning."""
    waiting = [(root, "", "")]
    while waiting:
        node, first, later = waiting.pop()
        nodes, children = node.chain()
        last = nodes[-1]
        words = " ".join(each.label for each in nodes)
        score = "" if last.score is None else f"  score {last.score:.3f}{', the best' if last.rank == 0 else ''}"
        yield f"{first}{words}{MARKS[last.fate]}  {last.total:.3f}{score}"
        waiting += [(child, later + "└─ ", later + "   ") for child in children[-1:]]
        waiting += [(child, later + "├─ ", later + "│  ") for child in reversed(children[:-1])]
