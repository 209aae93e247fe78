"""Recordings and pictures in the engine: it makes the steps that training made, and finds what PyTorch finds."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from test_engine_file import needs_engine, resolved, tokenizer
from test_engine_strangers import TRIES, WAYS, changed, joined, parts

import transduce_engine
from families import FACTS, PICTURE, SIGNAL, attending, ctc, hearing, recurrent
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model, Search
from transduce.core.types import Padded
from transduce.data.tokenizers.base import Unit
from transduce.data.tokenizers.text import Characters
from transduce.wings.engines.export.engine import tokenizer_notes
from transduce.wings.engines.native.content import model_content
from transduce.wings.engines.native.conversion.converting import check
from transduce.wings.engines.native.model import native_model
from transduce.wings.signals.tokenizers.page_order import PageOrder
from transduce.wings.signals.tokenizers.tokenizer import SignalTokenizer
from transduce_engine import EngineError, Recording, Steps
from transduce_engine import Picture as Pixels

pytestmark = needs_engine

LSTM = recurrent("plain")["encoder"]
COLUMNS = {"type": "columns", "stages": [3, 4, 5], **PICTURE}
TABLES: dict[str, config.Table] = {
    "perceptron with attention": {
        "type": "classifier",
        "encoder": {"type": "perceptron", "steps": 12, "widths": [7, 5], "mixer": "attention"},
    },
    "perceptron": {
        "type": "classifier",
        "encoder": {"type": "perceptron", "steps": 12, "widths": [8]},
        "pooling": "max",
    },
    "ctc, subsampling": ctc(LSTM | {"embedding": {"type": "subsampling", "channels": 5}}, stretch=2),
    "ctc, columns": ctc(LSTM | {"cell": "gru", "embedding": COLUMNS}, stretch=3),
    "classifier, stacked steps": {
        "type": "classifier",
        "encoder": LSTM | {"embedding": {"type": "features", "stack": 2}},
        "pooling": "mean",
    },
    "two readers": {
        "type": "parallel-ensemble",
        "models": [
            {"type": "classifier", "encoder": LSTM | {"embedding": {"type": "subsampling", "channels": 3}}},
            {
                "type": "classifier",
                "encoder": LSTM | {"embedding": COLUMNS | {"stages": [3, 4], "shrink": 1}},
                "pooling": "max",
            },
        ],
    },
    "luong over columns": hearing(COLUMNS | {"shrink": 2}, recurrent(attending("luong", "dot"))),
}
SEARCHES: dict[str, config.Table] = {
    "classifier": {"type": "labels", "nbest": 3},
    "parallel-ensemble": {"type": "labels", "nbest": 3},
    "ctc": {"type": "prefix-beam", "size": 4, "nbest": 3},
    "encoder-decoder": {"type": "beam", "size": 4, "nbest": 2, "max_length": 8},
}
PICTURES = {"type": "picture", "height": 3, "channels": 2}
UNIT = {"type": "picture", "height": 6}


def signal_content(
    table: config.Table, search: config.Table, precision: str = "float32", unit: Any = UNIT, seed: int = 0
) -> tuple[Any, bytes]:
    """A small random model of signals, and the file of an engine with it."""
    torch.manual_seed(seed)
    model: Any = config.build(table, Model, SIGNAL, "model")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(1.7)
    texts = {
        "source": json.dumps(tokenizer_notes(reader(unit), "source")),
        "target": json.dumps(tokenizer_notes(tokenizer(SIGNAL.target_vocabulary), "target")),
        "search": json.dumps(resolved(search)),
        "limits": json.dumps({"max_source_length": 100, "keeps_empty": False}),
        "settings": "{}",
    }
    settings = config.resolve(table, Model, SIGNAL, "model")
    return model.eval(), model_content(model.eval(), settings, precision, texts)


def reader(unit: Any, mean: tuple[float, ...] = (), scale: tuple[float, ...] = ()) -> SignalTokenizer:
    return SignalTokenizer(config.build(unit, Unit, path="unit"), mean, scale)


def drawn(lengths: list[int]) -> tuple[Padded, list[Steps]]:
    """Random steps, as PyTorch and as the engine read them."""
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randn(length, SIGNAL.source_vocabulary, generator=generator) for length in lengths]
    return Padded(torch.nn.utils.rnn.pad_sequence(rows, True), torch.tensor(lengths)), [
        Steps(row.numpy()) for row in rows
    ]


def searched(name: str) -> config.Table:
    return SEARCHES[str(TABLES[name]["type"])]


@pytest.mark.parametrize("name", TABLES)
def test_the_engine_finds_and_scores_what_pytorch_does(name: str) -> None:
    model, file = signal_content(TABLES[name], searched(name))
    engine = transduce_engine.load(file)
    source, steps = drawn([5, 12, 3, 8, 2])
    searching: Any = config.build(resolved(searched(name)), Search, FACTS, "search")
    ours, theirs = searching(model, source), engine.answer(steps)
    for found, answer in zip(ours, theirs, strict=True):
        assert [each.tokens for each in found] == [each.ids for each in answer.outputs]
        for one, two in zip(found, answer.outputs, strict=True):
            assert [two.score, two.log_prob] == pytest.approx([one.score, one.log_prob], abs=5e-5)
            assert two.token_log_probs == pytest.approx(one.token_log_probs, abs=5e-5)
    last = [found[-1].tokens for found in ours]
    forced = searching.force(model, source, Padded.of(last))
    for one, scored in zip(forced, engine.score_signals(steps, last), strict=True):
        assert scored.best.token_log_probs == pytest.approx(one.token_log_probs, abs=5e-5)
        assert scored.best.best_log_probs == pytest.approx(one.best_log_probs, abs=5e-5)
        assert scored.best.right == one.right
    native = native_model(model, config.resolve(TABLES[name], Model, SIGNAL, "model"))
    assert [[each.tokens for each in found] for found in native.search(searching, source)] == [
        [each.tokens for each in found] for found in ours
    ]
    assert [each.log_prob for each in native.force(source, Padded.of(last))] == pytest.approx(
        [each.log_prob for each in forced], abs=5e-5
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_no_number_depends_on_the_company(name: str, precision: str) -> None:
    _, file = signal_content(TABLES[name], searched(name), precision)
    engine = transduce_engine.load(file)
    _, steps = drawn([5, 3, 12, 2, 7, 6, 4])
    alone = [engine.answer([each])[0] for each in steps]
    order = random.Random(3).sample(range(len(steps)), len(steps))
    assert engine.answer([steps[n] for n in order], batch=3) == [alone[n] for n in order]


# ---------------------------------------------------------------- from signals to steps


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def reads(unit: config.Table, paths: list[str], given: list[Any], mean: Any = (), scale: Any = ()) -> None:
    """Asserts that the engine answers signals exactly as it answers the steps that Python makes of their files."""
    table = {"type": "classifier", "encoder": LSTM | {"embedding": "features"}, "pooling": "mean"}
    _, file = signal_content(table, {"type": "labels"}, unit=unit)
    header, rest = parts(file)
    tokens = reader(unit, mean, scale)
    header["__metadata__"]["source"] = json.dumps(tokenizer_notes(tokens, "source"))
    header["__metadata__"]["limits"] = json.dumps({"max_source_length": 5000, "keeps_empty": False})
    engine = transduce_engine.load(joined(header, rest))
    steps = [Steps(each) for each in tokens.encode(paths)]
    expected = engine.answer(steps)
    assert engine.answer(paths) == expected
    assert engine.answer(given) == expected
    assert [answer.source_tokens for answer in expected] == [len(each.numbers) for each in steps]


@pytest.mark.parametrize(
    "unit",
    [
        {},
        {"invert": True},
        {"width": 9, "normalisation": "picture"},
        {"height": 2, "channels": 3, "normalisation": "picture"},
        {"height": 2, "channels": 3, "normalisation": "corpus", "invert": True},
    ],
    ids=str,
)
def test_pictures_become_the_steps_of_training(unit: config.Table, tmp_path: Path) -> None:
    pixels = [noise(6, 9), noise(6, 9, 3), noise(31, 44), noise(3, 40, 3), noise(1, 1), noise(90, 130)]
    paths = [str(tmp_path / f"{number}.png") for number in range(len(pixels))]
    for path, each in zip(paths, pixels, strict=True):
        Image.fromarray(each).save(path)
    moments = ([0.3, 0.5, 0.7], [0.2, 1.5, 0.4]) if unit.get("normalisation") == "corpus" else ((), ())
    reads(UNIT | unit, paths, list(pixels), *moments)


@pytest.mark.parametrize(
    "unit",
    [
        {},
        {"normalisation": "mean", "emphasis": 0.97},
        {"normalisation": "loudness", "range": 30.0},
        {"normalisation": "corpus", "trim": 20.0},
        {"normalisation": "none", "window": 0.01, "hop": 0.0033},
        {"rate": 700, "window": 0.05},
    ],
    ids=str,
)
def test_recordings_become_the_steps_of_training(unit: config.Table, tmp_path: Path) -> None:
    numbers = np.random.default_rng(5)
    own = {"type": "sound", "rate": 8000, "mels": 6} | unit
    loud = np.repeat([0.002, 1.0, 0.3, 0.001], 1000)
    samples = [
        (loud * numbers.normal(0, 3000, 4000)).clip(-32768, 32767).astype(np.int16),
        numbers.normal(0, 3000, (2500, 2)).astype(np.int16),
        numbers.normal(0, 0.1, 3000).astype(np.float32),
        numbers.integers(-5, 5, 3).astype(np.int16),
    ]
    paths = [str(tmp_path / f"{number}.wav") for number in range(len(samples))]
    for path, each in zip(paths, samples, strict=True):
        soundfile.write(path, each, own["rate"], "FLOAT" if each.dtype == np.float32 else "PCM_16")
    moments = (np.linspace(-9, -3, 6).tolist(), [2.0] * 6) if unit.get("normalisation") == "corpus" else ((), ())
    reads(own, paths, list(samples), *moments)


# ---------------------------------------------------------------- files


def engine_of(unit: config.Table) -> transduce_engine.Engine:
    return transduce_engine.load(signal_content(TABLES["classifier, stacked steps"], {"type": "labels"}, unit=unit)[1])


SOUND: config.Table = {"type": "sound", "rate": 8000, "mels": 6}


def test_kinds_of_pictures_are_read_as_pillow_reads_them(tmp_path: Path) -> None:
    engine = engine_of(UNIT)
    smooth = np.add.outer(np.arange(20), 3 * np.arange(33)).astype(np.uint8)  # so that Pillow takes each filter
    for name, pixels in (
        ("grey", smooth),
        ("noise", noise(20, 33)),
        ("colour", np.stack([smooth, smooth.T[:20, :1] + smooth, 255 - smooth], -1)),
    ):
        image = Image.fromarray(pixels)
        expected = engine.answer([pixels])
        for ending in ("png", "ppm"):
            image.save(tmp_path / f"{name}.{ending}")
            assert engine.answer([tmp_path / f"{name}.{ending}"]) == expected
    indexed = Image.fromarray(smooth).convert("P")
    indexed.save(tmp_path / "indexed.png")
    assert engine.answer([tmp_path / "indexed.png"]) == engine.answer([np.asarray(indexed.convert("RGB"))])
    (tmp_path / "told.pgm").write_bytes(b"P5 # by hand\n33\n20 255\n" + smooth.tobytes())
    assert engine(str(tmp_path / "told.pgm")) == engine(smooth)


def test_pictures_that_need_a_library_are_told_with_what_to_do(tmp_path: Path) -> None:
    engine, pixels = engine_of(UNIT), noise(5, 7)
    Image.fromarray(pixels).save(tmp_path / "a.jpg")
    Image.fromarray(pixels).convert("RGBA").save(tmp_path / "clear.png")
    Image.fromarray(pixels > 99).save(tmp_path / "bits.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "clear.png").read_bytes()[:30])
    (tmp_path / "short.pgm").write_bytes(b"P5 7 5 255\n" + bytes(9))
    for name, told in (
        ("a.jpg", "is no PNG, PGM or PPM file: convert it, such as with `convert "),
        ("clear.png", "is transparent: convert it"),
        ("bits.png", "has pixels of other than 8 bits: convert it"),
        ("cut.png", "has fewer pixels than it says: convert it|is damaged|is transparent"),
        ("short.pgm", "has fewer pixels than it says"),
        ("none.png", "is missing: there is no such file$"),
        (".", "is not a file$"),
    ):
        with pytest.raises(EngineError, match=rf"^input 2: .*({told})"):
            engine.answer([pixels, str(tmp_path / name)])


def test_recordings_that_do_not_fit_are_told_with_what_to_do(tmp_path: Path) -> None:
    engine, samples = engine_of(SOUND), np.zeros(900, np.int16)
    for name, kind in (("deep.wav", "PCM_24"), ("a.flac", "PCM_16")):
        soundfile.write(tmp_path / name, samples, 8000, kind)
    soundfile.write(tmp_path / "fast.wav", samples, 44100)
    soundfile.write(tmp_path / "empty.wav", samples[:0], 8000)
    soundfile.write(tmp_path / "right.wav", samples, 8000)
    (tmp_path / "cut.wav").write_bytes((tmp_path / "right.wav").read_bytes()[:-7])
    long = Recording(array("h", bytes(2 * 8000 * 61)), 8000)
    for given, told in (
        (
            str(tmp_path / "deep.wav"),
            r"has samples of 24 bits .*: 16-bit integers or float32 were expected; convert it",
        ),
        (str(tmp_path / "a.flac"), "is no WAV file: convert it, such as with ffmpeg -i "),
        (
            str(tmp_path / "fast.wav"),
            "has 44100 samples a second, and the model reads 8000: convert it, such as with ffmpeg",
        ),
        (str(tmp_path / "empty.wav"), "has no samples"),
        (str(tmp_path / "cut.wav"), "is truncated"),
        (long, "has 61 seconds, more than the model reads"),
        (np.full(900, np.nan, np.float32), "has a sample that is not finite"),
        (np.zeros(900), "samples of the format 'd' and 1 axes"),
        (noise(4, 4), "samples of the format 'B'"),
        (Pixels(noise(4, 4)), "a recording was expected"),
        (3, "an object of the type int"),
    ):
        with pytest.raises(EngineError, match=rf"^input 2: .*{told}"):
            engine.answer([samples, given])


def test_memory_of_any_shape_is_read() -> None:
    engine, pixels = engine_of(UNIT), noise(6, 9)
    expected = engine.answer([pixels])
    turned = np.ascontiguousarray(pixels.T).T  # not contiguous
    fixed = memoryview(pixels.tobytes()).cast("B", [6, 9])  # not writable
    for given in (turned, fixed, Pixels(turned)):
        assert engine.answer([given]) == expected
    sound, samples = engine_of(SOUND), noise(900).astype(np.int16)
    assert sound.answer([array("h", samples.tobytes())]) == sound.answer([Recording(samples[:, None], 8000)])


def test_texts_and_signals_are_told_apart() -> None:
    engine = engine_of(UNIT)
    with pytest.raises(EngineError, match=r"^its sources are signals, and ids were given"):
        engine.answer_ids([[4, 2]])
    with pytest.raises(EngineError, match=r"^input 1: its sources are signals, and text was given"):
        engine.source_ids(["abc"])
    with pytest.raises(EngineError, match=r"^input 1: steps of 5 numbers: 6 were expected"):
        engine.answer([Steps(np.zeros((3, 5), np.float32))])
    with pytest.raises(EngineError, match=r"^input 1: a signal of 13 steps: the model reads at most 12"):
        transduce_engine.load(signal_content(TABLES["perceptron"], {"type": "labels"})[1]).answer([noise(6, 13)])
    with pytest.raises(EngineError, match=r"^input 1: int is no text"):
        transduce_engine.load(transduce_engine.ENGLISH).answer([3])  # type: ignore[list-item]


def test_parts_that_the_engine_does_not_have_are_refused_with_the_setting() -> None:
    front = {"embedding": {"type": "features"}}
    for table, message in (
        ({"type": "tagger", "encoder": LSTM | front}, "encoder.embedding = 'features'"),
        (hearing("patches", recurrent("plain")), "encoder.embedding = 'patches'"),
        ({"type": "tagger", "encoder": TABLES["perceptron"]["encoder"]}, "type = 'tagger'"),
    ):
        with pytest.raises(UserError, match=rf"model\.{message}: the native engine runs"):
            check(table)
    for unit, message in (({"type": "clip"}, "type = 'clip'"), (SOUND | {"cepstra": 5}, "cepstra = 5")):
        with pytest.raises(UserError, match=rf"data\.units\.source\.{message}: the native engine reads pictures"):
            tokenizer_notes(reader(unit), "source")


def test_lines_of_print_are_written_if_they_run_from_the_left() -> None:
    found = tokenizer_notes(PageOrder(Characters(), "auto").learn(["ab é 12."]), "target")
    assert (found["unit"], found["size"]) == ("characters", 4 + len("ab é12."))
    for texts, direction in (["אב"], "ltr"), (["ab"], "rtl"):
        with pytest.raises(UserError, match="in the order of a page that has text from right to left"):
            tokenizer_notes(PageOrder(Characters(), direction).learn(texts), "target")  # type: ignore[arg-type]


# ---------------------------------------------------------------- files from strangers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["perceptron with attention", "ctc, subsampling", "luong over columns", "sound"])
@pytest.mark.parametrize("speed", ["fast", pytest.param("slow", marks=(pytest.mark.slow, pytest.mark.hostile))])
def test_a_wrong_file_is_refused_in_a_line_or_answers(speed: str, name: str, way: Any) -> None:
    numbers = random.Random(f"{name} {way.__name__} {speed}")
    sound = name == "sound"
    own = "ctc, subsampling" if sound else name
    unit = SOUND | {"trim": 30.0, "range": 40.0} if sound else UNIT
    _, file = signal_content(TABLES[own], searched(own), numbers.choice(["float32", "int8"]), unit)
    for _ in range(TRIES[speed]):
        tried(way(file, numbers))


@pytest.mark.parametrize("unit", [SOUND | {"trim": 30.0, "range": 40.0}, UNIT | {"width": 9}], ids=["sound", "picture"])
def test_a_wrong_reader_of_signals_is_refused_in_a_line_or_answers(unit: config.Table) -> None:
    numbers = random.Random(str(unit))
    _, file = signal_content(TABLES["ctc, columns"], searched("ctc, columns"), unit=unit)
    header, rest = parts(file)
    for _ in range(10 * TRIES["fast"]):
        source = json.loads(header["__metadata__"]["source"])
        source["record"] = changed({"record": source["record"]}, numbers).get("record")
        tried(joined({**header, "__metadata__": header["__metadata__"] | {"source": json.dumps(source)}}, rest))


def tried(file: bytes) -> None:
    """Opens a file and lets it answer. It may answer, or refuse in a line."""
    _, steps = drawn([5, 2])
    try:
        engine = transduce_engine.load(file)
        for given in ([noise(8, 9), noise(3, 5, 3)], [Recording(noise(900).astype(np.int16), 8000)], steps):
            try:
                engine.search_signals(given)
            except EngineError as error:
                _line(error)
        engine.answer_ids([[4, 2]])
    except EngineError as error:
        _line(error)


def _line(error: EngineError) -> None:
    if not str(error) or "\n" in str(error):
        raise AssertionError(f"no line: {str(error)!r}") from error


# ---------------------------------------------------------------- runs


def test_a_run_of_pictures_answers_from_its_file_as_from_itself(tmp_path: Path, call: Any) -> None:
    for split, count in (("train", 40), ("valid", 8), ("test", 8)):
        lines = []
        for number in range(count):
            pixels = noise(8, 8, seed=number) // (2 if number % 2 else 1)
            Image.fromarray(pixels).save(tmp_path / f"{split}{number}.png")
            lines.append(f"{tmp_path / split}{number}.png\t{'dark' if number % 2 else 'bright'}\n")
        (tmp_path / f"{split}.tsv").write_text("".join(lines))
    paths = [f"--set=data.{split}.path={tmp_path / split}.tsv" for split in ("train", "valid", "test")]
    settings = ["training.steps=3", "data.units.source.height=8", "data.units.source.width=8", "model.encoder.steps=8"]
    run, file = tmp_path / "run", tmp_path / "run.engine"
    status, _, told = call("train", "mnist-lecture", "--out", run, *paths, *(f"--set={each}" for each in settings))
    assert status == 0, told
    status, out, told = call("export", run, "--to", "engine", "--out", file)
    assert (status, "8 of 8 outputs are equal" in out) == (0, True), told
    lines = "".join(f"{tmp_path}/test{number}.png\n" for number in range(8)).encode()
    own, found = call("predict", run, stdin=lines), call("predict", file, stdin=lines)
    assert found[:2] == own[:2]
    program = (
        "import sys; from transduce_engine.__main__ import main; code = main(sys.argv[1:])\n"
        "assert not {'torch', 'numpy', 'transduce', 'PIL'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], input=lines, capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (0, own[1]), done.stderr
    status, _, told = call("predict", file, stdin=b"none.png\n")
    assert (status, told) == (2, "transduce: input 1: none.png is missing: there is no such file\n")
