"""Our model of a Transformer of JoeyNMT (Kreutzer et al. 2019): its settings, tokenizers and weights.

JoeyNMT's vectors of positions take turns as ours do, so no feature moves. V: vocabulary; D: the model's width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK
from transduce.wings.engines.foreign.marian import tensor
from transduce.wings.engines.importing.base import Numbering
from transduce.wings.engines.importing.building import SILENT, Built, assembled
from transduce.wings.engines.importing.joeynmt_files import ACTIVATIONS, SIDES, Checkpoint, table
from transduce.wings.engines.sentencepiece import SentencePieceTokenizer, spoken

EPS = 1e-6  # of every norm of JoeyNMT
NOTE = (
    "JoeyNMT is not installed with transduce, so the logits were not compared with the original's: translate a few "
    "sentences with both"
)


def build(found: Checkpoint) -> Built:
    """Raises UserError if a parameter is missing, has another shape than config.yaml says, or is not finite."""
    source, target = (
        _numbering(model.read_bytes(), tokens) for model, tokens in zip(found.models, found.tokens, strict=True)
    )
    units = {
        side: {"type": "sentencepiece", "model": str(model)}
        for side, model in zip(("source", "target"), found.models, strict=True)
    }
    every = dict(_weights(found, source, target))
    settings = {"type": "encoder-decoder", **{stack: _stack(found, stack) for stack in SIDES}, "tie": _tie(found)}
    return assembled(found.folder, settings, every, source, target, units, _search(found.settings))


# ------------------------------------------------------------- settings


def _stack(found: Checkpoint, name: str) -> config.Table:
    stack = table(found.model, name)
    hidden, activation = stack["ff_size"], ACTIVATIONS[stack.get("activation", "relu")]
    return {
        "type": "transformer",
        "positions": {"type": "sinusoidal"},
        "width": stack["hidden_size"],
        "layers": stack["num_layers"],
        "heads": stack["num_heads"],
        "norm": {"type": _norm(found, name), "eps": EPS},
        "dropout": float(stack.get("dropout", 0.1)),
        "feedforward": {"type": "plain", "hidden": hidden, "activation": activation},
    }


def _norm(found: Checkpoint, stack: str) -> str:
    """ "pre" or "post". Only a stack with norms before its layers has a last one."""
    return "pre" if f"{stack}.layer_norm.weight" in found.tensors else "post"


def _tie(found: Checkpoint) -> str:
    """The value of ``model.tie``. We scale all embeddings: unscaled ones are imported divided, and not tied."""
    source, target = (_scaled(found, stack) for stack in SIDES)
    if not found.model.get("tied_softmax", False) or not target:
        return "none"
    return "all" if found.model.get("tied_embeddings", False) and source else "target"


def _scaled(found: Checkpoint, stack: str) -> bool:
    return bool(table(found.model, stack, "embeddings").get("scale", False))


def _search(settings: config.TableView) -> config.Table:
    testing = table(settings, "testing")
    size, length = testing.get("beam_size", 1), testing.get("max_output_length") or 200
    if size <= 1:
        return {"type": "greedy", "max_length": length}
    alpha = testing.get("beam_alpha", testing.get("alpha", -1))
    ranking = {"type": "wu", "alpha": float(alpha)} if alpha and alpha > 0 else {"type": "none"}
    return {"type": "beam", "size": size, "max_length": length, "ranking": ranking}


def _numbering(model: bytes, tokens: list[str]) -> Numbering:
    """Our ids of one side. Raises UserError if the vocabulary lacks one of <pad>, <s>, </s> and <unk>."""
    for special in SPECIALS:
        if special not in tokens:
            raise UserError(f"the vocabulary has no {special}: other special_symbols are not imported")
    others = spoken(tokens)
    places = {token: place for place, token in enumerate(tokens)}
    rows = [places[token] for token in (*(SPECIALS[each] for each in (PAD, BOS, EOS, UNK)), *others)]
    return Numbering(SentencePieceTokenizer(model, others), rows)


# ------------------------------------------------------------- parameters


def _weights(found: Checkpoint, source: Numbering, target: Numbering) -> Iterator[tuple[str, Tensor]]:
    """Yields all parameters by our names."""
    for stack, numbering in (("encoder", source), ("decoder", target)):
        width = table(found.model, stack)["hidden_size"]
        scale = 1.0 if _scaled(found, stack) else width**0.5
        yield f"{stack}.embedding.weight", _rows(found, f"{SIDES[stack]}_embed.lut.weight", numbering, width) / scale
        for number in range(table(found.model, stack)["num_layers"]):
            yield from _layer(found, stack, f"{stack}.layers.{number}.")
        if _norm(found, stack) == "pre":
            yield from _copied(found, f"{stack}.norm", f"{stack}.layer_norm")
    width = table(found.model, "decoder")["hidden_size"]
    yield "decoder.projection.weight", _rows(found, "decoder.output_layer.weight", target, width)
    bias_V = torch.zeros(len(target.rows))
    bias_V[[PAD, BOS]] = SILENT  # a search writes neither
    yield "decoder.projection.bias", bias_V


def _layer(found: Checkpoint, stack: str, layer: str) -> Iterator[tuple[str, Tensor]]:
    own, first = ("src_src_att", "layer_norm") if stack == "encoder" else ("trg_trg_att", "x_layer_norm")
    yield from _stacked(found, f"{layer}mixer.project", *(f"{layer}{own}.{name}_layer" for name in "qkv"))
    yield from _copied(found, f"{layer}mixer.out", f"{layer}{own}.output_layer")
    yield from _copied(found, f"{layer}mixer_residual.norm", f"{layer}{first}")
    if stack == "decoder":
        memory = f"{layer}src_trg_att."
        yield from _copied(found, f"{layer}memory.query", f"{memory}q_layer")
        yield from _stacked(found, f"{layer}memory.project", f"{memory}k_layer", f"{memory}v_layer")
        yield from _copied(found, f"{layer}memory.out", f"{memory}output_layer")
        yield from _copied(found, f"{layer}memory_residual.norm", f"{layer}dec_layer_norm")
    yield from _copied(found, f"{layer}feedforward.widen", f"{layer}feed_forward.pwff_layer.0")
    yield from _copied(found, f"{layer}feedforward.narrow", f"{layer}feed_forward.pwff_layer.3")
    yield from _copied(found, f"{layer}feedforward_residual.norm", f"{layer}feed_forward.layer_norm")


def _copied(found: Checkpoint, ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    yield from _stacked(found, ours, theirs)


def _stacked(found: Checkpoint, ours: str, *theirs: str) -> Iterator[tuple[str, Tensor]]:
    """Yields a weight and a bias of ours: those of JoeyNMT's modules, one below the other."""
    for kind in ("weight", "bias"):
        yield f"{ours}.{kind}", torch.cat([tensor(found.tensors, f"{name}.{kind}") for name in theirs]).float()


def _rows(found: Checkpoint, name: str, numbering: Numbering, width: int) -> Tensor:
    """A table of vectors [V, D] in the order of our ids."""
    theirs_VD = tensor(found.tensors, name)
    if tuple(theirs_VD.shape) != (len(numbering.rows), width):
        raise UserError(
            f"{name} is {tuple(theirs_VD.shape)}, and the vocabulary has {len(numbering.rows)} tokens and the model "
            f"width {width}: the files do not belong together; copy the folder again"
        )
    return theirs_VD[numbering.rows].float()
