"""Units for constituency trees: a tag for each word, or brackets from left to right.

The texts are trees of the Penn Treebank's form: ``(S (NP (DT The) (NN dog)) (VP (VBZ barks)))``. Words and their parts
of speech are not among the tokens; decoding writes XX for both. Outputs for a source then get its words
(``Sourced``).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from transduce.core.config.errors import Table
from transduce.core.types import BOS, EOS, PAD
from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Tokenizer, checked
from transduce.data.tokenizers.json_records import Recorded
from transduce.data.tokenizers.storage import from_record, record_of
from transduce.data.tokenizers.text import Symbols
from transduce.wings.syntax import constituents
from transduce.wings.syntax.constituents import CLOSE, WORD, Constituent

_TOKEN = re.compile(r"\(\s*[^\s()]+\s+[^\s()]+\s*\)|\(\s*[^\s()]*|\)|[^\s()]+")


class TreeTokenizer(Recorded):
    """Base class. Converts trees to ids and back; ``symbols`` is the tokenizer of the items that stand for a tree.

    ``items`` writes a tree as items, and ``tree`` reads them: any sequence of items gives a tree. Without
    ``functions``, labels lose what follows their first "-" or "=": "NP-SBJ" becomes "NP".
    """

    numeric = False
    signal = False
    labels = 0
    factors = 1

    def __init__(self, symbols: Tokenizer, functions: bool = False) -> None:
        self._symbols = symbols
        self._functions = functions

    @staticmethod
    @abstractmethod
    def items(tree: Constituent, /) -> list[str]: ...

    @staticmethod
    @abstractmethod
    def tree(items: Sequence[str], /) -> Constituent: ...

    def __len__(self) -> int:
        return len(self._symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each tree, ending with EOS. An empty text has no other id. Raises LineError for a text that is not
        a tree.
        """
        return self._symbols.encode([" ".join(self._items(text)) for text in texts])

    def _items(self, text: str) -> list[str]:
        try:
            return _items(type(self), text, self._functions)
        except constituents.TreeError as error:
            raise LineError(text, error.problem) from error

    def decode(self, ids: Sequence[int]) -> str:
        """The tree of the ids, with XX for words and parts of speech; an empty text without ids of items. Raises
        DataError for an id outside the vocabulary.
        """
        spoken = [i for i in checked(ids, len(self)) if i not in (PAD, BOS, EOS)]
        return str(self.tree(self._symbols.tokens(spoken))) if spoken else ""

    def with_source(self, text: str, source: str) -> str:
        """The tree ``text`` with the words of ``source``, which white space separates, in the places of its words.

        Words of the source that have no place follow at the end of the tree. Places without a word are left out.
        """
        words = source.rpartition("\t")[2].split()
        return str(constituents.with_words(constituents.read(text), words)) if text and words else ""

    def without_source(self, text: str, source: str) -> str:
        """The ``text`` unchanged: ``encode`` leaves out the words of a tree."""
        return text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self._symbols.tokens(ids)

    def length(self, ids: Sequence[int]) -> int:
        """The number of ids without EOS."""
        return len(ids) - 1

    def normalize(self, text: str) -> str:
        """The tree as ``decode`` writes it."""
        return str(self.tree(self._items(text))) if text.strip() else ""

    def placeholders(self) -> tuple[int, ...]:
        """The ids that stand for the next word of the source: the id of the entry XX. Tags have none."""
        return tuple(place for place, entry in enumerate(self.entries) if entry == WORD)

    @property
    def entries(self) -> tuple[Hashable, ...]:
        return self._symbols.entries

    @property
    def pieces(self) -> tuple[str, ...]:
        """An empty text for each id: no id has a text of its own, because what an item writes depends on the other
        items.
        """
        return ("",) * len(self)

    def extended(self, other: Tokenizer) -> TreeTokenizer:
        """Returns a new tokenizer that also has the items of ``other``. Raises DataError if ``other`` is of another
        kind.
        """
        if not isinstance(other, type(self)):
            raise DataError("trees can be extended by trees of the same unit alone; use the same units")
        return type(self)(self._symbols.extended(other._symbols), self._functions)

    def as_json(self) -> Table:
        return {"symbols": record_of(self._symbols), "functions": self._functions}

    @classmethod
    def from_json(cls, record: Table) -> TreeTokenizer:
        return cls(from_record(record["symbols"]), record["functions"])


class TagsTokenizer(TreeTokenizer):
    """Trees as one tag for each word: ``constituents.to_tags`` describes them."""

    kind = "tree-tags"
    items = staticmethod(constituents.to_tags)
    tree = staticmethod(constituents.from_tags)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each word with its part of speech, and an empty span at the end for EOS."""
        found = [item.span() for item in _TOKEN.finditer(text) if not _is_bracket(item[0])]
        return [*found, (len(text), len(text))]


class BracketsTokenizer(TreeTokenizer):
    """Trees from left to right: ``constituents.to_brackets`` describes the items."""

    kind = "tree-brackets"
    items = staticmethod(constituents.to_brackets)
    tree = staticmethod(constituents.from_brackets)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each bracket with its label and of each word with its part of speech, and an empty span at the
        end for EOS.
        """
        return [*(item.span() for item in _TOKEN.finditer(text)), (len(text), len(text))]


def _is_bracket(item: str) -> bool:
    return item == CLOSE or (item.startswith("(") and not item.endswith(CLOSE))


@dataclass(frozen=True)
class TreeTags:
    """A unit for constituency trees: one tag for each word of the tree, so that a tagger of words is a parser
    (Gómez-Rodríguez and Vilares 2018). Tags rarer than ``minimum_count`` are unknown. With ``functions``, labels keep
    their functions ("NP-SBJ").
    """

    minimum_count: int = 1
    functions: bool = False

    signal = False
    tokenizer = TagsTokenizer

    def learn(self, texts: Iterable[str]) -> TagsTokenizer:
        items = (" ".join(_items(TagsTokenizer, text, self.functions)) for text in texts)
        return TagsTokenizer(Symbols(self.minimum_count, normalisation="none").learn(items), self.functions)


@dataclass(frozen=True)
class TreeBrackets:
    """A unit for constituency trees: the tree from left to right, with a bracket that opens or closes a constituent, or
    a word, as each token (Vinyals et al. 2015). The search filter ``brackets`` keeps outputs well formed. With
    ``functions``, labels keep their functions ("NP-SBJ").
    """

    functions: bool = False

    signal = False
    tokenizer = BracketsTokenizer

    def learn(self, texts: Iterable[str]) -> BracketsTokenizer:
        items = (" ".join(_items(BracketsTokenizer, text, self.functions)) for text in texts)
        return BracketsTokenizer(Symbols(always=(WORD, CLOSE), normalisation="none").learn(items), self.functions)


def _items(kind: type[TreeTokenizer], text: str, functions: bool) -> list[str]:
    """The items of a text's tree; none for an empty text. Raises TreeError if it is not a tree."""
    if not text.strip():
        return []
    tree = constituents.read(text)
    return kind.items(tree if functions else constituents.without_functions(tree))
