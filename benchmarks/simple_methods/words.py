"""Words into words: spelling, accents, pronunciation and inflection."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from importlib import resources
from itertools import chain

from sklearn_crfsuite import CRF
from symspellpy import SymSpell, Verbosity

from simple_methods.base import Examples, Splits, outputs, sources, targets
from transduce.core.types import Prediction

WORD = re.compile(r"\w+")
LONGEST = 20_000  # training words of pronunciation
NOTHING = "-"

# -------------------------------------------------------------------- spelling


def corrected(data: Splits) -> list[Prediction]:
    """The word of a misspelling that training has, else the nearest word of the library's list and of the training
    targets, within two edits; of several the most frequent one.
    """
    known = Counter(targets(data.train))
    checker = SymSpell(max_dictionary_edit_distance=2)
    checker.load_dictionary(str(resources.files("symspellpy") / "frequency_dictionary_en_82_765.txt"), 0, 1)
    for word, count in known.items():
        checker.create_dictionary_entry(word, count)
    learned = most_frequent_targets((each.source, each.references[0]) for each in data.train)
    options = {"max_edit_distance": 2, "include_unknown": True, "transfer_casing": True}
    found = (checker.lookup(source, Verbosity.TOP, **options)[0].term for source in sources(data.test))
    return outputs([learned.get(source, word) for source, word in zip(sources(data.test), found, strict=True)])


# --------------------------------------------------------------------- accents


def with_accents(data: Splits) -> list[Prediction]:
    """The most frequent form of each word in the training targets. Other words stay."""
    pairs = ((WORD.findall(each.source), WORD.findall(each.references[0])) for each in data.train)
    forms = most_frequent_targets(chain.from_iterable(zip(*pair, strict=True) for pair in pairs))
    return outputs([WORD.sub(lambda found: forms.get(found[0], found[0]), text) for text in sources(data.test)])


def most_frequent_targets(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each source its most frequent target; of equally frequent ones the first."""
    counts = defaultdict[str, Counter[str]](Counter)
    for source, target in pairs:
        counts[source][target] += 1
    return {source: found.most_common(1)[0][0] for source, found in counts.items()}


# --------------------------------------------------------------- pronunciation


def pronounced(data: Splits) -> list[Prediction]:
    """The averaged perceptron of CRFsuite: a label for each letter, of no, one or two phonemes. The letters are aligned
    by how often letter and phoneme are in one word.
    """
    pairs = [(each.source, each.references[0].split()) for each in data.train[:: -(-len(data.train) // LONGEST)]]
    labels = aligned(pairs)
    learned = [(word, row) for (word, _), row in zip(pairs, labels, strict=True) if row]
    model = CRF(algorithm="ap", max_iterations=15)
    model.fit([_letters(word) for word, _ in learned], [row for _, row in learned])
    found = model.predict([_letters(word) for word in sources(data.test)])
    return outputs([" ".join(" ".join(row).replace(NOTHING, " ").split()) for row in found])


def aligned(pairs: Sequence[tuple[str, list[str]]], rounds: int = 3) -> list[list[str]]:
    """The label of each letter of each word. Empty for a word with more than two phonemes a letter. The first round
    takes letter and phoneme of words, and the others those that the last round aligned.
    """
    together, letters = Counter[tuple[str, str]](), Counter[str]()
    for word, phonemes in pairs:
        letters.update(word)
        together.update({(letter, phoneme) for letter in word for phoneme in phonemes})
    rows: list[list[str]] = []
    for _ in range(rounds):
        rows = [best_row(word, phonemes, together, letters) for word, phonemes in pairs]
        together = Counter(
            (letter, phoneme)
            for (word, _), row in zip(pairs, rows, strict=True)
            if row
            for letter, label in zip(word, row, strict=True)
            for phoneme in label.split()
        )
    return rows


def best_row(word: str, phonemes: list[str], together: Counter[tuple[str, str]], letters: Counter[str]) -> list[str]:
    """The labels of a word with the largest sum of shares, by dynamic programming."""
    best: dict[int, tuple[float, list[str]]] = {0: (0.0, [])}  # by the phonemes that are written
    for letter in word:
        after: dict[int, tuple[float, list[str]]] = {}
        for done, (score, row) in best.items():
            for size in range(min(2, len(phonemes) - done) + 1):
                some = phonemes[done : done + size]
                gain = sum(together[letter, each] for each in some) / letters[letter] - 0.1 * (size == 2)
                if score + gain > after.get(done + size, (-1e9, []))[0]:
                    after[done + size] = (score + gain, [*row, " ".join(some) or NOTHING])
        best = after
    return best.get(len(phonemes), (0.0, []))[1]


def _letters(word: str) -> list[list[str]]:
    """For each letter, the letters up to four places away, and n-grams around it."""
    padded = f"^^^^{word}$$$$"
    spans = [(place, place) for place in range(-4, 5)] + [(-1, 0), (0, 1), (-2, 0), (0, 2), (-1, 1), (0, 3), (-3, 0)]
    spans += [(-2, 2), (1, 2), (-2, -1)]
    return [[f"{a},{b}={padded[at + a : at + b + 1]}" for a, b in spans] for at in range(4, len(word) + 4)]


# ------------------------------------------------------------------ inflection


def inflected(data: Splits) -> list[Prediction]:
    """The baseline of the shared tasks since 2017: the longest known change of an ending for these features, and the
    most frequent change of a beginning.
    """
    endings = defaultdict[tuple[str, str], Counter[str]](Counter)
    beginnings = defaultdict[str, Counter[tuple[str, str]]](Counter)
    for features, lemma, form in _parts(data.train):
        (a, b, size) = SequenceMatcher(None, lemma, form, autojunk=False).find_longest_match()
        beginnings[features][lemma[:a], form[:b]] += 1
        for start in range(a, a + size + 1):  # the ending, and the letters of the stem before it
            endings[features, lemma[start:]][form[b + start - a :]] += 1
    changed = []
    for features, lemma, _ in _parts(data.test):
        longest = (start for start in range(len(lemma) + 1) if (features, lemma[start:]) in endings)
        start = next(longest, len(lemma))
        ((ending, _),) = endings.get((features, lemma[start:]), Counter([""])).most_common(1)
        form = lemma[:start] + ending
        old, new = next((rule for rule, _ in beginnings[features].most_common() if form.startswith(rule[0])), ("", ""))
        changed.append(new + form[len(old) :])
    return outputs(changed)


def _parts(examples: Examples) -> list[tuple[str, str, str]]:
    """Features, lemma and form. A source has the features, a tab, and the lemma."""
    return [(*each.source.split("\t", 1), each.references[0]) for each in examples]  # type: ignore[misc]
