"""Marian's Transformer in Hugging Face's format, and ours: which parameters, features and settings are the same.

Marian's vectors of positions have all sines first, then all cosines. Ours take turns (Vaswani et al. 2017, section
3.5). So each axis of the model's width has another order. D: the model's width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from transduce.core.config import Table
from transduce.core.errors import UserError

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
BIAS = "final_logits_bias"
SHARED = "model.shared.weight"
EMBEDDINGS = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
READOUT = "lm_head.weight"


@dataclass(frozen=True)
class Part:
    """A parameter of ours and the parameters of Marian's that it consists of, stacked along the first axis.

    ``reads`` says that its last axis is the model's width, and ``writes`` that its first axis is.
    """

    ours: str
    theirs: tuple[str, ...]
    reads: bool = False
    writes: bool = False


def parts(layers: Mapping[str, int]) -> Iterator[Part]:
    """Yields all parameters of the layers. ``layers`` has the numbers of layers of "encoder" and "decoder"."""
    for side, count in layers.items():
        for number in range(count):
            layer = f"{side}.layers.{number}."
            yield from _layer(layer, f"model.{layer}")
            if side == "decoder":
                yield from _memory(layer, f"model.{layer}")


def _layer(ours: str, theirs: str) -> Iterator[Part]:
    attention = f"{theirs}self_attn."
    yield from _linear(f"{ours}mixer.project", *(f"{attention}{name}_proj" for name in "qkv"), reads=True)
    yield from _linear(f"{ours}mixer.out", f"{attention}out_proj", writes=True)
    yield from _linear(f"{ours}mixer_residual.norm", f"{theirs}self_attn_layer_norm", writes=True)
    yield from _linear(f"{ours}feedforward.widen", f"{theirs}fc1", reads=True)
    yield from _linear(f"{ours}feedforward.narrow", f"{theirs}fc2", writes=True)
    yield from _linear(f"{ours}feedforward_residual.norm", f"{theirs}final_layer_norm", writes=True)


def _memory(ours: str, theirs: str) -> Iterator[Part]:
    attention = f"{theirs}encoder_attn."
    yield from _linear(f"{ours}memory.query", f"{attention}q_proj", reads=True)
    yield from _linear(f"{ours}memory.project", f"{attention}k_proj", f"{attention}v_proj", reads=True)
    yield from _linear(f"{ours}memory.out", f"{attention}out_proj", writes=True)
    yield from _linear(f"{ours}memory_residual.norm", f"{theirs}encoder_attn_layer_norm", writes=True)


def _linear(ours: str, *theirs: str, reads: bool = False, writes: bool = False) -> Iterator[Part]:
    yield Part(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), reads, writes)
    yield Part(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), False, writes)


def feature_order(width: int) -> Tensor:
    """For each feature of ours, the number of Marian's feature [D]."""
    return torch.arange(width).view(2, width // 2).T.flatten()


def to_ours(part: Part, theirs: Mapping[str, Tensor], order_D: Tensor) -> Tensor:
    """The parameter of ours, in float32. Raises UserError if one of Marian's is missing, or if its width differs."""
    found = [tensor(theirs, name) for name in part.theirs]
    for name, each in zip(part.theirs, found, strict=True):
        for axis in ([0] if part.writes else []) + ([-1] if part.reads else []):
            if not each.ndim or each.shape[axis] != len(order_D):
                raise UserError(
                    f"{name} is {tuple(each.shape)}: width {len(order_D)} was expected, as the embeddings have it"
                )
    stacked = torch.cat(found).float()
    stacked = stacked[order_D] if part.writes else stacked
    return stacked[..., order_D] if part.reads else stacked


def to_theirs(part: Part, ours: Mapping[str, Tensor], order_D: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the parameters of Marian's with their names."""
    inverse_D = order_D.argsort()
    stacked = ours[part.ours].float()
    stacked = stacked[inverse_D] if part.writes else stacked
    stacked = stacked[..., inverse_D] if part.reads else stacked
    yield from zip(part.theirs, stacked.chunk(len(part.theirs)), strict=True)


def tensor(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """The tensor of this name. Raises UserError if there is none."""
    if name not in tensors:
        raise UserError(f"the checkpoint has no parameter {name}, which a Transformer of Marian has; copy it again")
    return tensors[name]


@dataclass(frozen=True)
class Numerics:
    """Two constants that Hugging Face's Marian has by default, and Marian itself otherwise: ``eps``, which a norm adds
    to the variance, and the ``exponents`` of the positions.
    """

    eps: float = 1e-5
    exponents: Literal["paper", "inclusive"] = "paper"


HUGGING_FACE = Numerics()


def model_settings(config: Table, numerics: Numerics) -> Table:
    """The table ``model`` of a run, for the values of a config.json of Marian's."""
    stacks = {
        side: {
            "type": "transformer",
            "positions": {"type": "sinusoidal", "exponents": numerics.exponents},
            "width": config["d_model"],
            "layers": config[f"{side}_layers"],
            "heads": config[f"{side}_attention_heads"],
            "norm": {"type": "post", "eps": numerics.eps},
            "dropout": float(config.get("dropout", 0.1)),
            "feedforward": {
                "type": "plain",
                "hidden": config[f"{side}_ffn_dim"],
                "activation": ACTIVATIONS[config["activation_function"]],
            },
        }
        for side in ("encoder", "decoder")
    }
    return {"type": "encoder-decoder", **stacks, "tie": tie(config)}


def tie(config: Table) -> str:
    """The value of ``model.tie``. Marian can leave its embeddings unscaled, and we scale all: then nothing is tied, and
    the embeddings are imported divided by the scale.
    """
    if not config.get("tie_word_embeddings", True) or not config.get("scale_embedding", False):
        return "none"
    return "all" if config.get("share_encoder_decoder_embeddings", True) else "target"
