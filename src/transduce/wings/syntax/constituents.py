"""Constituency trees: their text in brackets, and two ways to write a tree as a sequence.

The text has the form of the Penn Treebank: ``(S (NP (DT The) (NN dog)) (VP (VBZ barks)))``. A pair of brackets with one
word is a word with its part of speech. All other pairs of brackets are constituents.

*Tags* have one item for each word (Gómez-Rodríguez and Vilares 2018). *Brackets* are the tree from left to right, with
``XX`` in the place of each word (Vinyals et al. 2015). Both leave out the words and their parts of speech, and
``with_words`` puts words back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from transduce.core.errors import UserError

WORD = "XX"  # stands for a word or a part of speech that is not known
CLOSE = ")"
DEEPEST = 200  # constituents around a word; deeper trees are refused
CHAIN = "+"  # joins the labels of constituents that have only one another as a child
PART = "|"  # joins the three parts of a tag
NONE = "_"  # the part of a tag for a word without a constituent of its own
LAST = "end"  # the first part of the last word's tag
TOP = "ROOT"  # the label of a root that no tag or bracket names
_ITEM = re.compile(r"\(\s*(?P<pos>[^\s()]+)\s+(?P<word>[^\s()]+)\s*\)|\(\s*(?P<label>[^\s()]*)|(?P<close>\))|[^\s()]+")


class TreeError(UserError):
    """A text is not a tree. ``problem`` is the message without the text."""

    def __init__(self, text: str, problem: str) -> None:
        self.problem = f"is not one tree such as (S (NP (PRP We)) (VP (VBP agree))): {problem}"
        super().__init__(f"{text[:60]!r} {self.problem}")


@dataclass(frozen=True)
class Leaf:
    """A word with its part of speech."""

    word: str = WORD
    pos: str = WORD

    def __str__(self) -> str:
        return f"({self.pos} {self.word})"


@dataclass
class Constituent:
    """A constituent: its label and its children from left to right. The label is empty if it is not known."""

    label: str
    children: list[Constituent | Leaf] = field(default_factory=list)

    def __str__(self) -> str:
        """The text of the tree in one line."""
        return f"({self.label} {' '.join(map(str, self.children))})"

    @property
    def leaves(self) -> list[Leaf]:
        """The words of the constituent, from left to right."""
        return [
            leaf for child in self.children for leaf in (child.leaves if isinstance(child, Constituent) else [child])
        ]


def read(text: str) -> Constituent:
    """The tree that a text describes. A word without brackets of its own has the part of speech XX.

    A root without a label, as in the Penn Treebank's files, gets the label ROOT. Raises TreeError if brackets do not
    match, or if there is more or less than one tree. Raises it too for an empty constituent, and for more than
    ``DEEPEST`` constituents one inside the other.
    """
    above = Constituent("")
    path = [above]
    for found in _ITEM.finditer(text):
        if len(path) == 1 and above.children:
            raise TreeError(text, "one tree was expected, and more text follows it")
        if found["label"] is not None:
            path[-1].children.append(opened := Constituent(found["label"]))
            path.append(opened)
            if len(path) > DEEPEST + 1:
                raise TreeError(text, f"it is nested deeper than {DEEPEST} constituents")
        elif found["close"]:
            if len(path) == 1:
                raise TreeError(text, f"the bracket at character {found.start() + 1} closes nothing")
            if not path.pop().children:
                raise TreeError(text, f"the constituent that ends at character {found.start() + 1} is empty")
        else:
            leaf = Leaf(found["word"], found["pos"]) if found["word"] else Leaf(found[0])
            path[-1].children.append(leaf)
    if len(path) > 1:
        missing = len(path) - 1
        raise TreeError(text, f"{missing} closing bracket{' is' if missing == 1 else 's are'} missing at its end")
    if not above.children:
        raise TreeError(text, "it is empty")
    (root,) = above.children
    if isinstance(root, Leaf):
        return Constituent(TOP, [root])
    return root if root.label else Constituent(TOP, root.children)


def with_words(tree: Constituent, words: Sequence[str]) -> Constituent:
    """A copy of the tree whose leaves have these words, in order; parts of speech stay.

    Leaves without a word are left out, and so are constituents without a leaf. Words without a leaf become children at
    the end of the root. Brackets inside words become -LRB- and -RRB-.
    """
    escaped = [re.sub(r"\s", "_", word.replace("(", "-LRB-").replace(")", "-RRB-")) for word in words]
    remaining = iter(escaped)

    def filled(node: Constituent) -> Constituent:
        children: list[Constituent | Leaf] = []
        for child in node.children:
            if isinstance(child, Constituent):
                if (below := filled(child)).children:
                    children.append(below)
            elif (word := next(remaining, None)) is not None:
                children.append(Leaf(word, child.pos))
        return Constituent(node.label, children)

    whole = filled(tree)
    return Constituent(whole.label, [*whole.children, *map(Leaf, remaining)])


def without_functions(tree: Constituent) -> Constituent:
    """A copy of the tree in which each label ends before its first "-" or "=" that is not its first character: "NP-SBJ"
    becomes "NP".
    """
    children = [without_functions(child) if isinstance(child, Constituent) else child for child in tree.children]
    return Constituent(_category(tree.label), children)


def _category(label: str) -> str:
    return label if label == "-NONE-" else label[:1] + re.split("[-=]", label[1:])[0]


# ---------------------------------------------------------------------- tags


def to_tags(tree: Constituent) -> list[str]:
    """One tag for each word: three parts joined by "|".

    The first part is the number of constituents that the word shares with the next word. It is "1" if they share the
    root only. Otherwise it is the difference to the number of the word before: "+2", "0", "-1". The second is the label
    of the smallest constituent that they share. The third is the label of a constituent that the word alone forms, or
    "_". The last word of a tree has "end" as the first part and "_" as the second. Constituents with one child join
    their label with the child's by "+". ``from_tags`` restores the tree without words and parts of speech.

    Raises UserError if a label contains "+" or "|".
    """
    paths = list(_paths(tree, ()))
    chains = [chain for _, chain in paths]
    shared = [_common(path, following) for (path, _), (following, _) in pairwise(paths)]
    tags, before = [], 0
    for place, depth in enumerate(shared):
        level = "1" if depth == 1 else f"{depth - before:+d}" if depth != before else "0"
        tags.append(PART.join((level, paths[place][0][depth - 1][1], chains[place] or NONE)))
        before = depth
    return [*tags, PART.join((LAST, NONE, chains[-1] or NONE))]


_Path = tuple[tuple[int, str], ...]  # (identity, label) of the constituents around a word, from the root


def _paths(node: Constituent, above: _Path) -> Iterator[tuple[_Path, str]]:
    """For each word below a constituent: the constituents of several children around it, and the label of those that it
    forms alone (empty if there are none).
    """
    labels, children = [node.label], node.children
    while len(children) == 1 and isinstance(only := children[0], Constituent):
        labels.append(only.label)
        children = only.children
    for label in labels:
        if CHAIN in label or PART in label:
            raise UserError(f"the label {label!r} of a tree has {CHAIN!r} or {PART!r}, which join labels: rename it")
    chain = CHAIN.join(labels)
    if len(children) == 1:
        yield above, chain
        return
    here = (*above, (id(node), chain))
    for child in children:
        if isinstance(child, Constituent):
            yield from _paths(child, here)
        else:
            yield here, ""


def _common(one: _Path, other: _Path) -> int:
    """The number of constituents at the beginning of both paths."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def from_tags(tags: Sequence[str]) -> Constituent:
    """The tree that tags describe, with XX for words and parts of speech. Any sequence of tags describes a tree.

    The first label that is given for a constituent counts. A constituent without a label leaves its children to the one
    above. A tag that cannot be read changes nothing: its word shares as many constituents with the next word as with
    the word before. A number of shared constituents below 1 counts as 1, and one above ``DEEPEST`` as ``DEEPEST``.
    """
    root = Constituent("")
    path, before = [root], 0
    for place, tag in enumerate(tags):
        level, label, own = _parts(tag)
        last = place == len(tags) - 1
        after = before if last else _depth(level, before)
        while len(path) < max(before, after):
            path[-1].children.append(opened := Constituent(""))
            path.append(opened)
        path[-1].children.append(Constituent(own, [Leaf()]) if own else Leaf())
        del path[max(after, 1) :]
        if not last:
            path[-1].label = path[-1].label or label
        before = after
    return _labelled(root)


def _parts(tag: str) -> tuple[str, str, str]:
    """The three parts of a tag. "_" and missing parts are empty texts."""
    level, label, own = (*tag.split(PART), "", "")[:3]
    return level, *("" if part == NONE else part for part in (label, own))  # type: ignore[return-value]


def _depth(level: str, before: int) -> int:
    """The number of constituents shared with the next word, from the first part of a tag and the number ``before``."""
    if level == "1":
        return 1
    change = int(level) if re.fullmatch(r"[+-]\d{1,3}|0", level) else 0
    return min(max(before + change, 1), DEEPEST)


def _labelled(root: Constituent) -> Constituent:
    """The tree with joined labels apart and without constituents that have no label. A root that would disappear gets
    the label ROOT, unless a constituent is its only child and can take its place.
    """

    def inside(node: Constituent) -> list[Constituent | Leaf]:
        children = [
            each for child in node.children for each in (inside(child) if isinstance(child, Constituent) else [child])
        ]
        for label in reversed(node.label.split(CHAIN)):
            children = [Constituent(label, children)] if label else children
        return children

    top = inside(root)
    return top[0] if len(top) == 1 and isinstance(top[0], Constituent) else Constituent(TOP, top)


# ------------------------------------------------------------------ brackets


def to_brackets(tree: Constituent) -> list[str]:
    """The tree from left to right: "(LABEL" opens a constituent, ")" closes one, and "XX" is a word."""
    inside = (to_brackets(child) if isinstance(child, Constituent) else [WORD] for child in tree.children)
    return [f"({tree.label}", *(item for items in inside for item in items), CLOSE]


def from_brackets(items: Sequence[str]) -> Constituent:
    """The tree that such items describe, with XX for words and parts of speech. Any sequence of items describes a tree.

    A bracket that closes nothing, an unknown item and an empty constituent are left out. Constituents that are not
    closed end with the last item. Items after the root is closed become its last children.
    """
    root = Constituent("")
    path = [root]
    for item in items:
        if item == WORD:
            path[-1].children.append(Leaf())
        elif item == CLOSE:
            if len(path) > 1:
                path.pop()
        elif item.startswith("(") and len(path) <= DEEPEST:
            path[-1].children.append(opened := Constituent(item[1:]))
            path.append(opened)
    whole = with_words(root, [WORD] * len(root.leaves))  # without empty constituents
    first = whole.children[0] if whole.children else None
    if not isinstance(first, Constituent):
        return Constituent(TOP, whole.children)
    return Constituent(first.label, [*first.children, *whole.children[1:]])


# --------------------------------------------------------------------- spans

Span = tuple[str, int, int]  # label, index of the first word, index after the last word


def brackets(tree: Constituent, ignored: Sequence[bool]) -> Counter[Span]:
    """The labelled brackets of a tree, each with its number of times, as the program EVALB counts them with its
    parameter file COLLINS.prm.

    ``ignored`` says for each word whether it is left out of the count, as punctuation is; indices count the other words
    only. Constituents without other words do not count, and neither do the labels TOP, ROOT, S1 and -NONE-. A label
    ends at its first "-" or "=" that is not its first character. PRT counts as ADVP.
    """
    counts: Counter[Span] = Counter()
    kept = [0]
    for each in ignored:
        kept.append(kept[-1] + (not each))

    def count(node: Constituent, start: int) -> int:
        end = start
        for child in node.children:
            end = count(child, end) if isinstance(child, Constituent) else end + 1
        label = "ADVP" if (category := _category(node.label)) == "PRT" else category
        if kept[start] < kept[end] and label not in _UNCOUNTED:
            counts[label, kept[start], kept[end]] += 1
        return end

    count(tree, 0)
    return counts


_UNCOUNTED = {TOP, "TOP", "S1", "-NONE-", ""}
PUNCTUATION = {",", ":", "``", "''", ".", "-NONE-"}
"""The parts of speech of the words that EVALB leaves out of the count."""
