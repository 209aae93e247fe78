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


def test_sources_that_are_dropped_change_nothing() -> None:
    engine = transduce_engine.load(content(TABLES["luong, ssru"], SEARCHES["beam 5"])[1])
    rows = rows_of(SOME)
    running, found = engine.running(), dict[int, Answer]()
    running.enter(range(5), rows[:5])
    found |= running.step()
    running.drop([0, 3, 99])
    running.enter([3], rows[6:7])
    for _ in range(12):
        found |= running.step()
    assert found.keys() >= {1, 2, 3, 4}
    assert 0 not in found
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
