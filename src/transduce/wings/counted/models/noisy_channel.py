"""A noisy channel over a list of words: which word was meant?

N rows, T tokens, V target vocabulary, C candidate words of a source, L tokens of a word with EOS; S tokens of a source
without EOS; E edges and Q nodes of the tree of words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, SPECIALS, Padded
from transduce.data.corpora import text_lines
from transduce.data.pairs import Pairs
from transduce.models.tables import check, check_ascending, check_offsets, check_range, check_rows, levels
from transduce.training.counted import check_tokens, empty
from transduce.wings.counted.candidates import CandidateState, begin, extend
from transduce.wings.counted.channel import Channel, ChannelCounts, advanced, steps
from transduce.wings.counted.prefix_tree import PrefixTree
from transduce.wings.recipes.origins.misspellings import english_counts


class NoisyChannel(nn.Module):
    """A noisy channel (Kernighan, Church and Gale 1990): p(y | x) = p(x | y) p(y)^weight / Z for the words y of a list.

    The channel p(x | y) says how a word is misspelt. Each token of the word writes one or two tokens of x, or none. The
    choice depends on the token and on its two neighbours (``statistical.channel``), and the sum runs over all ways to
    write x. It is counted from the training pairs, whose source is x and whose target is y, by expectation
    maximisation. ``smoothing`` is the number of observations that a shorter context is worth. The words of the pairs
    need not be in the list.

    ``words`` is a file with a word on each line, or a word, a tab and its count. It is read when the model is counted,
    and the run keeps the words. Without it the list has the English words of the PyPI package ``pyspellchecker``. p(y)
    is the word's count divided by the sum of all counts. A word without a count counts once, and the counts of a word
    that stands on several lines add up. A word with a token that is not in the target vocabulary is left out.

    The search for words is pruned: of the prefixes of one length, the ``width`` most probable ones are continued. Then
    the ``keep`` most probable words are the candidates of the source; all other words have probability 0. If no word
    can write x, the prior alone decides. With probability ``escape`` the next token is drawn evenly from all tokens
    except PAD and BOS, and not from the candidates. So no token is impossible.

    The target's unit must be "characters", because a word of the list is divided into characters. ``copies`` and
    ``target_entries`` come from the data. Raises UserError for a value that is not allowed.
    """

    def __init__(
        self,
        source_vocabulary: int,
        copies: Sequence[int],
        target_entries: Sequence[str],
        words: Path | None = None,
        weight: float = 1.0,
        smoothing: float = 5.0,
        width: int = 1000,
        keep: int = 100,
        escape: float = 1e-5,
    ) -> None:
        super().__init__()
        for name, value, least in (("width", width, 1), ("keep", keep, 1), ("weight", weight, 0)):
            if not least <= value < math.inf:
                raise UserError(f"{name} = {value}: at least {least} was expected")
        if not 0 < smoothing < math.inf:
            raise UserError(f"smoothing = {smoothing}: more than 0 was expected")
        if not 0 < escape < 1:
            raise UserError(f"escape = {escape}: more than 0 and less than 1 was expected")
        self.source_vocabulary, self.copies, self.entries = source_vocabulary, tuple(copies), tuple(target_entries)
        self.words, self.weight, self.smoothing = words, weight, smoothing
        self.width, self.keep, self.escape = width, keep, escape
        self.first = empty(torch.float32, 1 + source_vocabulary)
        self.more = empty(torch.float32, 1 + source_vocabulary)
        self.contexts, self.short_contexts = empty(torch.long), empty(torch.long)
        self.edges, self.tokens, self.shares = empty(torch.int32), empty(torch.int32), empty(torch.float32)

    def counts(self, pairs: Pairs) -> NoisyChannelCounts:
        return NoisyChannelCounts(self, pairs)

    def check_tables(self) -> None:
        check_rows(len(self.contexts), {"first": self.first})
        check_rows(len(self.short_contexts), {"more": self.more})
        check_rows(len(self.tokens), {"shares": self.shares})
        if not len(self.tokens):
            check_rows(0, {"edges": self.edges, "contexts": self.contexts, "short_contexts": self.short_contexts})
            return
        check(len(self.contexts) > 0 and len(self.short_contexts) > 0, "contexts", "one context or more")
        check_ascending("contexts", self.contexts)
        check_ascending("short_contexts", self.short_contexts)
        check_offsets("edges", self.edges, len(self.tokens) + 1, len(self.tokens))
        check_range("tokens", self.tokens, EOS, len(self.entries) - 1)
        parent_E = torch.repeat_interleave(self.edges.long().diff())
        levels("edges", parent_E)
        inner_E = torch.isin(torch.arange(1, len(parent_E) + 1, device=parent_E.device), parent_E)
        check(bool((inner_E != (self.tokens == EOS)).all()), "tokens", "words that end with EOS and nowhere else")

    def start(self, source: Padded) -> CandidateState:
        if not len(self.tokens):
            raise UserError("this noisy channel has no counts yet: train it first")
        search = self._word_search()
        rows = zip(source.values, source.lengths.tolist(), strict=True)
        found = [search(ids_S[: length - 1]) for ids_S, length in rows]
        return begin([(token_CL, chance_C.to(self.first.dtype)) for token_CL, chance_C in found])

    def words_for(self, ids_S: Tensor, most: int) -> list[tuple[tuple[int, ...], float, float]]:
        """The ``most`` words y of the list with the highest p(x | y) p(y)^weight, for one source x [S] without EOS: the
        tokens of y, log p(x | y) and log p(y). There are fewer if the channel cannot write x from ``most`` words.
        """
        search = self._word_search()
        edge_C, score_C, prior_C = search.ended(ids_S)
        score_C, place_C = score_C.topk(min(most, len(score_C)))
        shares_C = prior_C[place_C] / self.weight if self.weight else torch.zeros_like(score_C)
        rows = zip(search.tokens(edge_C[place_C]).tolist(), score_C - prior_C[place_C], shares_C, strict=True)
        return [
            (tuple(token for token in word if token not in (PAD, EOS)), float(channel), float(share))
            for word, channel, share in rows
            if channel.isfinite()
        ]

    def listed(self) -> list[tuple[tuple[int, ...], float]]:
        """The words of the list, each with the logarithm of its share: the tokens without EOS, and log p(y)."""
        search = self._word_search()
        share_E = torch.zeros_like(search.tree.share_E)
        above_E = torch.arange(len(share_E), device=share_E.device)
        while bool((above_E >= 0).any()):
            share_E += torch.where(above_E >= 0, search.tree.share_E[above_E], 0.0)
            above_E = torch.where(above_E >= 0, search.parent_E[above_E] - 1, above_E)
        end_C = (search.tree.token_E == EOS).nonzero()[:, 0]
        rows = zip(search.tokens(end_C).tolist(), share_E[end_C].tolist(), strict=True)
        return [(tuple(token for token in word if token not in (PAD, EOS)), share) for word, share in rows]

    def _word_search(self) -> _WordSearch:
        channel = Channel(self.first.double(), self.more.double(), self.contexts, self.short_contexts)
        tree = PrefixTree(self.edges.long(), self.tokens.long(), self.shares.double())
        return _WordSearch(channel, tree, tree.parents(), self.weight, self.width, self.keep)

    def extend(self, tokens_NT: Tensor, state: CandidateState) -> tuple[Tensor, CandidateState]:
        return extend(tokens_NT, state, len(self.entries), self.escape)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        """log p(v | tokens so far, source) [..., V] of all tokens, or [..., C] of the ``candidates``: a new tensor."""
        return output.clone() if candidates is None else output.index_select(-1, candidates)


@dataclass(frozen=True)
class _WordSearch:
    """The search for the words of a source. ``parent_E`` is the node where each edge of the tree starts; the other
    fields are parts and options of ``NoisyChannel``.
    """

    channel: Channel
    tree: PrefixTree
    parent_E: Tensor
    weight: float
    width: int
    keep: int

    def __call__(self, x_S: Tensor) -> tuple[Tensor, Tensor]:
        """The candidate words [C, L] of the source, PAD at their end, and their probabilities [C] in double precision,
        the most probable word first.
        """
        edge_C, score_C, prior_C = self.ended(x_S)
        score_C = score_C if bool(score_C.isfinite().any()) else prior_C
        score_C, place_C = score_C.topk(min(self.keep, len(score_C)))
        return self.tokens(edge_C[place_C]), score_C.softmax(0)

    def ended(self, x_S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The edges of EOS that the search reaches, and for each log p(x | y) p(y)^weight and log p(y)^weight."""
        edge_N, _ = self.tree.edges(torch.zeros_like(self.tree.first_Q[:1]))
        prior_N = self.weight * self.tree.share_E[edge_N]
        before_N = torch.full_like(edge_N, BOS)
        at_NS = prior_N.new_zeros(len(edge_N), len(x_S) + 1)
        at_NS[:, 0] = 1.0
        ended: list[tuple[Tensor, Tensor, Tensor]] = []
        while len(edge_N):
            after_M, row_M = self.tree.edges(edge_N + 1)
            token_M = self.tree.token_E[edge_N][row_M]
            next_M = self.tree.token_E[after_M]
            places = self.channel.places(before_N[row_M], token_M, next_M)
            none_1M, one_1MS, two_1MS = steps(self.channel, x_S[None], places[0][None], places[1][None])
            at_NS = advanced(at_NS[row_M], none_1M[0], one_1MS[0], two_1MS[0])
            prior_N = prior_N[row_M] + self.weight * self.tree.share_E[after_M]
            ends_M = next_M == EOS
            ended.append((after_M[ends_M], at_NS[ends_M, -1], prior_N[ends_M]))
            open_M = (~ends_M).nonzero()[:, 0]
            hope_M = at_NS[open_M].amax(1).log() + prior_N[open_M]
            kept_M = open_M[hope_M.topk(min(self.width, len(open_M)), sorted=False).indices]
            edge_N, before_N, at_NS, prior_N = after_M[kept_M], token_M[kept_M], at_NS[kept_M], prior_N[kept_M]
        edge_C, chance_C, prior_C = (torch.cat(each) for each in zip(*ended, strict=True))
        return edge_C, chance_C.log() + prior_C, prior_C

    def tokens(self, edge_C: Tensor) -> Tensor:
        """[C, L]: the words whose EOS these edges are, with EOS, and PAD after it."""
        columns = []
        while bool((edge_C >= 0).any()):
            columns.append(torch.where(edge_C >= 0, self.tree.token_E[edge_C], PAD))
            edge_C = torch.where(edge_C >= 0, self.parent_E[edge_C] - 1, edge_C)
        backwards_CL = torch.stack(columns, 1)
        length_C1 = (backwards_CL != PAD).sum(1, keepdim=True)
        place_CL = length_C1 - 1 - torch.arange(len(columns), device=edge_C.device)
        return backwards_CL.gather(1, place_CL.clamp(min=0)).masked_fill(place_CL < 0, PAD)


class NoisyChannelCounts:
    """Counts of a noisy channel: the words of its list, and expectation maximisation of the channel.

    Raises UserError for numbers instead of tokens, if the target's unit is not characters, for a file of words that
    cannot be used, and if no pair can be counted.
    """

    def __init__(self, model: NoisyChannel, pairs: Pairs) -> None:
        check_tokens("a noisy channel", pairs.source, pairs.target)
        self.model = model
        counts = english_counts() if model.words is None else _counts(model.words)
        known = {entry: place for place, entry in enumerate(model.entries) if place >= len(SPECIALS)}
        if any(len(entry) != 1 for entry in known):
            raise UserError('a noisy channel divides words into characters: set data.units.target to "characters"')
        spelled = {word: [*map(known.__getitem__, word), EOS] for word in counts if known.keys() >= set(word)}
        if not spelled:
            raise UserError(
                f"the training targets have other characters than each of the {len(counts):,} words of the list: give "
                "another file as model.words, or other targets"
            )
        self.tree = PrefixTree.of(list(spelled.values()), [counts[word] for word in spelled])
        copies = torch.tensor(model.copies or [PAD] * model.source_vocabulary)
        self.ways = ChannelCounts(pairs, _contexts(self.tree), copies, model.source_vocabulary, model.smoothing)
        if not len(self.ways.rows):
            raise UserError(
                "no training pair can be counted: a source has at most two tokens for each token of its target, and a "
                "target is not empty"
            )
        self.tokens = int(pairs.target_lengths[self.ways.rows].sum())
        left_out, uncut = len(counts) - len(spelled), len(self.ways.uncut)
        self.report = (
            f"{len(spelled):,} words in the list"
            + (f"; {left_out:,} more have characters that no training target has" if left_out else ""),
            *([f"{uncut:,} pairs with a source of more than two tokens a letter are not counted"] if uncut else []),
        )

    def reestimate(self) -> float:
        return self.ways.reestimate()

    def store(self) -> None:
        channel = self.ways.channel
        for name, values in (
            ("first", channel.first_CK),
            ("more", channel.more_DK),
            ("contexts", channel.context_C),
            ("short_contexts", channel.context_D),
            ("edges", self.tree.first_Q),
            ("tokens", self.tree.token_E),
            ("shares", self.tree.share_E),
        ):
            parameter: nn.Parameter = getattr(self.model, name)
            parameter.data = values.to(parameter)


def _contexts(tree: PrefixTree) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens before, at and after each place of the words: three tensors of one length."""
    parent_E = tree.parents()
    inner_M = (parent_E > 0).nonzero()[:, 0]
    at_M = parent_E[inner_M] - 1
    start_M = parent_E[at_M]
    before_M = torch.where(start_M > 0, tree.token_E[start_M - 1], BOS)
    return before_M, tree.token_E[at_M], tree.token_E[inner_M]


def _counts(path: Path) -> dict[str, float]:
    """The words of a file and their counts. Raises UserError for a count that is no positive number, and for a file
    without words.
    """
    counts: dict[str, float] = {}
    for number, line in enumerate(text_lines(path.expanduser()), 1):
        word, tab, count = line.strip().partition("\t")
        try:
            value = float(count) if tab else 1.0
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise UserError(
                f"{path}:{number}: {count!r} is no count of {word!r}: expected a positive number after the tab"
            )
        if word:
            counts[word] = counts.get(word, 0.0) + value
    if not counts:
        raise UserError(f"{path} has no words: expected a word on each line")
    return counts
