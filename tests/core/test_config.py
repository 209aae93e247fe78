"""Configurations: reading, overriding, checking and building. A resolved configuration builds the same (the law
*spec*)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.core import config, registry
from transduce.core.config import ConfigError
from transduce.core.config.annotations import members, protocol_of
from transduce.core.config.spec import REQUIRED, Parameter, parameters_of
from transduce.core.types import Factory, Facts

S = TypeVar("S")


class Shape(Protocol[S]):
    """A protocol for these tests. The fixture below registers its classes."""

    sides: int


class Colour(Protocol):
    name: str


@dataclass(frozen=True)
class Polygon:
    sides: int
    length: float = 1.0


@dataclass(frozen=True)
class Circle:
    radius: float = 2.0
    sides: int = 0


@dataclass(frozen=True)
class Named:
    name: str = "red"


@dataclass(frozen=True)
class Mixed:
    parts: tuple[Colour, ...]
    name: str = "mixed"


class Sketch:
    """An ordinary class: its constructor is not a dataclass's."""

    def __init__(self, shape: Factory[Shape[Any]], source_vocabulary: int, colour: Colour | None = None) -> None:
        if source_vocabulary < 0:
            raise ValueError(f"source_vocabulary = {source_vocabulary}: expected a count")
        self.shape, self.source_vocabulary, self.colour = shape, source_vocabulary, colour


class Bare:
    """A class that defines no constructor."""


@dataclass(frozen=True)
class Frame:
    width: int
    corners: Shape[Any] = field(default_factory=lambda: Polygon(4))


@dataclass(frozen=True)
class Base:
    path: Path | None = None


@dataclass(frozen=True)
class Picture(Base):
    """One field of every kind that a configuration can write."""

    frame: Frame = Frame(3)
    title: str = "untitled"
    size: tuple[int, int] = (4, 3)
    layers: int = 1
    opacity: float = 1
    visible: bool = True
    style: Literal["oil", "ink", 1] = "oil"
    colour: Colour = Named()
    colours: tuple[Colour, ...] = ()
    tags: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    column: int | str = 0
    limit: float | None = None
    shape: Factory[Shape[Any]] = Circle
    anything: Any = None


@dataclass(frozen=True)
class Holder(Generic[S]):
    shape: Factory[Shape[S]]
    target_vocabulary: int
    source_vocabulary: int = -1


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "NAMES", {**registry.NAMES, "Shape": {}, "Colour": {}})
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("Shape", "polygon", Polygon)
    registry.register("Shape", "circle", Circle)
    registry.register("Shape", "bare", Bare)
    registry.register("Colour", "named", Named)
    registry.register("Colour", "mixed", Mixed)


FACTS = Facts(source_vocabulary=11, target_vocabulary=12)


def refused(*words: str) -> Any:
    """Expects a ConfigError whose text has all these words in order."""
    return pytest.raises(ConfigError, match="(?s)" + ".*".join(re.escape(word) for word in words))


# ------------------------------------------------------------------ tables


def test_what_is_written_is_read(tmp_path: Path) -> None:
    table = {"a": 1, "b": {"c": [1.5, 2.0], "d": {"type": "x", "e": "é = 'quoted' \"twice\"\n"}}, "f": [{"g": True}]}
    (tmp_path / "run.toml").write_text(config.write(table), encoding="utf-8")
    assert config.read(tmp_path / "run.toml") == table
    (tmp_path / "run.toml").write_text(config.write(table), encoding="utf-8-sig")
    assert config.read(tmp_path / "run.toml") == table


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = 1\nb = = 2\n", ("run.toml", "not TOML", "line 2")),
        (b"a = 1\na = 2\n", ("run.toml", "not TOML", "line 2")),
        (b"a = 1\nb = 2\nc = '\xff'\n", ("run.toml", "not UTF-8 at line 3")),
        (b"\xef\xbb\xbf\n\xff", ("run.toml", "not UTF-8 at line 2")),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    (tmp_path / "run.toml").write_bytes(content)
    with refused(*words):
        config.read(tmp_path / "run.toml")


def test_merge_goes_table_by_table_and_changes_neither() -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    over = {"a": {"c": {"f": 3}}, "e": [4], "g": 5}
    assert config.merge(base, over) == {"a": {"b": 1, "c": {"d": 2, "f": 3}}, "e": [4], "g": 5}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    assert over == {"a": {"c": {"f": 3}}, "e": [4], "g": 5}


def test_merge_drops_the_arguments_of_another_type() -> None:
    base = {"cell": {"type": "lstm", "forget_bias": 2.0}}
    assert config.merge(base, {"cell": {"type": "gru"}}) == {"cell": {"type": "gru"}}
    assert config.merge(base, {"cell": {"type": "lstm"}}) == base
    assert config.merge({"cell": {"width": 3}}, {"cell": {"type": "gru"}}) == {"cell": {"width": 3, "type": "gru"}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        (" 2 ", 2),
        ("1_000", 1000),
        ("-0.5", -0.5),
        ("1e-4", 1e-4),
        ("true", True),
        ("True", "True"),
        ('""', ""),
        ('"5"', "5"),
        ("data/x.tsv", "data/x.tsv"),
        ("../a b/x.tsv", "../a b/x.tsv"),
        ("x=y", "x=y"),
        ("a=b=c", "a=b=c"),
        ("1.2.3", "1.2.3"),
        ("0123", "0123"),
        ("2024-01-31", "2024-01-31"),
        ("07:30:00", "07:30:00"),
        ("[1, 2]", [1, 2]),
        ('["a", "b=c"]', ["a", "b=c"]),
        ('{type = "lstm", forget_bias = 2}', {"type": "lstm", "forget_bias": 2}),
        ("1\nlayers = 7", "1\nlayers = 7"),
        ("scaled-dot", "scaled-dot"),
        ("→ é", "→ é"),
    ],
)
def test_override_reads_toml_and_takes_the_rest_as_strings(text: str, value: object) -> None:
    found = config.override({"a": {"z": 0}}, f"a.b.c={text}")
    assert found == {"a": {"z": 0, "b": {"c": value}}}
    assert type(found["a"]["b"]["c"]) is type(value)


def test_a_setting_without_a_value_is_taken_back() -> None:
    table = {"a": {"b": 1, "c": 2}, "d": "x"}
    assert config.change(table, ["a.b="]) == config.change(table, {"a.b": None}) == {"a": {"c": 2}, "d": "x"}
    assert config.change(table, ["a.c=3", "a.c="]) == {"a": {"b": 1}, "d": "x"}
    assert config.change({}, ["a.b="]) == {"a": {}}  # the changes alone, before a table is known
    with pytest.raises(config.ConfigError, match=r"a\.bb: it is not set, so there is nothing to take back"):
        config.change(table, ["a.bb="])
    with pytest.raises(config.ConfigError, match=r"a\.c: set, and lost again with a"):
        config.change(table, ["a.c=3", "a="])


def test_override_changes_only_its_key_in_a_copy() -> None:
    table = {"model": {"encoder": {"layers": 1, "width": 4}}, "seed": 1}
    assert config.override(table, "model.encoder.layers=2")["model"]["encoder"] == {"layers": 2, "width": 4}
    assert config.override(table, 'model.encoder={type = "x"}')["model"] == {"encoder": {"type": "x"}}  # replaced
    assert config.override(table, "seed = 2")["seed"] == 2
    assert table == {"model": {"encoder": {"layers": 1, "width": 4}}, "seed": 1}


def test_override_of_type_starts_the_table_anew() -> None:
    table = {"encoder": {"type": "recurrent", "cell": "lstm", "layers": 2}}
    assert config.override(table, "encoder.type=transformer") == {"encoder": {"type": "transformer"}}
    assert config.override(table, "encoder.type=recurrent") == table


BASE = {"schedule": {"type": "linear", "warmup": 50}, "wiring": {"type": "luong"}, "steps": 9}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["schedule.warmup=5", "schedule.type=cosine"], ("schedule.warmup: set, and", "schedule.type: set the type")),
        ({"schedule.warmup": 5, "schedule.type": "cosine"}, ("schedule.warmup: set, and lost again", "schedule.type")),
        (["wiring={type='luong', attention={energy='dot'}}", "wiring.type=plain"], ("wiring.attention.energy: set",)),
        (["wiring.fed=false", "wiring=plain"], ("wiring.fed: set", 'in one, wiring={type = "plain", fed = ...}')),
        (["schedule.warmup=5", "schedule={type='cosine'}"], ("lost again with schedule: set that first",)),
        (
            ["schedule.warmup=5", "schedule.type=cosine", "schedule.type=sqrt"],
            ("schedule.warmup: set, and lost again",),
        ),
    ],
)
def test_a_change_does_not_lose_what_was_asked_before(settings: Any, words: tuple[str, ...]) -> None:
    with refused(*words):
        config.change(BASE, settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["schedule.type=cosine", "schedule.warmup=5"], {"schedule": {"type": "cosine", "warmup": 5}}),
        (["schedule.warmup=5", "schedule.type=linear"], {"schedule": {"type": "linear", "warmup": 5}}),
        (["schedule.warmup=5", "schedule.warmup=6"], {"schedule": {"type": "linear", "warmup": 6}}),
        (
            ["schedule.warmup=5", "schedule.type=cosine", "schedule.warmup=6"],
            {"schedule": {"type": "cosine", "warmup": 6}},
        ),
        (["schedule.type=cosine", "schedule.type=sqrt"], {"schedule": {"type": "sqrt"}}),
        (["schedule={type='a', x=1}", "schedule={type='b'}"], {"schedule": {"type": "b"}}),
        (["schedule.type=cosine", "schedule=sqrt"], {"schedule": "sqrt"}),
        ({"wiring.type": "plain", "wiring.size": (1, 2)}, {"wiring": {"type": "plain", "size": [1, 2]}}),
    ],
)
def test_of_a_key_that_is_set_again_the_last_counts(settings: Any, expected: config.Table) -> None:
    assert config.change(BASE, settings) == BASE | expected


@pytest.mark.parametrize("setting", ["", "a", "=1", "a..b=1", "a.=1", ".a=1"])
def test_override_refuses_what_names_no_key(setting: str) -> None:
    with refused("cannot set", repr(setting), "a.key=value"):
        config.override({}, setting)


def test_override_refuses_keys_inside_values() -> None:
    with refused("a.b: 3 is an integer, not a table to set 'c.d' in"):
        config.override({"a": {"b": 3}}, "a.b.c.d=1")
    with refused('cell: "lstm" is a string', 'cell={type = "lstm", forget_bias = ...}'):
        config.override({"cell": "lstm"}, "cell.forget_bias=2")
    with refused("cannot set 'a=[x, y]'", "not TOML"):
        config.override({}, "a=[x, y]")


# ---------------------------------------------------------------- building


def test_a_table_is_a_constructor_call() -> None:
    table = {
        "frame": {"width": 5, "corners": {"type": "polygon", "sides": 6}},
        "path": "data/x.tsv",
        "size": [1, 2],
        "opacity": 2,
        "style": 1,
        "colour": "named",
        "colours": ["named", {"type": "mixed", "parts": [{"type": "named", "name": "blue"}]}],
        "tags": ["a", "b"],
        "notes": {"x": 1},
        "column": "source",
        "limit": 2,
        "anything": [1, {"two": 3.0}],
    }
    picture = config.build(table, Picture)
    assert picture == Picture(
        path=Path("data/x.tsv"),
        frame=Frame(5, Polygon(6)),
        size=(1, 2),
        opacity=2.0,
        style=1,
        colours=(Named(), Mixed((Named("blue"),))),
        tags=["a", "b"],
        notes={"x": 1},
        column="source",
        limit=2.0,
        anything=[1, {"two": 3.0}],
    )
    assert isinstance(picture.limit, float)
    assert isinstance(picture.opacity, float)


def test_a_name_alone_is_a_table_of_just_that() -> None:
    assert config.build("named", Colour) == config.build({"type": "named"}, Colour) == Named()


def test_types_keep_apart_in_unions() -> None:
    assert type(config.build({"column": 1}, Picture).column) is int
    assert type(config.build({"column": "1"}, Picture).column) is str


def test_a_factory_constructs_anew_with_what_its_holder_adds() -> None:
    made = config.build({"shape": {"type": "polygon", "length": 3}}, Sketch, FACTS)
    assert made.shape(sides=5) == made.shape(5) == Polygon(5, 3.0)
    assert made.shape(sides=5) is not made.shape(sides=5)
    assert made.source_vocabulary == 11


def test_inner_calls_of_a_factory_are_made_each_time() -> None:
    factory = config.build({"type": "mixed", "parts": ["named"]}, Factory[Colour])
    first, second = factory(), factory()
    assert isinstance(first, Mixed)
    assert isinstance(second, Mixed)
    assert first == second
    assert first.parts[0] is not second.parts[0]


def test_a_factory_of_a_class_takes_a_table_without_type() -> None:
    assert config.build({"length": 2}, Factory[Polygon])(sides=3) == Polygon(3, 2.0)


def test_a_holder_may_repeat_but_not_contradict_the_table() -> None:
    shape = config.build({"shape": {"type": "polygon", "sides": 3, "length": 1.0}}, Sketch, FACTS, "model").shape
    assert shape(sides=3) == Polygon(3)
    assert shape(length=9.0) == Polygon(3, 9.0)  # a value that equals the default does not count as the file's choice
    with refused("model.shape.sides: 3 contradicts 4", "Polygon", "leave the key out"):
        shape(sides=4)


def test_a_factory_names_what_is_still_missing_or_not_wanted() -> None:
    shape = config.build({"shape": "polygon"}, Sketch, FACTS).shape
    with refused("shape.sides: missing; Polygon needs sides, an integer"):
        shape()
    with refused("shape: Polygon does not take", "'width'"):
        shape(sides=3, width=1)


def test_facts_fill_required_parameters_of_their_names_only() -> None:
    holder: Holder[Any] = config.build({"shape": "circle"}, Holder, FACTS)
    assert (holder.target_vocabulary, holder.source_vocabulary) == (12, -1)  # the second has a default


def test_a_fact_in_the_file_must_be_the_datas() -> None:
    table = {"shape": "circle", "source_vocabulary": 11}
    assert config.build(table, Sketch, FACTS).source_vocabulary == 11
    with refused("model.source_vocabulary: 7", "the data has 11", "leave the key out"):
        config.build({**table, "source_vocabulary": 7}, Sketch, FACTS, "model")
    config.check({**table, "source_vocabulary": 7}, Sketch, ["source_vocabulary"])  # the fact is not known yet


def test_a_constructors_refusal_says_where_its_table_stands() -> None:
    with refused("model: source_vocabulary = -1: expected a count"):
        config.build({"shape": "circle", "source_vocabulary": -1}, Sketch, path="model")


# ------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"titel": "x"}, ("titel: Picture takes no such key", 'did you mean "title"?', "Known: anything, colour")),
        ({"frame": {"with": 3}}, ("frame.with: Frame takes", 'did you mean "width"?', "Known: corners, width")),
        ({"frame": {}}, ("frame.width: missing; Frame needs width, an integer",)),
        ({"frame": 3}, ("frame: 3 is an integer, expected a table (Frame)",)),
        ({"title": 3}, ('title: 3 is an integer, expected a string; write "3" in quotes',)),
        ({"layers": "two"}, ('layers: "two" is a string, expected an integer',)),
        ({"layers": True}, ("layers: true is a boolean, expected an integer",)),
        ({"layers": 2.0}, ("layers: 2.0 is a number, expected an integer",)),
        ({"opacity": True}, ("opacity: true is a boolean, expected a number",)),
        ({"visible": 1}, ("visible: 1 is an integer, expected true or false",)),
        ({"style": "oi"}, ('style: "oi" is a string, expected "oil" or "ink" or 1',)),
        ({"style": True}, ('style: true is a boolean, expected "oil"',)),
        ({"size": [1]}, ("size: [1] is an array, expected an array of 2 (an integer, an integer)",)),
        ({"size": [1, "x"]}, ('size[1]: "x" is a string, expected an integer',)),
        ({"tags": "a"}, ('tags: "a" is a string, expected an array (of a string)',)),
        ({"notes": {"x": "y"}}, ('notes.x: "y" is a string, expected an integer',)),
        ({"notes": [1]}, ("notes: [1] is an array, expected a table (each key an integer)",)),
        ({"column": 1.5}, ("column: 1.5 is a number, expected an integer or a string",)),
        ({"limit": "no"}, ('limit: "no" is a string, expected a number',)),
        ({"path": 3}, ("path: 3 is an integer, expected a path",)),
        ({"colour": {"name": "x"}}, ('colour.type: missing; expected a table with type = "named" or "mixed"',)),
        ({"colour": {"type": "nmed"}}, ('colour.type: "nmed" is no Colour; did you mean "named"?', "mixed, named")),
        ({"colour": {"type": ["named"]}}, ('colour.type: ["named"] is no Colour',)),
        ({"colour": "zzz"}, ('colour: "zzz" is no Colour. Known: mixed, named',)),
        ({"colour": 3}, ("colour: 3 is an integer, expected a table with type",)),
        ({"colour": {"type": "mixed"}}, ("colour.parts: missing; Mixed needs parts",)),
        ({"colours": [{"type": "named", "nam": 1}]}, ("colours[0].nam: Named takes no such key",)),
        ({"shape": {"type": "circle", "radios": 1}}, ("shape.radios", 'did you mean "radius"?')),
        ({"shape": {"type": "circle", "typ": 1}}, ("shape.typ", 'did you mean "type"?')),
        ({"shape": {"type": "bare", "x": 1}}, ("shape.x: Bare takes no such key. Known: type",)),
    ],
)
def test_an_error_names_the_place_the_value_and_what_was_expected(
    table: dict[str, Any], words: tuple[str, ...]
) -> None:
    with refused(*words):
        config.check(table, Picture)
    with refused(f"run.{words[0]}", *words[1:]):
        config.build(table, Picture, path="run")


def test_checking_constructs_nothing_and_needs_only_the_names_of_facts() -> None:
    config.check({"shape": "polygon", "source_vocabulary": -1}, Sketch)
    config.check({"shape": "polygon"}, Sketch, ["source_vocabulary"])
    with refused("source_vocabulary: missing; Sketch needs source_vocabulary, an integer"):
        config.check({"shape": "polygon"}, Sketch)
    with refused("shape: missing", "shape, a table with type", "and source_vocabulary, an integer"):
        config.check({}, Sketch)


def test_a_parameter_no_file_can_write_says_so() -> None:
    with refused("stream: 3 is an integer", "which no file can write"):
        config.check({"stream": 3}, Unwritable)


@dataclass(frozen=True)
class Unwritable:
    stream: Iterator[int] | None = None


class Unresolved:
    def __init__(self, x: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass


def test_an_annotation_that_cannot_be_looked_up_is_named() -> None:
    with pytest.raises(TypeError, match=r"Unresolved: name 'Nowhere' is not defined in an annotation; import it"):
        config.check({"x": 3}, Unresolved)


# ---------------------------------------------------------------- resolving


def test_resolving_writes_defaults_and_facts_in() -> None:
    assert config.resolve({}, Picture) == {
        "frame": {"width": 3, "corners": {"type": "polygon", "sides": 4, "length": 1.0}},
        "title": "untitled",
        "size": [4, 3],
        "layers": 1,
        "opacity": 1,
        "visible": True,
        "style": "oil",
        "colour": {"type": "named", "name": "red"},
        "colours": [],
        "tags": [],
        "notes": {},
        "column": 0,
        "shape": {"type": "circle", "radius": 2.0, "sides": 0},
    }
    assert config.resolve({"shape": "polygon"}, Sketch, FACTS) == {
        "shape": {"type": "polygon", "length": 1.0},
        "source_vocabulary": 11,
    }


def test_resolving_refuses_a_none_it_cannot_write() -> None:
    assert "limit" not in config.resolve({"limit": None}, Picture)
    with refused("colour: TOML cannot write None"):
        config.resolve({"colour": None}, Optional)


@dataclass(frozen=True)
class Optional:
    colour: Colour | None = Named()


COLOURS = st.recursive(
    st.sampled_from(["named", {"type": "named"}, {"type": "named", "name": "red"}, {"type": "named", "name": "é"}]),
    lambda inner: st.fixed_dictionaries({"type": st.just("mixed"), "parts": st.lists(inner, max_size=3)}),
    max_leaves=4,
)
SHAPES = st.sampled_from(
    ["circle", {"type": "circle", "radius": 3}, {"type": "circle", "sides": 0}, {"type": "polygon", "length": 2.5}]
)
CORNERS = st.fixed_dictionaries({"type": st.just("polygon"), "sides": st.integers(3, 9)}) | st.just("circle")
PICTURES = st.fixed_dictionaries(
    {},
    optional={
        "frame": st.fixed_dictionaries({"width": st.integers(0, 5)}, optional={"corners": CORNERS}),
        "path": st.text("abc./", min_size=1),
        "title": st.text(st.characters(exclude_categories=["Cs", "Cc"])),
        "size": st.tuples(st.integers(0, 9), st.integers(0, 9)).map(list),
        "opacity": st.integers(0, 3) | st.floats(0, 1),
        "visible": st.booleans(),
        "style": st.sampled_from(["oil", "ink", 1]),
        "colour": COLOURS,
        "colours": st.lists(COLOURS, max_size=2),
        "tags": st.lists(st.sampled_from("ab"), max_size=2),
        "notes": st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)),
        "column": st.integers(0, 3) | st.sampled_from("ab"),
        "limit": st.floats(0, 1),
        "shape": SHAPES,
    },
)


@settings(max_examples=50, deadline=None)  # a busy machine is no failure
@given(PICTURES)
def test_law_spec_a_resolved_table_written_and_read_builds_the_same(table: dict[str, Any]) -> None:
    resolved = config.resolve(table, Picture)
    read = config.parse(config.write(resolved).encode(), "run")
    assert config.build(read, Picture) == config.build(table, Picture)
    assert config.write(config.resolve(read, Picture)) == config.write(resolved)


def test_law_spec_with_facts_for_classes_that_are_no_dataclasses() -> None:
    table = {"shape": {"type": "polygon", "length": 2}, "colour": "named"}
    first = config.build(table, Sketch, FACTS)
    again = config.build(config.resolve(table, Sketch, FACTS), Sketch)  # the facts are in the file now
    assert first.shape == again.shape
    assert first.shape(sides=3) == again.shape(sides=3)
    assert (first.source_vocabulary, first.colour) == (again.source_vocabulary, again.colour)


# -------------------------------------------------------------------- names


def test_registering_never_shadows_in_silence() -> None:
    with pytest.raises(ValueError, match=r"Colour 'named' is already .*:Named; register .*:Mixed under another name"):
        registry.register("Colour", "named", Mixed)
    with pytest.raises(ValueError, match=r"no protocol 'Color' .*did you mean \"Colour\"\?"):
        registry.register("Color", "named", Named)
    with pytest.raises(TypeError, match="must be a class"):
        registry.register("Colour", "other", lambda: None)  # type: ignore[arg-type]
    registry.register("Colour", "named", Named)  # a second time, as when a notebook cell runs twice
    assert registry.find("Colour", "named") is Named


def test_a_class_that_no_import_finds_can_be_registered() -> None:
    @dataclass(frozen=True)
    class Local:
        name: str = "local"

    registry.register("Colour", "local", Local)
    assert config.build("local", Colour) == Local()
    assert registry.name_of("Colour", Local) == "local"
    assert registry.name_of("Shape", Local) is None


def test_a_default_has_the_name_that_its_class_was_given_later() -> None:
    @dataclass(frozen=True)
    class Late:
        name: str = "late"

    @dataclass(frozen=True)
    class Painted:
        colour: Colour = Late()

    assert parameters_of(Painted)["colour"].default == Late()
    registry.register("Colour", "late", Late)
    assert config.resolve({}, Painted) == {"colour": {"type": "late", "name": "late"}}


def test_every_place_is_inside_the_package() -> None:
    own = {p: n for p, n in registry.NAMES.items() if p not in ("Shape", "Colour")}
    places = [place for table in own.values() for place in table.values()]
    assert len(places) > 30
    assert all(re.fullmatch(r"transduce(\.[a-z0-9_]+)+:[A-Z]\w+", place) for place in places)


def test_names_are_unambiguous() -> None:
    for protocol, table in registry.NAMES.items():
        assert len(set(table.values())) == len(table), protocol


INSTALLED = [(protocol, name) for protocol in registry.NAMES for name in registry.installed(protocol)]


@pytest.mark.parametrize(("protocol", "name"), INSTALLED)
def test_every_name_is_a_class_whose_constructor_can_be_written_down(protocol: str, name: str) -> None:
    expected = Factory[type(protocol, (), {})]  # type: ignore[misc]  # a stand-in: protocols are known by name
    resolved = config.resolve(least(protocol, name), expected, FACTS)
    assert resolved["type"] == name
    assert config.resolve(config.parse(config.write(resolved).encode(), name), expected, FACTS) == resolved


def least(protocol: str, name: str) -> config.Table:
    """The shortest table for this name: its required parts, each with the name that needs the fewest keys."""
    table: config.Table = {"type": name}
    for key, parameter in required(protocol, name).items():
        for part in filter(None, map(protocol_of, members(parameter.annotation))):
            table[key] = least(part, min(registry.installed(part), key=partial(size, part)))
    return table


def size(protocol: str, name: str) -> tuple[int, int]:
    """Two counts of required keys, for comparison: the keys without a part of another protocol, and all keys."""
    keys = required(protocol, name).values()
    parts = [set(filter(None, map(protocol_of, members(key.annotation)))) for key in keys]
    return sum(not each or protocol in each for each in parts), len(keys)


def required(protocol: str, name: str) -> dict[str, Parameter]:
    parameters = parameters_of(registry.find(protocol, name))
    return {key: parameter for key, parameter in parameters.items() if parameter.default is REQUIRED}


def test_a_file_can_import_nothing() -> None:
    with refused('"os:system" is no Colour'):
        config.build({"type": "os:system"}, Colour)


def test_nothing_here_imports_torch() -> None:
    program = "import sys, transduce.core.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
