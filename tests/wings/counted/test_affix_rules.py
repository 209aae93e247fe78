"""Affix rules: the rule of a pair, the probability of each rule against the formula, and inflection from end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import transduce
from families import FACTS
from transduce.core.errors import UserError
from transduce.core.types import EOS, UNK, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.search.forcing import force
from transduce.wings.counted.affix_rule import AffixRule, contexts, parts, rule_of
from transduce.wings.counted.models.affix_rules import AffixRules

Call = Callable[..., tuple[int, str, str]]
WORDS = st.lists(st.integers(4, 6), max_size=5).map(tuple)
FEATURE = 9  # a source token without a target
COPIES = (0, 0, 0, 0, 4, 5, 6, 7, 8, 0)


def word(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


@pytest.mark.parametrize(
    ("lemma", "form", "rule"),
    [
        ("walk", "walked", ("", 0, "ed")),
        ("try", "tried", ("", 1, "ied")),
        ("sagen", "gesagt", ("ge", 2, "t")),
        ("haus", "häuser", ("", 3, "äuser")),
        ("go", "ogre", ("", 2, "ogre")),
        ("be", "was", ("", 2, "was")),
        ("a", "a", ("", 0, "")),
    ],
)
def test_the_rule_of_a_pair_keeps_the_most(lemma: str, form: str, rule: tuple[str, int, str]) -> None:
    before, taken, behind = rule
    assert rule_of(word(lemma), word(form)) == AffixRule(word(before), taken, word(behind))


@given(WORDS, WORDS)
def test_a_rule_makes_its_form(lemma: tuple[int, ...], form: tuple[int, ...]) -> None:
    rule = rule_of(lemma, form)
    assert rule(lemma) == form
    assert rule(lemma[: rule.taken - 1] if rule.taken else lemma) == (None if rule.taken else form)


def test_a_source_has_features_and_a_word() -> None:
    assert parts([9, 1, 4, 9, 5], COPIES, UNK) == ((9, 1), (4, UNK, 5))
    assert parts([9], COPIES, UNK) == ((9,), ())
    assert contexts([9, 4, 5, 6], 1, 2) == (9, 6, 5)
    assert contexts([9, 4], 1, 0) == (9,)


def counted(pairs: list[tuple[list[int], list[int]]], **settings: float) -> AffixRules:
    def side(rows: list[list[int]]) -> Ragged:
        closed = [[*row, EOS] for row in rows]
        ends = torch.tensor([0, *map(len, closed)]).cumsum(0).numpy()
        return Ragged(torch.tensor([token for row in closed for token in row]).numpy(), ends)

    model = AffixRules(len(COPIES), len(FACTS.target_entries), COPIES, **settings)  # type: ignore[arg-type]
    counts = model.counts(Pairs(side([source for source, _ in pairs]), side([target for _, target in pairs])))
    counts.store()
    return model


def chance_by_definition(
    pairs: list[tuple[list[int], list[int]]], source: list[int], letters: int, strength: float
) -> dict[AffixRule, float]:
    """p(rule | source), by the formula, with a count of all pairs for each context."""

    def of(each: list[int]) -> tuple[int, ...]:
        return contexts(each, len(parts(each, COPIES, UNK)[0]), letters)

    rules = [rule_of(parts(each, COPIES, UNK)[1], tuple(target)) for each, target in pairs]
    found: dict[AffixRule, float] = {}
    context = of(source)
    for length in range(len(context) + 1):
        counts = Counter(
            rule for rule, (each, _) in zip(rules, pairs, strict=True) if of(each)[:length] == context[:length]
        )
        total, kept = sum(counts.values()), strength if length else 0.0
        if not total:
            break
        found = {rule: (counts[rule] + kept * found.get(rule, 0.0)) / (total + kept) for rule in set(rules)}
        if total == 1:  # longer contexts say the same
            break
    return found


ROWS = st.lists(st.tuples(WORDS, WORDS, st.booleans()), min_size=1, max_size=8)


@given(
    ROWS.filter(lambda rows: any(lemma for lemma, _, _ in rows)),
    WORDS,
    st.sampled_from([0, 1, 3]),
    st.sampled_from([0.1, 2.0]),
)
def test_probabilities_are_those_of_the_formula(
    rows: list[tuple[tuple[int, ...], tuple[int, ...], bool]], asked: tuple[int, ...], letters: int, strength: float
) -> None:
    pairs = [([*([FEATURE] if marked else []), *lemma], list(form)) for lemma, form, marked in rows]
    source = [FEATURE, *asked]
    model = counted(pairs, letters=letters, strength=strength, keep=1000, escape=1e-9)
    expected = Counter[tuple[int, ...]]()
    for rule, chance in chance_by_definition(pairs, source, letters, strength).items():
        if (form := rule(asked)) is not None:
            expected[form] += chance
    total = sum(expected.values())
    forms = [form for form in expected if expected[form] > 0] or [asked]
    longest = max(map(len, forms)) + 1
    target = Padded(
        torch.tensor([[*form, EOS] + [0] * (longest - len(form) - 1) for form in forms]),
        torch.tensor([len(form) + 1 for form in forms]),
    )
    batch = Padded(torch.tensor([[*source, EOS]] * len(forms)), torch.full((len(forms),), len(source) + 1))
    found = [each.log_prob for each in force(model, batch, target)]
    wanted = torch.tensor([expected[form] / total if total else 1.0 for form in forms]).log()
    torch.testing.assert_close(torch.tensor(found).float(), wanted.float(), atol=1e-4, rtol=1e-4)


def test_words_that_no_rule_can_change_stay() -> None:
    model = counted([([9, 4, 5, 6], [7])])  # takes three tokens
    state = model.start(Padded(torch.tensor([[9, 4, EOS], [9, 6, EOS]]), torch.tensor([3, 3])))
    assert state.candidates.value.token_BCL.tolist() == [[[4, EOS]], [[6, EOS]]]


@pytest.mark.parametrize("wrong", [{"letters": -1}, {"keep": 0}, {"strength": 0.0}, {"escape": 1.0}])
def test_a_value_that_is_not_allowed_is_named(wrong: dict[str, float]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(UserError, match=f"^{name} = {value}"):
        counted([([4], [4])], **wrong)
    with pytest.raises(UserError, match="no source has a token that a target has"):
        counted([([9], [4])])


def test_inflection_from_end_to_end(call: Call, tmp_path: Path) -> None:
    stems = ["".join(letters) for letters in product("bdklm", "aeiou", "nrst")]
    lines = [f"{stem}\tV;PST\t{stem}ed" for stem in stems] + [f"{stem}\tN;PL\t{stem}s" for stem in stems]
    lines += [f"{stem}en\tV;PTCP\tge{stem}t" for stem in stems]
    files = {name: tmp_path / f"{name}.tsv" for name in ("train", "valid")}
    files["train"].write_text("\n".join(lines[:-30:2]) + "\n", encoding="utf-8")
    files["valid"].write_text("\n".join(lines[1::20]) + "\n", encoding="utf-8")
    given = [argument for name, path in files.items() for argument in ("--set", f"data.{name}.path={path}")]
    status, _, errors = call("train", "inflection-rules", "--out", str(tmp_path / "run"), *given)
    assert status == 0, errors
    assert "3 rules for the ends of words" in errors, errors
    run = transduce.load(tmp_path / "run", device="cpu")
    assert [run(source) for source in ("V;PST\tmolu", "N;PL\tmolu", "V;PTCP\tmoluen")] == ["molued", "molus", "gemolut"]
