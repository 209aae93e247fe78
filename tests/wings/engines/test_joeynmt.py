"""Checkpoints of JoeyNMT: the logits of a model that follows JoeyNMT's published source, or a refusal.

JoeyNMT itself does not install here, so the files are made by hand, with its names of parameters and settings.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from test_importing import Dangerous, model  # noqa: F401
from torch import Tensor, nn
from torch.testing import assert_close

import transduce
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, SPECIALS, Padded
from transduce.wings.engines.importing import joeynmt
from transduce.wings.engines.importing.joeynmt_files import read
from transduce.wings.engines.importing.run import import_run
from transduce.wings.engines.sentencepiece import SentencePiece

WIDTH, HEADS, LAYERS, HIDDEN = 8, 2, 2, 12
Kind = tuple[str, bool, bool]  # norm, scaled embeddings, tied tables
KINDS: dict[str, Kind] = {"pre, tied": ("pre", True, True), "post, unscaled": ("post", False, False)}


def heads_of(x_BTD: Tensor) -> Tensor:
    return x_BTD.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Reference:
    """The logits as JoeyNMT's source computes them from the parameters in ``tensors``, without dropout."""

    def __init__(self, tensors: dict[str, Tensor], kind: Kind) -> None:
        self.tensors, (self.norm, self.scaled, _) = tensors, kind

    def linear(self, name: str, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def normed(self, name: str, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, (WIDTH,), self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], 1e-6)

    def around(self, norm: str, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        return x + part(self.normed(norm, x)) if self.norm == "pre" else self.normed(norm, x + part(x))

    def attention(self, name: str, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            heads_of(self.linear(f"{name}.{letter}_layer", x))
            for letter, x in (("q", query), ("k", memory), ("v", memory))
        )
        energy = (q / math.sqrt(WIDTH // HEADS)) @ k.transpose(2, 3)
        mixed = energy.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.linear(f"{name}.output_layer", mixed.transpose(1, 2).flatten(2))

    def feed_forward(self, layer: str, x: Tensor) -> Tensor:
        name = f"{layer}.feed_forward"
        part = lambda y: self.linear(f"{name}.pwff_layer.3", self.linear(f"{name}.pwff_layer.0", y).relu())  # noqa: E731
        return self.around(f"{name}.layer_norm", x, part)

    def embedded(self, side: str, ids_BT: Tensor) -> Tensor:
        x_BTD = self.tensors[f"{side}_embed.lut.weight"][ids_BT] * (math.sqrt(WIDTH) if self.scaled else 1.0)
        place_T1, frequency_F = torch.arange(ids_BT.shape[1])[:, None], 10000.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH)
        return x_BTD + torch.stack([(place_T1 * frequency_F).sin(), (place_T1 * frequency_F).cos()], -1).flatten(1)

    def last(self, stack: str, x: Tensor) -> Tensor:
        return self.normed(f"{stack}.layer_norm", x) if self.norm == "pre" else x

    def logits(self, source: Tensor, mask_BS: Tensor, target: Tensor) -> Tensor:
        seen = mask_BS[:, None, None]
        x = self.embedded("src", source)
        for layer in (f"encoder.layers.{number}" for number in range(LAYERS)):
            x = self.around(f"{layer}.layer_norm", x, lambda y, n=f"{layer}.src_src_att": self.attention(n, y, y, seen))
            x = self.feed_forward(layer, x)
        memory, past = self.last("encoder", x), torch.ones(target.shape[1], target.shape[1]).tril().bool()
        x = self.embedded("trg", target)
        for layer in (f"decoder.layers.{number}" for number in range(LAYERS)):
            x = self.around(
                f"{layer}.x_layer_norm", x, lambda y, n=f"{layer}.trg_trg_att": self.attention(n, y, y, past)
            )
            x = self.around(
                f"{layer}.dec_layer_norm", x, lambda y, n=f"{layer}.src_trg_att": self.attention(n, y, memory, seen)
            )
            x = self.feed_forward(layer, x)
        return self.linear("decoder.output_layer", self.last("decoder", x))


def parameters(kind: Kind, vocabulary: int) -> dict[str, Tensor]:
    """Random parameters with JoeyNMT's names."""
    generator = torch.Generator().manual_seed(3)
    made = dict[str, Tensor]()

    def add(name: str, *shape: int, bias: bool = True) -> None:
        made[f"{name}.weight"] = torch.randn(*shape, generator=generator) / 2 + (len(shape) == 1)
        if bias:
            made[f"{name}.bias"] = torch.randn(shape[0], generator=generator) / 2

    add("src_embed.lut", vocabulary, WIDTH, bias=False)
    add("trg_embed.lut", vocabulary, WIDTH, bias=False)
    add("decoder.output_layer", vocabulary, WIDTH, bias=False)
    parts = {"encoder": (["src_src_att"], ["layer_norm"])}
    parts["decoder"] = (["trg_trg_att", "src_trg_att"], ["x_layer_norm", "dec_layer_norm"])
    for stack, (attentions, norms) in parts.items():
        for number in range(LAYERS):
            layer = f"{stack}.layers.{number}."
            for each in (f"{a}.{part}_layer" for a in attentions for part in ("q", "k", "v", "output")):
                add(layer + each, WIDTH, WIDTH)
            for each in (*norms, "feed_forward.layer_norm"):
                add(layer + each, WIDTH)
            add(f"{layer}feed_forward.pwff_layer.0", HIDDEN, WIDTH)
            add(f"{layer}feed_forward.pwff_layer.3", WIDTH, HIDDEN)
        if kind[0] == "pre":
            add(f"{stack}.layer_norm", WIDTH)
    if kind[2]:
        made["trg_embed.lut.weight"] = made["decoder.output_layer.weight"] = made["src_embed.lut.weight"]
    return made


def write(folder: Path, spm: Path, kind: Kind, **changes: Any) -> dict[str, Tensor]:
    """Writes a checkpoint's folder. Returns its parameters. ``changes`` are settings of the target text."""
    folder.mkdir()
    shutil.copy(spm, folder / "spm.model")
    pieces = SentencePiece(spm).learn(()).entries[len(SPECIALS) :]
    tokens = ["<unk>", "<pad>", "<s>", "</s>", *pieces[::-1]]
    for side in ("src", "trg"):
        (folder / f"{side}_vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    text = {"level": "bpe", "tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": "/old/place/spm.model"}}
    stack = {"type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH, "ff_size": HIDDEN}
    stack |= {"embeddings": {"embedding_dim": WIDTH, "scale": kind[1]}, "layer_norm": kind[0]}
    settings = {
        "data": {"src": text, "trg": text | changes},
        "model": {"tied_embeddings": kind[2], "tied_softmax": kind[2], "encoder": stack, "decoder": {**stack}},
        "testing": {"beam_size": 3, "beam_alpha": 1.0, "max_output_length": 9},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    tensors = parameters(kind, len(tokens))
    torch.save({"model_state": tensors, "steps": 7, "optimizer_state": {"state": {}}}, folder / "best.ckpt")
    return tensors


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_logits_are_those_of_the_source(kind: Kind, model: Path, tmp_path: Path) -> None:
    reference = Reference(write(tmp_path / "joey", model, kind), kind)
    built = joeynmt.build(read(tmp_path / "joey"))
    rows = torch.tensor(built.source.rows)
    source, target = Padded.of([[4, 5, 9, EOS], [7, EOS]]), torch.tensor([[BOS, 8, 4, 6], [BOS, 5, 5, 4]])
    with torch.inference_mode():
        output, _ = built.model.extend(target, built.model.start(source))
        ours_BTV = built.model.readout(output)
        theirs_BTV = reference.logits(rows[source.values], source.mask, rows[target])[..., rows]
    assert_close(ours_BTV[..., EOS:], theirs_BTV[..., EOS:], atol=1e-5, rtol=0)
    done = import_run(tmp_path / "joey", tmp_path / "run")
    assert done.agreement is None
    assert "were not compared" in done.notes[0]
    loaded = transduce.load(tmp_path / "run", device="cpu")
    assert (loaded.search.size, loaded.search.max_length, loaded.search.ranking.alpha) == (3, 9, 1.0)
    assert loaded.settings["model"]["tie"] == ("all" if kind[2] else "none")
    ids = loaded.source_tokenizer.encode(["ein hund"])[0]
    assert loaded.source_tokenizer.decode(ids) == "ein hund"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": "word"}, r"data\.trg\.level = 'word': only 'bpe' is imported"),
        ({"tokenizer_type": "subword-nmt"}, "tokenizer_type = 'subword-nmt': only 'sentencepiece'"),
        ({"lowercase": True}, "lowercase = True: only False"),
        (
            {"tokenizer_cfg": {"model_file": "spm.model", "pretokenizer": "moses"}},
            "pretokenizer = 'moses': only 'none'",
        ),
        ({"tokenizer_cfg": {}}, "model_file = None: the path of a SentencePiece"),
    ],
)
def test_other_texts_are_refused(change: Any, message: str, model: Path, tmp_path: Path) -> None:
    write(tmp_path / "joey", model, KINDS["pre, tied"], **change)
    with pytest.raises(UserError, match=message):
        import_run(tmp_path / "joey", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "recurrent"}, r"model\.decoder\.type = 'recurrent': 'transformer' was expected"),
        ({"alpha": 0.8}, r"alpha = 0\.8: 1\.0 was expected"),
        ({"activation": "tanh"}, "activation = 'tanh': 'relu' or 'gelu'"),
        ({"num_layers": 10**9}, "num_layers = 1000000000"),
        ({"dropout": "0.1"}, r"config.yaml: model.decoder: dropout = '0.1': a finite number was expected"),
        ({"activation": ["relu"]}, "activation = .*: a word was expected"),
        ({"embeddings": {"embedding_dim": 8, "scale": "yes"}}, "embeddings: scale = 'yes': true or false"),
        ({"num_layers": 3}, r"decoder\.layers\.2\.trg_trg_att\.q_layer\.weight"),
        ({"ff_size": 13}, "settings say that decoder"),
        ({"hidden_size": 16, "embeddings": {"embedding_dim": 16}}, "the vocabulary has"),
    ],
)
def test_other_models_are_refused(change: Any, message: str, model: Path, tmp_path: Path) -> None:
    write(tmp_path / "joey", model, KINDS["post, unscaled"])
    file = tmp_path / "joey" / "config.yaml"
    settings = yaml.safe_load(file.read_text())
    settings["model"]["decoder"] |= change
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        import_run(tmp_path / "joey", tmp_path / "run")


def test_broken_files_are_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "joey"
    write(folder, model, KINDS["post, unscaled"])
    torch.save({"model_state": Dangerous()}, folder / "best.ckpt")
    with pytest.raises(UserError, match="can run code"):
        import_run(folder, tmp_path / "run")
    assert not Path("executed").exists()
    torch.save({"state": 1}, folder / "best.ckpt")
    with pytest.raises(UserError, match="has no table model_state"):
        import_run(folder, tmp_path / "run")
    (folder / "best.ckpt").rename(folder / "1.ckpt")
    shutil.copy(folder / "1.ckpt", folder / "2.ckpt")
    with pytest.raises(UserError, match=r"has 2 \.ckpt files and no best\.ckpt"):
        import_run(folder, tmp_path / "run")
    (folder / "trg_vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"trg_vocab\.txt is missing"):
        import_run(folder, tmp_path / "run")
