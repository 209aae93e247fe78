"""Recognition of tones in recordings: a model trained in seconds, from Python and on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import transduce
from transduce.answers.request import Request
from transduce.core.errors import RequestError
from transduce.wings.ctc.frame_alignments import frame_alignments
from transduce.wings.recipes.origins.recordings import RATE, wav

HERTZ = {"do": 300, "re": 700, "mi": 1500}
RECIPE = """
base = "digits-ctc"
metrics = ["wer"]

[data]
units = {{ source = {{ type = "sound", rate = 8000, mels = 12, hop = 0.02 }}, target = "symbols" }}
train = {{ path = "{folder}/train/pairs.tsv" }}
valid = {{ path = "{folder}/valid/pairs.tsv" }}
test = {{ path = "{folder}/test/pairs.tsv" }}

[model.encoder]
cell = "gru"
embedding = "features"
embedding_width = 16
width = 16
layers = 1

[training]
steps = 70
precision = "float32"
batching = {{ tokens = 512 }}
optimizer = {{ type = "adam", rate = 1e-2 }}
schedule = {{ type = "linear", warmup = 10 }}

[training.validation]
times = 1
"""


def speak(path: Path, symbols: list[str], seed: int) -> None:
    """A tone for each symbol, with pauses, under a little noise."""
    random = np.random.default_rng(seed)
    parts = [np.zeros(400)]
    for symbol in symbols:
        times = np.arange(int(random.integers(560, 720))) / RATE
        parts += [0.3 * np.sin(2 * np.pi * HERTZ[symbol] * times), np.zeros(400)]
    x_N = np.concatenate(parts)
    path.write_bytes(wav((x_N + 0.003 * random.normal(size=len(x_N))).astype(np.float32)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """A folder with three splits of recordings, one of which is broken."""
    folder = tmp_path_factory.mktemp("speech")
    random = np.random.default_rng(7)
    for split, count in (("train", 60), ("valid", 12), ("test", 12)):
        (folder / split / "wav").mkdir(parents=True)
        lines = []
        for number in range(count):
            symbols = [str(each) for each in random.choice(list(HERTZ), int(random.integers(1, 4)))]
            speak(folder / split / "wav" / f"{number}.wav", symbols, number)
            lines.append(f"wav/{number}.wav\t{' '.join(symbols)}\n")
        (folder / split / "pairs.tsv").write_text("".join(lines))
    (folder / "train" / "wav" / "3.wav").write_bytes(b"RIFF")
    (folder / "tones.toml").write_text(RECIPE.format(folder=folder))
    return folder


@pytest.fixture(scope="module")
def run(corpus) -> Path:
    transduce.train(corpus / "tones.toml", corpus / "run", device="cpu", progress=False)
    return corpus / "run"


def lines_of(corpus: Path, split: str) -> list[list[str]]:
    return [line.split("\t") for line in (corpus / split / "pairs.tsv").read_text().splitlines()]


def test_it_is_learned(corpus, run, call):
    status, out, err = call("evaluate", run, "--json")
    assert status == 0, err
    record = json.loads(out)
    assert record["metrics"]["wer"] < 20, record
    status, out, _ = call("evaluate", run, "--json", f"--pairs={corpus / 'test' / 'pairs.tsv'}")
    assert json.loads(out)["metrics"] == record["metrics"]
    status, out, _ = call("evaluate", run, "--json", "--bins=2")
    groups = json.loads(out)["groups"]
    assert [*groups] == ["length"]  # a path has no words, rare or not
    assert groups["length"]["title"] == "steps of the source"
    assert sum(group["examples"] for group in groups["length"]["groups"]) == 12


def test_paths_are_answered_from_wherever_they_are_named(corpus, run, call, monkeypatch):
    transducer = transduce.load(run, device="cpu")
    paths = [str(corpus / "test" / name) for name, _ in lines_of(corpus, "test")]
    texts = transducer(paths)
    assert [transducer(path) for path in paths] == texts
    monkeypatch.chdir(corpus / "test" / "wav")
    named = "".join(f"{os.path.basename(path)}\n" for path in paths)
    assert call("predict", run, stdin=named.encode())[1].splitlines() == texts
    (corpus / "paths.txt").write_text("".join(f"test/wav/{os.path.basename(path)}\n" for path in paths))
    (corpus / "words.txt").write_text("".join(f"{text}\n" for text in texts))
    scored = call("score", run, f"--source={corpus / 'paths.txt'}", f"--target={corpus / 'words.txt'}")[1]
    expected = [each.log_prob for each in transducer.score(zip(paths, texts, strict=True))]
    assert [float(line) for line in scored.splitlines()] == pytest.approx(expected, abs=1e-3)


def test_when_each_tone_was_heard(corpus, run, call):
    transducer = transduce.load(run, device="cpu")
    paths = [str(corpus / "test" / name) for name, _ in lines_of(corpus, "test")]
    found = [each for (each,) in frame_alignments(transducer, [*transducer.answer(map(Request, paths))])]
    status, out, err = call("predict", run, "--frames", stdin="\n".join(paths).encode())
    assert status == 0, err
    for each, line in zip(found, out.splitlines(), strict=True):
        assert line.split(" ||| ") == [each.output.text, " ".join(f"{first}-{last}" for first, last in each.frames)]
        places = [place for span in each.frames for place in span]
        assert places == sorted(places)
        assert all(0 <= place < each.count for place in places)
    assert any(len(each.frames) > 1 for each in found)


def test_a_bad_path_is_told_by_the_number_of_the_input(corpus, run, call, caplog):
    good = corpus / "test" / "wav" / "0.wav"
    status, out, err = call("predict", run, stdin=f"{good}\nnowhere.wav\n".encode())
    assert (status, out.count("\n")) == (1, 2)
    assert "input 2: nowhere.wav is missing: there is no such file" in err + caplog.text
    with pytest.raises(RequestError, match="input 1: nowhere"):
        transduce.load(run, device="cpu")("nowhere.wav")


def test_a_long_recording_is_cut(corpus, run, caplog):
    path = corpus / "long.wav"
    speak(path, ["do", "mi"] * 100, 1)
    transducer = transduce.load(run, device="cpu")
    assert transducer.max_source_length == 1000
    transducer(str(path))
    assert "input 1 has" in caplog.text
    assert "steps and is cut to data.lines.max_source_length = 1000" in caplog.text


def test_what_a_run_would_see(corpus, call):
    status, out, err = call("data", corpus / "tones.toml", f"--out={corpus / 'runs'}")
    assert status == 0, err
    assert "train: 59 pairs" in out
    assert f"1 unreadable (skip): {corpus / 'train' / 'pairs.tsv'}:4 ({corpus / 'train' / 'wav' / '3.wav'} is" in out
    assert "a signal of 12 numbers a step" in out


def test_looking_inside_says_what_it_can(corpus, run, call):
    path = str(corpus / "test" / "wav" / "0.wav")
    status, out, err = call("inspect", run, path, "--beam-tree", "--set=search={type='beam'}")
    assert status == 0, err
    assert "</s>" in out
    status, out, _ = call("inspect", run, path)
    assert (status, len(out.splitlines()) > 1) == (0, True)  # the tokens and their probabilities
    assert "a signal has none" in call("predict", run, "--alignments", stdin=f"{path}\n".encode())[2]


def test_pairs_from_python_are_paths_from_here(corpus, monkeypatch):
    monkeypatch.chdir(corpus / "train")
    pairs = [(name, target) for name, target in lines_of(corpus, "train") if name != "wav/3.wav"]
    recipe = corpus / "tones.toml"
    transduce.train(recipe, corpus / "paired", {"training.steps": 2}, pairs=pairs, device="cpu", progress=False)
    first = json.loads((corpus / "paired" / "data" / "train.jsonl").read_text().splitlines()[0])
    assert first["source"] == str(corpus / "train" / "wav" / "0.wav")


@pytest.mark.parametrize("samples", [1, 20, 300])
def test_a_recording_of_a_few_samples_is_answered(samples, run, tmp_path, call):
    """Its one step is an array, and no row of ids: nothing may ask whether it is empty or has an unknown token."""
    path = tmp_path / "short.wav"
    path.write_bytes(wav(np.full(samples, 0.1, np.float32)))
    model = transduce.load(run, device="cpu")
    (answer,) = model.answer([Request(str(path))])
    assert not answer.unknown
    assert call("predict", run, "--frames", stdin=f"{path}\n".encode())[0] == 0
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"{path}\t{answer.best.text or 'A'}\n")
    assert call("evaluate", run, f"--pairs={pairs}", "--metric=exact", "--calibration")[0] == 0
    assert call("score", run, pairs)[0] == 0
