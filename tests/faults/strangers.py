"""Bad input of every format: seeds of each, random damage, and what reads it. A reader returns, or says what is wrong.

``scripts/soak`` feeds the readers for hours; ``test_strangers.py`` for a second, and with each input that failed once.
"""

from __future__ import annotations

import json
import random
import signal
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.core.errors import StoppedError, UserError

SLOWEST = 10  # seconds; a reader that takes longer hangs
KEPT, SEEDS = Path(__file__).parent / "found", Path(__file__).parent / "seeds"
WORDS = [
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\0",
        "\x1c",
        "\u2028",
        "\ufeff",
        "é",
        "日本",
        "\ud800",
        '"',
        "'",
        "\\",
        "<",
        ">",
        "&",
        "%",
    ),
    *(
        "0",
        "-1",
        "1e400",
        "nan",
        "inf",
        "1_000",
        "9" * 30,
        "9" * 20,
        "true",
        "null",
        "[]",
        "{}",
        "=",
        "|",
        "#",
        ":",
        "..",
        "/",
    ),
    *("<unk>", "</s>", "\\data\\", "\\end\\", "type", "x" * 300, "(" * 200, "[" * 2000, '{"a":' * 300, "0-0", "0p0"),
]
Read = Callable[[bytes], object]


class HangError(BaseException):
    """A reader took more than ``SLOWEST`` seconds."""


@dataclass(frozen=True)
class Format:
    """A format: whole inputs to begin with, and what reads an input. A user can read the ``expected`` errors."""

    seeds: list[bytes]
    read: Read
    expected: tuple[type[BaseException], ...] = (UserError, StoppedError, OSError, MemoryError, OverflowError)

    def failure(self, content: bytes) -> str | None:
        """What is wrong with the reader, or None. An error that is expected has one line, which is not empty."""
        try:
            with _patience():
                self.read(content)
        except self.expected as error:
            return None if str(error).strip() else f"an error without a message: {type(error).__name__}"
        except KeyboardInterrupt:
            raise
        except HangError:
            return f"it takes more than {SLOWEST} seconds"
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = next((frame for frame in reversed(frames) if "transduce" in frame.filename), frames[-1])
            return f"{type(error).__name__} at {Path(last.filename).name}:{last.name}"
        return None


@contextmanager
def _patience() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SLOWEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -------------------------------------------------------------------- damage


def damaged(seeds: list[bytes], draw: random.Random) -> bytes:
    """A whole input with one to four kinds of damage."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        draw.choice(DAMAGES)(data, draw, seeds)
    return bytes(data)


def _place(data: bytearray, draw: random.Random) -> int:
    return draw.randrange(len(data) + 1)


def _flip(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _insert(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    place = _place(data, draw)
    data[place:place] = draw.choice(WORDS).encode("utf-8", "surrogatepass")


def _replace_token(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    """Replaces what stands between two separators."""
    separators = [place for place, byte in enumerate(data) if byte in b" \t\n\",:=<>[]{}'"]
    if len(separators) > 1:
        which = draw.randrange(len(separators) - 1)
        data[separators[which] + 1 : separators[which + 1]] = draw.choice(WORDS).encode("utf-8", "surrogatepass")


def _cut(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    del data[_place(data, draw) :]


def _cut_out(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    place = _place(data, draw)
    del data[place : place + draw.randrange(1, 60)]


def _repeat(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    place, length = _place(data, draw), draw.randrange(1, 80)
    data[place:place] = data[place : place + length] * draw.choice((1, 1, 2, 30))


def _number(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    """Writes a number as binary formats have them."""
    place = _place(data, draw)
    value = draw.choice((0, 1, 0x7F, 0x7FFF, 0x7FFFFFFF, 0xFFFFFFFF, draw.getrandbits(32)))
    data[place : place + 4] = struct.pack(draw.choice("<>") + "I", value)


def _splice(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    """Goes on with another input."""
    other = draw.choice(seeds)
    data[_place(data, draw) :] = other[draw.randrange(len(other) + 1) :]


def _random(data: bytearray, draw: random.Random, seeds: list[bytes]) -> None:
    data[:] = draw.randbytes(draw.randrange(40))


DAMAGES = [
    _flip,
    _flip,
    _insert,
    _insert,
    _replace_token,
    _replace_token,
    _cut,
    _cut_out,
    _repeat,
    _number,
    _splice,
    _random,
]


# ------------------------------------------------------------------- formats


def formats(folder: Path, run: Path | None = None) -> Mapping[str, Format]:
    """The formats by name. ``folder`` is for the files that a reader needs. Those of a trained ``run`` are left out
    without one.
    """
    found = _texts(folder) | _documents() | _signals(folder)
    return found if run is None else found | _of_run(folder, run)


def _written(folder: Path, name: str, read: Callable[[Path], object]) -> Read:
    def reading(content: bytes) -> object:
        path = folder / name
        path.write_bytes(content)
        return read(path)

    return reading


def _seeds(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(SEEDS.glob(f"{name}-*"))]


def _texts(folder: Path) -> dict[str, Format]:
    from transduce.core import config, recipes
    from transduce.data.corpora import ColumnNames, Files, text_lines
    from transduce.data.rows import read
    from transduce.training.settings import read_settings
    from transduce.wings.alignment.links import Gold, Links
    from transduce.wings.counted import arpa
    from transduce.wings.documents.glossary import Glossary
    from transduce.wings.signals.tokenizers.numbers import steps
    from transduce.wings.vectors import files as vectors

    def settings(content: bytes) -> None:
        table = config.parse(content, "stranger.toml")
        read_settings(table)
        config.parse(config.write(table).encode(), "again")

    def links(path: Path) -> None:
        lines = list(text_lines(path))
        Gold.read(lines)
        read_back = Links.read(lines)
        assert Links.read(read_back.write()).write() == read_back.write()

    def rows(path: Path) -> object:
        return list(read(Files(path=str(path))))

    def memory(path: Path) -> object:
        return list(read(Files(path=str(path)), ColumnNames("en", "de")))

    def numbers(path: Path) -> object:
        return steps(path.read_bytes().decode("utf-8", "replace"))

    readers: dict[str, Callable[[Path], object]] = {
        **dict.fromkeys(("tsv", "csv", "jsonl", "conll", "conllu", "trees", "dict"), rows),
        "tmx": memory,
        "arpa": arpa.read,
        "vectors": vectors.load,
        "pharaoh": links,
        "glossary": Glossary.read,
        "numbers": numbers,
    }
    names = ("reverse", "g2p-attention", "tagging", "multi30k-de-en-transformer", "digits-ctc")
    recipes_read = [config.write(recipes.read(name)).encode() for name in names]
    found = {name: Format(_seeds(name), _written(folder, f"a.{name}", reader)) for name, reader in readers.items()}
    return {"configuration": Format(recipes_read, settings), **found}


def _documents() -> dict[str, Format]:
    from transduce.wings.documents.formats import parse

    def reader(ending: str) -> Read:
        def read(content: bytes) -> None:
            document = parse(content, ending, f"stranger{ending}")
            document.written({unit: unit.parts for unit in document.units})

        return read

    endings = (".xliff", ".po", ".srt", ".vtt", ".html", ".tmx", ".docx", ".odt", ".md", ".txt")
    return {f"document{ending}": Format(_seeds(f"document{ending}"), reader(ending)) for ending in endings}


def _signals(folder: Path) -> dict[str, Format]:
    from transduce.wings.signals.tokenizers.picture import opened, resized
    from transduce.wings.signals.tokenizers.sound import samples

    def read(path: Path) -> None:
        with opened(str(path)) as image:
            resized(image, str(path), 8, None, 1, 100_000)

    return {
        "wav": Format(_seeds("wav"), _written(folder, "a.wav", lambda path: samples(str(path), 10.0))),
        "picture": Format(_seeds("picture"), _written(folder, "a.png", read)),
    }


def _of_run(folder: Path, run: Path) -> dict[str, Format]:
    import transduce_engine
    from transduce.models.weights import load_tensors
    from transduce.runs.packed import extract
    from transduce.wings.engines.export.checked_export import export_run
    from transduce.wings.engines.sharing.packing import pack

    pack(run, folder / "whole.zip")
    engine = folder / "whole.engine"
    export_run(run, "engine", engine, sources=["abc"])

    def unpacked(path: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            extract(path, Path(place))

    def answered(content: bytes) -> None:
        engine = transduce_engine.Engine(content)
        engine(["abc", "ba"])

    tensors = (run / "checkpoints" / "best" / "model.safetensors").read_bytes()
    return {
        "pack": Format([(folder / "whole.zip").read_bytes()], _written(folder, "a.zip", unpacked)),
        "safetensors": Format([tensors], _written(folder, "a.safetensors", load_tensors)),
        "http": _http(run),
        "engine": Format([engine.read_bytes()], answered, (transduce_engine.EngineError,)),
    }


def _http(run: Path) -> Format:
    """Bodies for the routes of a server. The first line of an input is the route."""
    from fastapi.testclient import TestClient

    import transduce
    from transduce.wings.serving.app import application
    from transduce.wings.serving.catalogue import Catalogue
    from transduce.wings.serving.limits import Limits

    model = transduce.load(run, device="cpu")
    limits = Limits(body=20_000, characters=200, texts=8, nbest=5, tokens=50, seconds=SLOWEST)
    client = TestClient(application(Catalogue.of({"m": model}, limits)), raise_server_exceptions=False)
    client.__enter__()  # it serves until the process ends

    def ask(content: bytes) -> None:
        route, _, body = content.partition(b"\n")
        path = "/" + "".join(chr(byte) for byte in route if (byte < 128 and chr(byte).isalnum()) or byte in b"/_")
        found = client.post(path, content=body, headers={"content-type": "application/json"})
        if found.status_code >= 500 and found.status_code not in (503, 504):
            raise AssertionError(f"{path}: {found.status_code} {found.text[:100]}")
        if found.status_code == 200 and "json" in found.headers["content-type"]:
            found.json()

    bodies: dict[str, Any] = {
        "predict": {"source": "abc", "nbest": 2, "prefix": "b", "alignments": True},
        "/predict": {"source": ["abc", ""], "constraints": {"required": ["c"], "forbidden": ["a"]}},
        "stream": {"source": "abc"},
        "attention": {"source": "abc"},
        "tree": {"source": "abc"},
        "score": {"source": "abc", "target": "cba"},
        "translate": {"q": ["abc"], "source": "en", "target": "de", "format": "html"},
        "v1/completions": {"model": "m", "prompt": "abc", "n": 2, "max_tokens": 5, "logprobs": 1},
        "v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "abc"}]},
    }
    return Format([f"{route}\n{json.dumps(body)}".encode() for route, body in bodies.items()], ask)
