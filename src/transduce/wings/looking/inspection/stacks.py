"""The tree of a stack search: the hypotheses of each stack, phrase by phrase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from transduce.answers.derivations import Derived
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.protocols import Deriving, can
from transduce.core.registry import model_name
from transduce.core.types import SPECIALS, UNK, Derivation
from transduce.data.preparation import Tokenizers
from transduce.wings.counted.phrases.search.stack import StackSearch
from transduce.wings.counted.phrases.search.stacks import Growth
from transduce.wings.counted.phrases.search.tables import Tables
from transduce.wings.looking.inspection.tree import Fate, Node, SearchTree, parents_first

Piece = tuple[tuple[int, int], tuple[int, ...]]  # the source span of a phrase, and its target tokens

BEGIN, END = "<s>", "</s>"


def stack_tree(transducer: Transducer, source: str) -> SearchTree:
    """Searches for the outputs of the text ``source`` with the transducer's own search, and records the tree.

    The children of a node are the expansions that the language models scored. An expansion that the pool or the
    threshold left out before that is not in the tree. Raises UserError for a model that does not write phrase by
    phrase, and for a search of another type.
    """
    if not can(type(transducer.model), Deriving):
        raise UserError(
            f"this {model_name(type(transducer.model))} model does not write phrase by phrase; a model that does has "
            'model.type = "phrase-based"'
        )
    search = transducer.search
    if not isinstance(search, StackSearch):
        raise UserError(f"{type(search).__name__} has no stacks: --set search.type=stack")
    recorder = _Recorder()
    padded = transducer.padded([transducer.read_one(source)])
    with transducer.computing():
        model = cast(Deriving, transducer.model)
        (found,) = replace(search, observer=recorder)(model, padded)
    read = Tokenizers(transducer.source_tokenizer, transducer.target_tokenizer)
    derived = [Derived(read, model.feature_names, model.weights.tolist(), source, each) for each in found]
    return SearchTree(source, recorder.tree(derived), tuple(found), tuple(each.text for each in derived))


@dataclass
class _Recorded:
    """A hypothesis while the search runs. ``piece`` is its last phrase, and ``covered`` its number of covered source
    tokens.
    """

    piece: Piece
    covered: int
    added: float
    score: float
    total: float
    fate: Fate
    children: list[_Recorded] = field(default_factory=list)


class _Recorder:
    """An observer that records each stack of the search for one source, which is row 0 of the batch."""

    def __init__(self) -> None:
        self.root = _Recorded(((0, 0), ()), 0, 0.0, 0.0, 0.0, "lived")
        self.by_number = {0: self.root}

    def __call__(self, tables: Tables, growth: Growth) -> None:
        columns = (growth.parent_E, growth.option_E, growth.score_E, growth.total_E, growth.node_E, growth.best_E)
        for parent, option, score, total, node, best in zip(*(each.tolist() for each in columns), strict=True):
            before = self.by_number[parent]
            piece: Piece = ((before.piece[0][1], before.piece[0][1]), ())
            if option >= 0:
                tokens = tuple(tables.tokens_OP[option, : tables.length_O[option]].tolist())
                piece = ((int(tables.start_O[option]), int(tables.end_O[option])), tokens)
            fate: Fate = "finished" if option < 0 else "pruned" if node < 0 else "lived" if best else "recombined"
            made = _Recorded(piece, growth.covered, score - before.score, score, total, fate)
            before.children.append(made)
            if fate == "lived":
                self.by_number[node] = made

    def tree(self, derived: Sequence[Derived]) -> Node:
        """The tree as nodes. ``derived`` are the results of the search, best first."""
        every, made = parents_first(self.root), dict[int, Node]()
        ranks = {id(leaf): rank for rank, each in enumerate(derived) if (leaf := self._leaf(each.derivation))}
        for each in reversed(every):
            children = [made[id(child)] for child in each.children]
            children.sort(key=lambda child: (not child.best, -child.total))
            rank = ranks.get(id(each))
            source, target = _texts(each, derived[0])
            made[id(each)] = Node(
                BEGIN if each is self.root else END if each.fate == "finished" else f"{source} → {target}",
                each.added,
                each.total,
                each.fate,
                tuple(children),
                rank,
                None if rank is None else derived[rank].derivation.score,
                rank == 0 or any(child.best for child in children),
                "" if each is self.root or each.fate == "finished" else f"{each.covered} · {each.score:.2f}",
                (("source", source), ("target", target), ("covered", each.covered), ("score", each.score)),
            )
        return made[id(self.root)]

    def _leaf(self, derivation: Derivation) -> _Recorded | None:
        """The finished hypothesis of a derivation; None if its path was merged into another path."""
        node = self.root
        for step in derivation.steps:
            tokens = derivation.tokens[slice(*step.target)]
            last = step is derivation.steps[-1]
            following = [
                child
                for child in node.children
                if (child.fate == "finished") == last
                and (last or child.piece == (step.source, tokens))
                and child.fate in ("lived", "finished")
            ]
            if not following:
                return None
            node = following[0]
        return node


def _texts(each: _Recorded, derived: Derived) -> tuple[str, str]:
    """The source and the target of a hypothesis' last phrase as text."""
    (start, end), tokens = each.piece
    source = "".join(derived.source_texts[start:end]).strip()
    if tokens == (UNK,):
        return source, source or SPECIALS[UNK]
    return source, derived.tokenizers.target.decode(tokens).strip()
