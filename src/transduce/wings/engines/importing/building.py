"""Builds our model of a checkpoint: its settings, its tokenizers and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model, Search
from transduce.data.preparation import Tokenizers
from transduce.data.settings import Data
from transduce.models.building import build_model
from transduce.models.weights import set_weights
from transduce.wings.engines.foreign.marian import (
    BIAS,
    EMBEDDINGS,
    READOUT,
    SHARED,
    feature_order,
    model_settings,
    parts,
    tensor,
    to_ours,
)
from transduce.wings.engines.importing.base import Foreign, Numbering, Side

SILENT = -30000.0  # a logit without probability in any precision: float16 holds it, too
RANKINGS = {1: "average", 0: "none"}  # by length_penalty
BEAM, LENGTH = 4, 512  # the defaults of OPUS-MT, where neither file has them


@dataclass(frozen=True)
class Built:
    """A model of ours with the weights of a checkpoint. ``settings`` are a run's, with all defaults.

    ``source`` and ``target`` are the numberings of the tokens.
    """

    model: nn.Module
    settings: config.Table
    source: Numbering
    target: Numbering

    @property
    def tokenizers(self) -> Tokenizers:
        return Tokenizers(self.source.tokenizer, self.target.tokenizer)


def build(found: Foreign) -> Built:
    """Raises UserError if a parameter is missing, has another shape than the config says, or is not finite."""
    source, target = (Numbering.of(side, found.config) for side in (found.source, found.target))
    table = model_settings(found.config, found.numerics)
    if table["tie"] == "all" and source.rows != target.rows:
        table["tie"] = "target"
    units = {"source": _unit(found.source), "target": _unit(found.target)}
    return assembled(found.folder, table, weights(found, source, target), source, target, units, _search(found))


def assembled(
    origin: Path,
    table: config.Table,
    every: Mapping[str, Tensor],
    source: Numbering,
    target: Numbering,
    units: config.Table,
    search: config.Table,
) -> Built:
    """The model of the settings ``table`` with the weights ``every``, by our names, and a run's settings.

    ``origin`` is the checkpoint's folder. Raises UserError if a weight has another shape than the settings say, or is
    not finite.
    """
    tokenizers = Tokenizers(source.tokenizer, target.tokenizer)
    with torch.device("meta"):  # a stranger's sizes take no memory before they are compared with the tensors
        planned = build_model(table, tokenizers.facts)
    own = {name: every[name] for name, _ in planned.named_parameters()}
    _check_shapes(planned, own)
    model = build_model(table, tokenizers.facts)
    set_weights(model, own, str(origin))
    settings = {
        "data": config.resolve({"units": units}, Data, path="data"),
        "model": config.resolve(table, Model, tokenizers.facts, "model"),
        "search": config.resolve(search, Search, path="search"),
        "metrics": ["bleu", "chrf"],
    }
    return Built(model.eval(), settings, source, target)


def _check_shapes(planned: nn.Module, own: Mapping[str, Tensor]) -> None:
    for name, parameter in planned.named_parameters():
        if parameter.shape != own[name].shape:
            raise UserError(
                f"the checkpoint's settings say that {name} is {tuple(parameter.shape)}, and its weights have "
                f"{tuple(own[name].shape)}: its files do not belong together; copy the folder again"
            )


def weights(found: Foreign, source: Numbering, target: Numbering) -> dict[str, Tensor]:
    """All parameters by our names, the tied ones under each of their names."""
    width = found.config["d_model"]
    order_D = feature_order(width)
    layers = {side: found.config[f"{side}_layers"] for side in ("encoder", "decoder")}
    made = {part.ours: to_ours(part, found.tensors, order_D) for part in parts(layers)}
    scale = 1.0 if found.config.get("scale_embedding", False) else width**0.5  # ours multiply by the root of the width
    for side, numbering in (("encoder", source), ("decoder", target)):
        made[f"{side}.embedding.weight"] = _table(found, _embedding(found, side), numbering)[:, order_D] / scale
    made["decoder.projection.weight"] = _table(found, _readout(found), target)[:, order_D]
    bias_V = tensor(found.tensors, BIAS).flatten().float()
    if len(bias_V) != len(found.target.tokens):
        raise UserError(f"{BIAS} has {len(bias_V)} numbers, and the vocabulary {len(found.target.tokens)} tokens")
    made["decoder.projection.bias"] = bias_V[target.rows]
    made["decoder.projection.bias"][target.silenced(found.silent)] = SILENT
    return made


def _table(found: Foreign, name: str, numbering: Numbering) -> Tensor:
    """A table of vectors in the order of our ids. Raises UserError if it does not fit the vocabulary or the width."""
    theirs_VD = tensor(found.tensors, name)
    tokens, width = len(set(numbering.rows)), found.config["d_model"]
    if tuple(theirs_VD.shape) != (tokens, width):
        raise UserError(f"{name} is {tuple(theirs_VD.shape)}: {tokens} tokens of width {width} were expected")
    return theirs_VD[numbering.rows].float()


def _embedding(found: Foreign, side: str) -> str:
    """The name of an embedding's table. A file of tied tables may have only one of their names."""
    shared = found.config.get("share_encoder_decoder_embeddings", True)
    tied = found.config.get("tie_word_embeddings", True) and (shared or side == "decoder")
    others = (SHARED, *EMBEDDINGS.values()) if shared else ()
    names = (EMBEDDINGS[side], *others, *([READOUT] if tied else []))
    return next((name for name in names if name in found.tensors), EMBEDDINGS[side])


def _readout(found: Foreign) -> str:
    if not found.config.get("tie_word_embeddings", True):
        return READOUT
    return _embedding(found, "decoder")


def _unit(side: Side) -> config.Table:
    names = ("model", "vocabulary")
    return {"type": "sentencepiece", **{name: str(path) for name, path in zip(names, side.files, strict=False)}}


def _search(found: Foreign) -> config.Table:
    """The table ``search``: a beam of the checkpoint's size. Their longest output counts the token that starts it."""
    options = found.generation
    size, length = options.get("num_beams") or BEAM, (options.get("max_length") or LENGTH) - 1
    if size == 1:
        return {"type": "greedy", "max_length": length}
    return {"type": "beam", "size": size, "max_length": length, "ranking": {"type": _ranking(options)}}


def _ranking(options: config.Table) -> str:
    return RANKINGS.get(options.get("length_penalty", 1), "average")
