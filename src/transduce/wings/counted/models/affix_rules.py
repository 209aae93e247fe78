"""Rules that change a word at its beginning and its end: inflection, counted in one pass.

N sources, C candidates of a source, L tokens of a candidate with EOS; R rules, M contexts, E counts of rules in them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import EOS, PAD, UNK, Padded
from transduce.data.pairs import Pairs
from transduce.models.tables import check, check_ascending, check_offsets, check_range, check_rows
from transduce.search.forcing import force
from transduce.training.counted import OnePass, check_tokens, empty
from transduce.wings.counted.affix_rule import AffixRule, Tokens, contexts, parts, rule_of
from transduce.wings.counted.candidates import CandidateState, begin, extend

TIES = 1e-6  # by which the first rule is more probable than the last one
ROWS = 64  # pairs of a batch whose log-probability is computed


class AffixRules(nn.Module):
    """Rules for the ends of words: "V;PST walk" becomes "walked" by the rule that adds "ed". For inflection.

    A source has features and a word, as the unit "features" makes them; or a word alone. A rule puts tokens before the
    word, takes tokens from its end, and adds others. Training pairs tell the rules. How probable a rule is depends on
    the features and on the end of the word, by successive abstraction (Samuelsson 1993): p_k(rule) = (c_k(rule) +
    s p_{k-1}(rule)) / (c_k + s), with the counts c_k in the k-th context and ``strength`` s. The contexts are none, the
    first feature, the first two features and so on; then also the last token of the word, the last two, and so on up to
    ``letters``. So the longest ending that training has decides most, as in the baseline of the shared tasks
    (Cotterell et al. 2017), which has no probabilities.

    The ``keep`` most probable rules that can change the word make the candidates of the source; all other outputs have
    probability 0. With probability ``escape`` the next token is drawn evenly from all tokens except PAD and BOS. So no
    token is impossible. ``copies`` and ``target_vocabulary`` come from the data. Raises UserError for a value that is
    not allowed.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        copies: Sequence[int],
        letters: int = 12,
        strength: float = 0.5,
        keep: int = 50,
        escape: float = 1e-5,
    ) -> None:
        super().__init__()
        for name, value, least in (("letters", letters, 0), ("keep", keep, 1)):
            if not value >= least:
                raise UserError(f"{name} = {value}: at least {least} was expected")
        if not 0 < strength < math.inf:
            raise UserError(f"strength = {strength}: more than 0 was expected")
        if not 0 < escape < 1:
            raise UserError(f"escape = {escape}: more than 0 and less than 1 was expected")
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self.copies = tuple(copies) or (PAD,) * source_vocabulary
        self.letters, self.strength, self.keep, self.escape = letters, strength, keep, escape
        self.taken = empty(torch.int32)  # [R], the tokens that each rule takes from the end
        self.before, self.behind = (
            empty(torch.int32),
            empty(torch.int32),
        )  # of all rules, joined
        self.before_ends, self.behind_ends = empty(torch.int32), empty(torch.int32)  # [1 + R], where those of each end
        self.keys = empty(torch.long)  # [M - 1] of all contexts but the empty one: parent * source_vocabulary + token
        self.ends = empty(torch.int32)  # [1 + M], where the counts of each context end
        self.rules, self.counted = empty(torch.int32), empty(torch.float32)  # [E], the rules of a context, their counts

    def counts(self, pairs: Pairs) -> AffixRuleCounts:
        return AffixRuleCounts(self, pairs)

    def check_tables(self) -> None:
        count = len(self.taken)
        if not count:
            check_rows(0, dict(self.named_parameters()))
            return
        check_range("taken", self.taken, 0, 2**31 - 1)
        for name in ("before", "behind"):
            tokens = getattr(self, name)
            check_range(name, tokens, UNK, self.target_vocabulary - 1)
            check_offsets(f"{name}_ends", getattr(self, f"{name}_ends"), count, len(tokens))
        check_ascending("keys", self.keys)
        check_range("keys", self.keys, 0, (len(self.keys) + 1) * self.source_vocabulary - 1)
        parent_M = self.keys // self.source_vocabulary
        behind_M = torch.arange(1, len(parent_M) + 1, device=parent_M.device)
        check(bool((parent_M < behind_M).all()), "keys", "contexts that follow their shorter ones")
        check_offsets("ends", self.ends, len(self.keys) + 1, len(self.rules))
        check(bool((self.ends.diff() > 0).all()), "ends", "a rule or more in each context")
        check_range("rules", self.rules, 0, count - 1)
        check_rows(len(self.rules), {"counted": self.counted})
        check(bool((self.counted > 0).all()), "counted", "numbers above 0")

    def start(self, source: Padded) -> CandidateState:
        if not len(self.taken):
            raise UserError("these affix rules have no counts yet: train them first")
        reader = _Reader(self)
        rows = zip(source.values.tolist(), source.lengths.tolist(), strict=True)
        found = [reader(ids[: length - 1]) for ids, length in rows]
        return begin([(tokens.to(self.keys), chance.to(self.counted)) for tokens, chance in found])

    def extend(self, tokens_NT: Tensor, state: CandidateState) -> tuple[Tensor, CandidateState]:
        return extend(tokens_NT, state, self.target_vocabulary, self.escape)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        """log p(v | tokens so far, source) [..., V] of all tokens, or [..., C] of the ``candidates``: a new tensor."""
        return output.clone() if candidates is None else output.index_select(-1, candidates)


class _Reader:
    """Finds the candidates of sources."""

    def __init__(self, model: AffixRules) -> None:
        self.model = model
        self.keys, self.ends, self.rules = (each.cpu().numpy() for each in (model.keys, model.ends, model.rules))
        self.counted, self.taken = model.counted.double().cpu().numpy(), model.taken.cpu().numpy()

    def __call__(self, source: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The candidates [C, L] of a source without EOS, PAD at their ends, and their probabilities [C], which sum to
        1. The word itself is the only candidate if no rule can change it.
        """
        features, word = parts(source, self.model.copies, UNK)
        chance_R = self.chances(contexts(source, len(features), self.model.letters))
        chance_R[self.taken > len(word)] = 0.0
        best = np.argsort(-chance_R, kind="stable")[: self.model.keep]
        found = defaultdict[Tokens, float](float)
        for number in best[chance_R[best] > 0]:
            found[self._rule(int(number))(word) or ()] += float(chance_R[number])
        every = found or {word: 1.0}
        longest = max(map(len, every))
        tokens = [[*form, EOS] + [PAD] * (longest - len(form)) for form in every]
        chance_C = torch.tensor(list(every.values()), dtype=torch.float64)
        return torch.tensor(tokens), chance_C / chance_C.sum()

    def chances(self, context: Iterable[int]) -> NDArray[np.float64]:
        """[R]: p(rule | context). Of equally probable rules, the one that training has first is a little more probable:
        otherwise chance would decide.
        """
        chance_R = np.zeros(len(self.taken))
        for place in self._places(context):
            counts, rules = self._counts(place)
            kept = self.model.strength if place else 0.0
            chance_R *= kept / (counts.sum() + kept)
            chance_R[rules] += counts / (counts.sum() + kept)
        return chance_R * np.linspace(1 + TIES, 1, len(chance_R))

    def _places(self, context: Iterable[int]) -> Iterator[int]:
        """The contexts of a source that training has, from the empty one to the longest."""
        place = 0
        yield place
        for token in context:
            key = place * self.model.source_vocabulary + token
            at = int(np.searchsorted(self.keys, key))
            if at == len(self.keys) or self.keys[at] != key:
                return
            place = at + 1
            yield place

    def _counts(self, place: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        some = slice(self.ends[place], self.ends[place + 1])
        return self.counted[some], self.rules[some]

    def _rule(self, number: int) -> AffixRule:
        model = self.model
        before = model.before[model.before_ends[number] : model.before_ends[number + 1]]
        behind = model.behind[model.behind_ends[number] : model.behind_ends[number + 1]]
        return AffixRule(tuple(before.tolist()), int(self.taken[number]), tuple(behind.tolist()))


class AffixRuleCounts(OnePass):
    """The rules of the pairs, and how often each occurs in each context.

    Raises UserError for numbers instead of tokens, and if no source has a token that a target can have.
    """

    def __init__(self, model: AffixRules, pairs: Pairs) -> None:
        check_tokens("a model of affix rules", pairs.source, pairs.target)
        tokens = int(pairs.target_lengths.sum())
        super().__init__(tokens, tokens, model.target_vocabulary - UNK)
        self.model, self.pairs = model, pairs
        self._sources = [source.tolist() for source in pairs.source.unclosed()]
        split = [parts(source, model.copies, UNK) for source in self._sources]
        if not any(word for _, word in split):
            raise UserError(
                "affix rules change words, and no source has a token that a target has: give both sides the same unit, "
                'such as data.units = { source = { type = "features", text = "characters" }, target = "characters" }'
            )
        targets = [tuple(target.tolist()) for target in pairs.target.unclosed()]
        self._features = [len(features) for features, _ in split]
        self._rules = [rule_of(word, target) for (_, word), target in zip(split, targets, strict=True)]
        self.report = (f"{len(set(self._rules)):,} rules for the ends of words",)

    def count(self) -> None:
        numbers = {rule: number for number, (rule, _) in enumerate(Counter(self._rules).most_common())}
        pairs = zip(self._sources, self._features, strict=True)
        followed = [contexts(source, features, self.model.letters) for source, features in pairs]
        keys, counters = _tree(followed, [numbers[rule] for rule in self._rules], self.model.source_vocabulary)
        self._store("taken", [rule.taken for rule in numbers])
        for name, rows in (
            ("before", [rule.before for rule in numbers]),
            ("behind", [rule.behind for rule in numbers]),
        ):
            self._store(name, [token for row in rows for token in row])
            self._store(f"{name}_ends", np.cumsum([0, *map(len, rows)]))
        self._store("keys", keys)
        self._store("ends", np.cumsum([0, *map(len, counters)]))
        self._store("rules", [rule for counter in counters for rule in counter])
        self._store("counted", [count for counter in counters for count in counter.values()])

    def _store(self, name: str, values: Sequence[int] | NDArray[np.int64]) -> None:
        parameter: nn.Parameter = getattr(self.model, name)
        parameter.data = torch.tensor(np.asarray(values)).to(parameter)

    def log_prob(self) -> float:
        device = self.model.keys.device
        batches = ((each.source.to(device), each.target.to(device)) for each in self.pairs.in_turn(ROWS))
        return sum(found.log_prob for pair in batches for found in force(self.model, *pair))


def _tree(followed: Sequence[Tokens], rules: Sequence[int], vocabulary: int) -> tuple[list[int], list[Counter[int]]]:
    """The keys of the contexts in the order of their numbers, without the empty context, and the count of each rule in
    each context. Nothing is kept below a context that occurs once, because it says nothing new.
    """
    keys, counters = list[int](), [Counter(rules)]
    level, depth = {0: [*range(len(rules))]}, 0
    while level:
        below = defaultdict[int, list[int]](list)
        for place, rows in level.items():
            for row in rows if len(rows) > 1 else ():
                if depth < len(followed[row]):
                    below[place * vocabulary + followed[row][depth]].append(row)
        level, depth = {}, depth + 1
        for key in sorted(below):
            keys.append(key)
            counters.append(Counter(rules[row] for row in below[key]))
            level[len(keys)] = below[key]
    return keys, counters
