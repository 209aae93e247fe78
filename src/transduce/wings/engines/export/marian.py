"""Writes a Transformer as a Marian model in Hugging Face's format, and runs it with transformers for the comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core.config import Table, TableView
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, SPECIALS, Hypothesis, Padded
from transduce.data.preparation import Tokenizers
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.storage import TEXT
from transduce.search.forcing import forced_hypotheses, shifted
from transduce.search.greedy import Greedy
from transduce.wings.engines.foreign.hugging_face import write_original
from transduce.wings.engines.foreign.marian import BIAS, EMBEDDINGS, READOUT, SHARED, feature_order, parts, to_theirs
from transduce.wings.engines.foreign.original import Original
from transduce.wings.engines.sentencepiece import SentencePieceTokenizer
from transduce.wings.engines.transformers import activation, check_transformer, check_value, epsilon, inner

POSITIONS = 1024  # that the model of transformers has vectors for
ENGINE = "Hugging Face's Marian"
TIED = ("target", "all")  # values of ``model.tie`` that share the readout; equal embeddings are written twice


def write_marian(
    model: nn.Module, settings: TableView, search: TableView, tokenizers: Tokenizers, folder: Path
) -> Table:
    """Writes config.json, generation_config.json, model.safetensors and the files of the tokenizers into ``folder``.
    Returns the notes for export.json.

    ``settings`` is the table ``model`` of the run, and ``search`` its table ``search``, both with all defaults. Tokens
    keep their ids. Raises UserError for a model that Hugging Face's Marian does not have.
    """
    _check(settings)
    order_D = feature_order(settings["encoder"]["width"])
    with torch.no_grad():
        tensors = dict(_tensors(model, settings["tie"], order_D))
    sizes = [len(side) for side in tokenizers.both]
    write_original(folder, _config(settings, sizes), {name: each.clone() for name, each in tensors.items()})
    _write_json(folder / "generation_config.json", _generation(search))
    for name, side in zip(("source", "target"), tokenizers.both, strict=True):
        _write_tokenizer(folder, name, side)
    if all(isinstance(side, SentencePieceTokenizer) for side in tokenizers.both):
        apart = tokenizers.source.entries != tokenizers.target.entries
        _write_json(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "separate_vocabs": apart})
    return {"model": "marian"}


def _check(settings: TableView) -> None:
    """Raises UserError for the first setting whose value Hugging Face's Marian does not have."""
    check_transformer(settings, ENGINE, ("sinusoidal",), ("post",))
    encoder, decoder = settings["encoder"], settings["decoder"]
    check_value("encoder.norm.eps", epsilon(encoder), (1e-5,), ENGINE)
    check_value("decoder.width", decoder["width"], (encoder["width"],), ENGINE)
    check_value("decoder.feedforward.activation", activation(decoder), (activation(encoder),), ENGINE)
    for side in ("encoder", "decoder"):
        exponents = inner(settings[side]["positions"], "exponents", "paper")
        check_value(f"{side}.positions.exponents", exponents, ("paper",), ENGINE)


def _tensors(model: nn.Module, tie: str, order_D: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the parameters by Hugging Face's names, a tied one by one of its names."""
    layers = {side: len(getattr(model, side).layers) for side in ("encoder", "decoder")}
    own = dict(model.named_parameters())
    for part in parts(layers):
        yield from to_theirs(part, own, order_D)
    inverse_D = order_D.argsort()
    if tie == "all":
        yield SHARED, model.get_parameter("decoder.embedding.weight").float()[:, inverse_D]
    else:
        for side in ("encoder", "decoder"):
            yield EMBEDDINGS[side], model.get_parameter(f"{side}.embedding.weight").float()[:, inverse_D]
    if tie not in TIED:
        yield READOUT, model.get_parameter("decoder.projection.weight").float()[:, inverse_D]
    yield BIAS, model.get_parameter("decoder.projection.bias").float()[None]


def _config(settings: TableView, sizes: list[int]) -> Table:
    encoder, decoder = settings["encoder"], settings["decoder"]
    found: Table = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "d_model": encoder["width"],
        "dropout": encoder["dropout"],
        "activation_function": activation(encoder),
        "max_position_embeddings": POSITIONS,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": settings["tie"] == "all",
        "tie_word_embeddings": settings["tie"] in TIED,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": EOS,
    }
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        feedforward = stack["feedforward"]
        found |= {
            f"{side}_layers": stack["layers"],
            f"{side}_attention_heads": stack["heads"],
            f"{side}_ffn_dim": feedforward if isinstance(feedforward, int) else feedforward["hidden"],
        }
    return found


def _generation(search: TableView) -> Table:
    """The options of the run's search in Hugging Face's terms. Rankings that these do not have become the average."""
    beam = search.get("type") == "beam"
    alone = beam and inner(search.get("ranking"), "type", search.get("ranking")) == "none"
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": EOS,
        "bad_words_ids": [[PAD], [BOS]],
        "num_beams": search["size"] if beam else 1,
        "max_length": search.get("max_length", 200) + 1,  # they count the token that starts an output
        **({"length_penalty": 0.0 if alone else 1.0, "early_stopping": False} if beam else {}),
    }


def _write_tokenizer(folder: Path, name: str, tokenizer: Tokenizer) -> None:
    """Writes a side's tokenizer in Hugging Face's format: SentencePiece files of Marian, or a tokenizer.json in the
    folder ``name``. Other tokenizers have no such format; then nothing is written.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        (folder / f"{name}.spm").write_bytes(tokenizer.model)
        vocabulary = {token: place for place, token in enumerate(tokenizer.entries)}
        _write_json(folder / {"source": "vocab.json", "target": "target_vocab.json"}[name], vocabulary)
    elif tokenizer.kind == TEXT:
        (folder / name).mkdir()
        _write_json(folder / name / "tokenizer.json", tokenizer.as_json())
        names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIALS, strict=True))
        _write_json(folder / name / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **names})


def _write_json(path: Path, table: object) -> None:
    path.write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


class MarianModel(nn.Module):
    """``Searching``: an exported model as transformers runs it, greedily. The comparison of an export uses it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.original = Original(folder)

    def search(self, search: Greedy, source: Padded, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        """The best output of each source by transformers' own greedy search, with the ``max_length`` of ``search``."""
        if prefix is not None:
            raise UserError("the comparison of an export has no prefixes")
        found_BT = self.original.model.generate(
            source.values,
            attention_mask=source.mask.long(),
            num_beams=1,
            do_sample=False,
            max_length=search.max_length + 1,
            length_penalty=None,
            early_stopping=None,
        )
        rows = [row[1 : row.index(EOS, 1) + 1] for row in found_BT.tolist()]
        return [[hypothesis] for hypothesis in self.force(source, Padded.of(rows))]

    def force(self, source: Padded, target: Padded) -> list[Hypothesis]:
        logits_BTV = self.original.logits(source, shifted(target))
        log_prob_NV = torch.log_softmax(logits_BTV[target.mask], -1)
        target_N = target.values[target.mask]
        own_N = log_prob_NV.gather(1, target_N[:, None])[:, 0].double()
        log_prob_NV[:, [PAD, BOS]] = float("-inf")
        best_N, choice_N = log_prob_NV.max(-1)
        return forced_hypotheses(target.lengths.tolist(), target_N, own_N, best_N.double(), choice_N == target_N)
