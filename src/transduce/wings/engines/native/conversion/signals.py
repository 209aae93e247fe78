"""Converts encoders of signals, and what reads a signal before an encoder, for our own engine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from torch import Tensor

from transduce.core.config import TableView
from transduce.wings.engines.native.conversion.multikernel import add_multi_kernel, check_multi_kernel
from transduce.wings.engines.native.conversion.weights import Notes, Weights
from transduce.wings.engines.transformers import UnsupportedError, check_value, inner, kind
from transduce.wings.labels.spelling import SpelledWords
from transduce.wings.signals.modules.columns import ColumnEmbedding
from transduce.wings.signals.modules.features import FrameEmbedding
from transduce.wings.signals.modules.subsampling import SubsamplingEmbedding
from transduce.wings.signals.perceptron import PerceptronEncoder

SPELLED = "spelled"  # the embedding of words in pieces
INSIDE = "words"  # in place of the model's type: an encoder of the pieces of words
AddEncoder = Callable[[Weights, Any, TableView], Notes]
CheckEncoder = Callable[[TableView, str, str], None]
READERS = ("classifier", "ctc", "encoder-decoder")  # the models whose sources may be signals


def check_perceptron(settings: TableView, side: str, engine: str) -> None:
    check_value("type", kind(settings), READERS, engine)
    mixer = settings[side].get("mixer")
    check_value(f"{side}.mixer", kind(mixer), (None, "attention"), engine)
    if mixer is not None:
        check_value(f"{side}.mixer.relative", kind(inner(mixer, "relative", "none")), ("none",), engine)


def add_perceptron(weights: Weights, encoder: PerceptronEncoder, settings: TableView) -> Notes:
    """Attention over one position is linear: its matrix is that of the values, then that of the output."""
    for number, (layer, mixer) in enumerate(zip_longest(encoder.layers, encoder.mixers)):
        weights.product(f"encoder.{number}", layer)
        if mixer is not None:
            own: Any = mixer
            value_OI, value_O = (each.detach().double().chunk(3)[2] for each in (own.project.weight, own.project.bias))
            out_OI, out_O = own.out.weight.detach().double(), own.out.bias.detach().double()
            weights.matrix(f"encoder.{number}.mix", out_OI @ value_OI, out_OI @ value_O + out_O)
    first: Any = encoder.layers[0]
    return {
        "layers": len(encoder.layers),
        "steps": encoder.steps,
        "step_width": first.weight.shape[1] // encoder.steps,
    }


# ---------------------------------------------------------------- fronts


def _add_features(weights: Weights, front: FrameEmbedding, settings: TableView) -> Notes:
    weights.matrix("front.out", front.kernel, front.bias)
    return {"stack": front.stack, "inputs": front.kernel.shape[1] // front.stack}


def _add_subsampling(weights: Weights, front: SubsamplingEmbedding, settings: TableView) -> Notes:
    for number, layer in enumerate((front.first, front.second)):
        _add_convolution(weights, f"front.{number}", layer.convolution)
    _add_columns_out(weights, front.out, front.second.weight.shape[0])
    return {"height": front.frequencies, "channels": 1}


def _add_columns(weights: Weights, front: ColumnEmbedding, settings: TableView) -> Notes:
    for number, each in enumerate(front.stages):
        stage: Any = each
        _add_convolution(weights, f"front.{number}", stage.convolution.convolution)
        weights.floats(f"front.{number}.scale_of_cells", stage.norm.scale)
        weights.floats(f"front.{number}.shift_of_cells", stage.norm.shift)
    _add_columns_out(weights, front.out, stage.norm.scale.shape[0])
    return {
        "height": front.height,
        "channels": front.stages[0].get_submodule("convolution").get_parameter("convolution.weight").shape[1],
        "layers": len(front.stages),
        "shrink": front.shrink,
        "epsilon": stage.norm.epsilon,
    }


def _add_convolution(weights: Weights, name: str, convolution: Any) -> None:
    """A convolution as a matrix [outputs, rows * columns * inputs] that reads a window [rows, columns, inputs]."""
    weights.matrix(name, convolution.weight.permute(0, 2, 3, 1).flatten(1), convolution.bias)


def _add_columns_out(weights: Weights, out: Any, features: int) -> None:
    """The matrix of a column, whose features are adjacent in the engine, and whose rows are adjacent in the model."""
    weight_OFR: Tensor = out.weight.unflatten(1, (features, -1))
    weights.matrix("front.out", weight_OFR.transpose(1, 2).flatten(1), out.bias)


def add_spelled(weights: Weights, front: SpelledWords, settings: TableView, add_encoder: AddEncoder) -> Notes:
    """An encoder of words in pieces, with its tensors below "front", and the vectors of whole words."""
    own = Weights(weights.integers)
    table = settings["embedding"]
    name = kind(table["encoder"])
    add: AddEncoder = add_multi_kernel if name == "multi-kernel" else add_encoder
    encoder = {"type": name} | add(own, front.encoder, table["encoder"])
    weights.include("front", own)
    weights.product("front.out", front.projection)
    if front.known is not None:
        weights.floats("front.known", front.known.weight)
    return {"encoder": encoder, "alphabet": front.alphabet, "pooling": kind(table["pooling"])}


FRONTS: dict[str, Any] = {"columns": _add_columns, "features": _add_features, "subsampling": _add_subsampling}
"""How the tensors of each embedding of signals are added, by its type."""


def check_front(settings: TableView, side: str, engine: str, check_encoder: CheckEncoder) -> None:
    """Raises UserError for an embedding that the engine does not have for the model."""
    model, embedding = kind(settings), settings[side].get("embedding", "tokens")
    edits = model == "encoder-decoder" and kind(settings.get("decoder")) == "edits"
    allowed = ("tokens",)
    if side == "encoder" and not edits and model != INSIDE:
        allowed += (SPELLED, *(FRONTS if model in READERS else ()))
    check_value(f"{side}.embedding", kind(embedding), allowed, engine)
    if kind(embedding) == SPELLED:
        try:
            name = kind(embedding["encoder"])
            check_value("encoder.type", name, ("multi-kernel", "recurrent"), engine)
            check = check_multi_kernel if name == "multi-kernel" else check_encoder
            check({"type": INSIDE, "encoder": embedding["encoder"]}, "encoder", engine)
            check_value("pooling", kind(embedding["pooling"]), ("last", "max", "mean"), engine)
        except UnsupportedError as error:
            raise error.inside(f"{side}.embedding") from None


def add_front(weights: Weights, embedding: Any, settings: TableView, add_encoder: AddEncoder) -> Notes:
    """Adds what reads the sources of an encoder: a table of tokens, words in pieces, or an embedding of signals.
    Returns its notes.
    """
    name = kind(settings.get("embedding", "tokens"))
    if name == SPELLED:
        return {"front": {"type": name} | add_spelled(weights, embedding, settings, add_encoder)}
    if name not in FRONTS:
        return weights.embedding("encoder", embedding)
    return {"front": {"type": name} | FRONTS[name](weights, embedding, settings)}
