"""Language models: a decoder without a source, and data with targets alone, from Python and from the command line."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import Call, told
from torch import nn
from torch.testing import assert_close

import transduce
from families import FACTS, build, language, recurrent, sources, targets, transformer
from transduce import api
from transduce.answers.transducer import Transducer
from transduce.core import config
from transduce.core.config.errors import ConfigError
from transduce.core.protocols import Model
from transduce.core.types import SPECIALS
from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.preparation import examples, prepare
from transduce.data.rows import read
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.text import Characters
from transduce.models.mixtures import Fusion

RECURRENT = recurrent("plain", cell="lstm", bridge="zero")["decoder"]
LINES = ["abab", "ab", "babab", "aab", "bbab"] * 8

# ---------------------------------------------------------------------- model


def logits(model: Any, tokens_BT: torch.Tensor, source: Any) -> torch.Tensor:
    output, _ = model.extend(tokens_BT, model.start(source))
    return model.readout(output)


@torch.no_grad()
def test_a_recurrent_one_is_torchs_lstm_from_zeros() -> None:
    model, tokens_BT = build(language(RECURRENT)), targets(3, 7)
    decoder = model.decoder
    x_BTW = decoder.embedding.weight[tokens_BT]
    for cell in decoder.wiring.stack.cells:
        lstm = nn.LSTM(x_BTW.shape[-1], 10, batch_first=True, dtype=torch.float64)
        lstm.load_state_dict(cell.fused.state_dict())
        x_BTW, _ = lstm(x_BTW)
    expected = x_BTW @ decoder.projection.weight.T + decoder.projection.bias
    assert_close(logits(model, tokens_BT, sources([3, 1, 2])), expected)


@torch.no_grad()
def test_a_transformer_is_torchs_encoder_with_a_causal_mask() -> None:
    model, tokens_BT = build(language(transformer("none")["decoder"])), targets(3, 7)
    decoder = model.decoder
    x_BTD = decoder.embedding.weight[tokens_BT] * math.sqrt(8)
    hidden_TT = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
    for layer in decoder.layers:
        theirs = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, dtype=torch.float64
        )
        own = {
            "self_attn.in_proj_": layer.mixer.project,
            "self_attn.out_proj.": layer.mixer.out,
            "linear1.": layer.feedforward.widen,
            "linear2.": layer.feedforward.narrow,
            "norm1.": layer.mixer_residual.norm,
            "norm2.": layer.feedforward_residual.norm,
        }
        theirs.load_state_dict(
            {prefix + name: value for prefix, part in own.items() for name, value in part.state_dict().items()}
        )
        x_BTD = theirs(x_BTD, src_mask=hidden_TT, is_causal=True)
    expected = decoder.norm(x_BTD) @ decoder.projection.weight.T + decoder.projection.bias
    assert_close(logits(model, tokens_BT, sources([3, 1, 2])), expected)


def test_a_source_is_a_number_of_rows() -> None:
    model, tokens_BT = build(language(RECURRENT)), targets(3, 4)
    assert torch.equal(logits(model, tokens_BT, sources([3, 1, 2])), logits(model, tokens_BT, sources([1, 1, 1])))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"wiring": {"type": "luong", "attention": {"type": "global", "energy": "general"}}},
            'no source to attend to: a language model\'s recurrent decoder is wired "plain"',
        ),
        ({"bridge": "linear"}, "no source to start from .*starts at 'zero'"),
        ({"bridge": "copy"}, "bridge 'copy': the encoder leaves states of widths"),
    ],
)
def test_what_needs_a_source_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.build(language(RECURRENT | changes), Model, FACTS, "model")


# ----------------------------------------------------------------------- data


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def lines(files: Files, columns: ColumnNames | None = None) -> list[tuple[str | None, str | None]]:
    return [(row.source, row.target) for row in read(files, columns)]


def test_lines_of_text_are_targets(text: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    (tmp_path / "text.tsv").write_text("".join(f"1\t{line}\n" for line in LINES))
    (tmp_path / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    expected = [(None, line) for line in LINES]
    assert lines(Files(path=str(text))) == lines(Files(target=str(text))) == expected
    assert lines(Files(path=f"{text}.gz")) == expected
    assert lines(Files(path=str(tmp_path / "text.tsv")), ColumnNames(target=1)) == expected
    assert lines(Files(path=str(tmp_path / "text.jsonl")), ColumnNames(target="text")) == expected
    assert lines(Files(source=str(text))) == [(line, None) for line in LINES]


def test_targets_alone_are_prepared_with_a_source_of_nothing(text: Path, tmp_path: Path) -> None:
    data = Data(units=Units(target=Characters()), train=Files(path=str(text)), test=Files(path=str(text)))
    prepared = prepare(data, tmp_path / "cache")
    assert len(prepared.source_tokenizer) == len(SPECIALS)
    batch = prepared.train.batch([0, 1])  # type: ignore[arg-type]
    assert batch.source.values.tolist() == [[2], [2]]
    assert prepared.target_tokenizer.decode(batch.target.values[0].tolist()) == "abab"
    found = examples(data, "test", tmp_path / "cache")  # the lines are not references of one source
    assert [(each.source, each.references) for each in found] == [("", (line,)) for line in LINES]


def test_data_and_units_agree_on_what_there_is(text: Path, tmp_path: Path) -> None:
    one, both = Units(target=Characters()), Units(source=Characters(), target=Characters())
    for units in (both, Units(joint=Characters())):
        with pytest.raises(DataError, match=r"text\.txt has targets only: .*give data\.units\.target alone"):
            prepare(Data(units=units, train=Files(path=str(text))), tmp_path)
    parallel = Files(source=str(text), target=str(text))
    with pytest.raises(DataError, match=r"text\.txt has sources, and data\.units\.target is alone"):
        prepare(Data(units=one, train=parallel), tmp_path)
    with pytest.raises(DataError, match=r"are several references of no source"):
        Files(target=("a", "b"))
    with pytest.raises(DataError, match="columns without a source and without a target"):
        ColumnNames()


# ------------------------------------------------------------------------ use


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of characters, trained from Python on texts."""
    folder = tmp_path_factory.mktemp("language")
    table = {
        "metrics": ["token_accuracy", "perplexity"],
        "data": {"units": {"target": "characters"}},
        "model": language(RECURRENT),
        "training": {
            "steps": 60,
            "batching": {"tokens": 64},
            "optimizer": {"type": "adam", "rate": 0.02},
            "schedule": "constant",
        },
        "search": {"type": "greedy", "max_length": 8},
    }
    (folder / "text.toml").write_text(config.write(table))
    texts = [("", line) for line in LINES]
    api.train(folder / "text.toml", folder / "run", pairs=texts, device="cpu", progress=False)
    return folder / "run"


def test_it_is_used_from_the_command_line(run: Path, text: Path, call: Call) -> None:
    status, out, _ = call("predict", run, stdin=b"\n\n")
    assert status == 0
    assert len(out.splitlines()) == 2
    status, out, _ = call("score", run, text)
    scores = [float(line) for line in out.splitlines()]
    assert (status, len(scores)) == (0, len(LINES))
    assert call("score", run, "--target", text) == (0, out, "")
    status, out, _ = call("evaluate", run, "--target", text, "--json")
    found = json.loads(out)["metrics"]
    tokens = sum(len(line) + 1 for line in LINES)
    assert (status, found["perplexity"]) == (0, pytest.approx(math.exp(-sum(scores) / tokens), rel=1e-5))
    assert 60 < found["token_accuracy"] < 100  # some letters can be predicted, and some cannot
    assert call("evaluate", run, "--split", "valid")[0] == 0


def test_a_source_is_refused(run: Path, text: Path, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    status, out, err = call("predict", run, stdin=b"\nab\n")
    assert (status, out.count("\n")) == (1, 2)
    assert "input 2: 'ab': a language model has no source; give it empty lines" in err + caplog.text
    for command in ("score", "evaluate"):
        answer = call(command, run, "--source", text, "--target", text)
        assert "a language model has no source; give --target alone" in told(answer)


def test_it_is_mixed_with_a_model_that_has_a_source(run: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    """Shallow fusion: the source belongs to the other model, in either order. Target vocabularies must be the same."""
    pairs = [(line[::-1] + "c", line) for line in LINES]
    changes = {key: value for key, value in tiny.items() if key not in ("data.origin", "data.cache")}
    changes |= {"data.units": {"source": "characters", "target": "characters"}}
    translation = api.train("reverse", tmp_path / "t", changes, pairs, device="cpu", progress=False)
    language, wanted = transduce.load(run, device="cpu"), [("bbac", "abab"), ("c", "bba")]
    each = [
        [o.log_prob for o in one.score(asked)]
        for one, asked in ((translation, wanted), (language, [("", t) for _, t in wanted]))
    ]
    for runs, weights in (([tmp_path / "t", run], [1, 0.4]), ([run, tmp_path / "t"], [0.4, 1])):
        named = "+".join(map(str, runs))
        fused = transduce.load(named, device="cpu", fusion=weights)
        assert fused.conditional
        assert fused(["bbac", ""]) == [outputs[0].text for outputs in fused.predict(["bbac", ""])]
        plain = Fusion(fused.model.models, weights, renormalise=False)
        summed = Transducer(plain, fused.search, fused.tokenizers).score(wanted)
        expected = [t + 0.4 * lm for t, lm in zip(*each, strict=True)]
        assert [output.log_prob for output in summed] == pytest.approx(expected, rel=1e-4)
    other = api.train("reverse", tmp_path / "o", changes, [("a", "xyz")] * 40, device="cpu", progress=False)
    assert other.conditional
    with pytest.raises(ValueError, match="have different target vocabularies"):
        transduce.load(f"{run}+{tmp_path / 'o'}", device="cpu", fusion=[1, 1])
