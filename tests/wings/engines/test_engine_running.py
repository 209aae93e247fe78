"""Sources that enter and leave a search of the engine between its steps: each has the answer that it has alone."""

from __future__ import annotations

import random

import pytest
from test_engine_file import SEARCHES, TABLES, content, needs_engine, rows_of

import transduce_engine
from families import PARALLEL, sources
from selection import mostly_slow
from transduce_engine import Answer, Engine, Wanted

pytestmark = needs_engine
SOME = sources([5, 1, 3, 8, 2, 7, 6, 4, 12, 9])
FAST = {"transformer, pre-norm", "convs2s", "luong, gru, scaled dot, fed", "edits with counts"}


def alone(engine: Engine, rows: list[list[int]], begun: list[list[int]]) -> list[Answer]:
    search = engine.note("search")
    return [engine.search_ids([row], search, Wanted([prefix]))[0] for row, prefix in zip(rows, begun, strict=True)]


@pytest.mark.parametrize("search", ["greedy, at least 4", "beam 5", "samples, cut, long"])
@pytest.mark.parametrize("name", mostly_slow(list(TABLES), fast=FAST))
def test_each_source_has_its_answer_whenever_it_comes(name: str, search: str) -> None:
    _, file = content(TABLES[name], SEARCHES[search])
    engine = transduce_engine.load(file)
    rows, begun = rows_of(SOME), [[], [5], [6, 7, 4], [], [], [10, 10], [], [4], [], []]
    expected = alone(engine, rows, begun)
    for seed in range(4):
        drawn = random.Random(seed)
        running, found, waiting = engine.running(), dict[int, Answer](), drawn.sample(range(len(rows)), len(rows))
        while len(found) < len(rows):
            count = drawn.choice([0, 0, 1, 3])
            entering, waiting = waiting[:count], waiting[count:]
            if entering:
                running.enter(entering, [rows[n] for n in entering], Wanted([begun[n] for n in entering]))
            found |= running.step()
        assert [found[n] for n in range(len(rows))] == expected


@pytest.mark.parametrize("name", ["transformer, pre-norm", "luong, gru, scaled dot, fed"])
def test_many_sources_go_through_the_model_in_groups(name: str) -> None:
    """A group has nine sources with a beam of five."""
    engine = transduce_engine.load(content(TABLES[name], SEARCHES["beam 5"])[1])
    rows = rows_of(sources([5, 1, 3, 8, 2, 7, 6, 4, 12, 9, 5, 3, 2, 1, 7, 8, 4, 6, 3, 5, 11, 2, 9]))
    begun = [[5] * (n % 3) for n in range(len(rows))]
    expected, wanted = alone(engine, rows, begun), Wanted(begun)
    assert engine.search_ids(rows, "", wanted, batch=len(rows)) == expected
    running = engine.running()
    running.enter(range(20), rows[:20], Wanted(begun[:20]))
    found = dict(running.step())
    running.enter(range(20, 23), rows[20:], Wanted(begun[20:]))
    while len(found) < len(rows):
        found |= running.step()
    assert [found[n] for n in range(len(rows))] == expected


def test_several_steps_end_when_enough_sources_have_ended() -> None:
    engine = transduce_engine.load(content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"])[1])
    rows = rows_of(SOME)
    expected = alone(engine, rows, [[]] * len(rows))

    def found(ended: int, most: int) -> list[list[int]]:
        """The keys of the sources that each call returns."""
        running, calls, answers = engine.running(), list[list[int]](), dict[int, Answer]()
        running.enter(range(len(rows)), rows)
        while len(answers) < len(rows):
            some = running.advance(ended, most)
            calls.append(some.keys)
            answers |= zip(some.keys, some.answers, strict=True)
        assert [answers[n] for n in range(len(rows))] == expected
        return calls

    single = found(1, 1)
    threes = [{key for keys in single[n : n + 3] for key in keys} for n in range(0, len(single), 3)]
    assert threes == [set(keys) for keys in found(len(rows), 3)]
    assert all(len(each) >= 4 for each in found(4, 1000)[:-1])
    assert len(found(len(rows), 1000)) == 1


def test_sources_that_are_dropped_change_nothing() -> None:
    engine = transduce_engine.load(content(TABLES["luong, ssru"], SEARCHES["beam 5"])[1])
    rows = rows_of(SOME)
    running, found = engine.running(), dict[int, Answer]()
    running.enter(range(5), rows[:5])
    found |= running.step()
    running.enter([8, 9], rows[7:9])
    running.drop([0, 3, 9, 99])  # and one that has not started
    running.enter([3], rows[6:7])
    for _ in range(12):
        found |= running.step()
    assert found.keys() >= {1, 2, 3, 4, 8}
    assert not found.keys() & {0, 9}
    assert found[3] == engine.answer_ids(rows[6:7])[0]
    assert running.step() == []


def test_rows_that_do_not_fit_leave_the_search_as_it_is() -> None:
    engine = transduce_engine.load(content(TABLES["edits"], SEARCHES["greedy"])[1])
    running, rows = engine.running(), rows_of(SOME)
    running.enter([7], rows[:1])
    with pytest.raises(transduce_engine.EngineError, match=r"^input 2: id 999 is outside a vocabulary of"):
        running.enter([1, 2], [rows[1], [999, 2]])
    with pytest.raises(transduce_engine.EngineError, match=r"^id 99 cannot stand in a prefix$"):
        running.enter([1], rows[1:2], Wanted([[99]]))
    found = dict[int, Answer]()
    while not found:
        found |= running.step()
    assert found == {7: engine.answer_ids(rows[:1])[0]}


def test_the_beam_and_the_number_of_outputs_are_chosen_for_the_search() -> None:
    engine = transduce_engine.load(content(TABLES["convs2s"], SEARCHES["greedy"])[1])
    running, rows = engine.running(nbest=3), rows_of(SOME)
    running.enter([1], rows[:1])
    found = dict[int, Answer]()
    while not found:
        found |= running.step()
    assert found == {1: engine.answer_ids(rows[:1], nbest=3)[0]}
    with pytest.raises(transduce_engine.EngineError, match=r"^beam = -1: 1 to 1000 was expected$"):
        engine.running(beam=-1)


def test_a_model_that_writes_all_at_once_is_refused() -> None:
    engine = transduce_engine.load(content(PARALLEL["tagger, lstm"], {"type": "labels"})[1])
    with pytest.raises(transduce_engine.EngineError, match=r"^this model answers whole batches"):
        engine.running()
