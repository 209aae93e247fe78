"""Opens a model for our own engine: an export, or a model in memory.

The notes name the kind of model and the type of each part; a table below has the class of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transduce.compute.library import library
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.models.autoregressive import AssembledEncoderDecoder
from transduce.models.instant import AssembledInstant
from transduce.models.mixtures import Ensemble, Fusion
from transduce.models.weights import load_tensors, set_weights
from transduce.runs.manifest import Manifest
from transduce.wings.ctc.models import AssembledCTC, AssembledJointCTC
from transduce.wings.engines.native.conversion.converting import convert
from transduce.wings.engines.native.convolution import NativeConvolutionDecoder, NativeConvolutionEncoder
from transduce.wings.engines.native.edits import NativeEditDecoder
from transduce.wings.engines.native.models import POOLERS, NativeFrames, NativeLengths, joint, no_source
from transduce.wings.engines.native.parts import (
    NOTHING,
    Encoded,
    MisfitError,
    Parts,
    choice,
    flag,
    real,
    table,
    tables,
    weights,
    whole,
)
from transduce.wings.engines.native.recurrent import NativeRecurrentDecoder, NativeRecurrentEncoder
from transduce.wings.engines.native.transformer import (
    NativeInstantTransformer,
    NativeTransformerDecoder,
    NativeTransformerEncoder,
)
from transduce.wings.labels.chain_fusion import ChainFusion
from transduce.wings.labels.classifier import AssembledClassifier
from transduce.wings.labels.tagger import AssembledConditionalRandomField, AssembledTagger

WEIGHTS = "weights.safetensors"

Reader = Callable[[Parts, Mapping[str, Any]], Any]
ENCODERS: dict[str, Reader] = {
    "convs2s": NativeConvolutionEncoder,
    "recurrent": NativeRecurrentEncoder,
    "transformer": NativeTransformerEncoder,
}
DecoderReader = Callable[[Parts, Mapping[str, Any], Encoded], Any]
DECODERS: dict[str, DecoderReader] = {
    "convs2s": NativeConvolutionDecoder,
    "edits": NativeEditDecoder,
    "recurrent": NativeRecurrentDecoder,
    "transformer": NativeTransformerDecoder,
}
INSTANT_DECODERS: dict[str, DecoderReader] = {"transformer": NativeInstantTransformer}


def _encoder(parts: Parts, notes: Mapping[str, Any]) -> Any:
    own = table(notes, "encoder")
    return ENCODERS[choice(own, "type", ENCODERS)](parts, own)


def _decoder(
    parts: Parts, notes: Mapping[str, Any], encoded: Encoded, decoders: Mapping[str, DecoderReader] = DECODERS
) -> Any:
    own = table(notes, "decoder")
    return decoders[choice(own, "type", decoders)](parts, own, encoded)


def _encoder_decoder(parts: Parts, notes: Mapping[str, Any]) -> AssembledEncoderDecoder:
    encoder = _encoder(parts, notes)
    return AssembledEncoderDecoder(encoder, _decoder(parts, notes, encoder.encoded))


def _language_model(parts: Parts, notes: Mapping[str, Any]) -> AssembledEncoderDecoder:
    return AssembledEncoderDecoder(no_source, _decoder(parts, notes, NOTHING))


def _ctc(parts: Parts, notes: Mapping[str, Any]) -> AssembledCTC:
    encoder = _encoder(parts, notes)
    return AssembledCTC(encoder, NativeFrames(parts, notes, encoder.encoded))


def _joint_ctc(parts: Parts, notes: Mapping[str, Any]) -> AssembledJointCTC:
    encoder = _encoder(parts, notes)
    frames, decoder = NativeFrames(parts, notes, encoder.encoded), _decoder(parts, notes, encoder.encoded)
    return AssembledJointCTC(encoder, joint(decoder, frames, real(notes, "weight", 0, 1)))


def _instant(parts: Parts, notes: Mapping[str, Any]) -> AssembledInstant:
    encoder = _encoder(parts, notes)
    decoder = _decoder(parts, notes, encoder.encoded, INSTANT_DECODERS)
    return AssembledInstant(encoder, decoder, NativeLengths(parts, whole(notes, "length_width", 1), encoder.encoded))


def _tagger(parts: Parts, notes: Mapping[str, Any]) -> AssembledTagger:
    encoder = _encoder(parts, notes)
    return AssembledTagger(encoder, parts.readout("labels", None, encoder.encoded.width).logits)


def _classifier(parts: Parts, notes: Mapping[str, Any]) -> AssembledClassifier:
    encoder, pooling = _encoder(parts, notes), choice(notes, "pooling", POOLERS)
    width = encoder.encoded.summary if pooling == "last" else encoder.encoded.width
    return AssembledClassifier(encoder, partial(POOLERS[pooling], parts), parts.readout("labels", None, width).logits)


def _conditional_random_field(parts: Parts, notes: Mapping[str, Any]) -> AssembledConditionalRandomField:
    encoder = _encoder(parts, notes)
    projection = parts.readout("labels", None, encoder.encoded.width)
    labels = projection.outputs
    transition, ends = parts.tensor("transition", labels, labels), parts.tensor("ends", 2, labels)
    return AssembledConditionalRandomField(encoder, projection, transition, ends)


def _members(parts: Parts, notes: Mapping[str, Any], count: int | None = None) -> list[Any]:
    """The models of a mixture, ``count`` of them. Raises MisfitError unless their readouts have the same length."""
    within = [(parts.within(str(number)), own) for number, own in enumerate(tables(notes, "members", count))]
    models = [MODELS[choice(own, "model", MODELS)](its, own) for its, own in within]
    lengths = {its.outputs for its, _ in within}
    if len(lengths) > 1:
        raise MisfitError(f"members have vocabularies of {sorted(lengths)} words: the same were expected")
    parts.outputs = lengths.pop()
    return models


def _fusion(parts: Parts, notes: Mapping[str, Any]) -> Fusion:
    members = _members(parts, notes)
    return Fusion(members, weights(notes, "weights", len(members)), flag(notes, "renormalise"))


def _chain_fusion(parts: Parts, notes: Mapping[str, Any]) -> ChainFusion:
    members = _members(parts, notes)
    return ChainFusion(members, weights(notes, "weights", len(members)))


def _with_counts(parts: Parts, notes: Mapping[str, Any]) -> Any:
    """A trained model beside a counted one, which is the package's own; the trained one alone if it has no counts."""
    (trained,) = _members(parts, notes, 1)
    if "counted" not in notes:
        return trained
    weight = real(notes, "weight", 0, 1)
    return Fusion([trained, _counted(parts, notes)], [1 - weight, weight])


def _counted(parts: Parts, notes: Mapping[str, Any]) -> Any:
    counted: Any = config.build(dict(table(notes, "counted")), Model, path="model.counted")
    set_weights(counted, parts.under("counted"), WEIGHTS, mapped=True)
    return counted


MODELS: dict[str, Reader] = {
    "encoder-decoder": _encoder_decoder,
    "language-model": _language_model,
    "ctc": _ctc,
    "joint-ctc": _joint_ctc,
    "instant": _instant,
    "tagger": _tagger,
    "classifier": _classifier,
    "crf": _conditional_random_field,
    "chain-fusion": _chain_fusion,
    "ensemble": lambda parts, notes: Ensemble(_members(parts, notes)),
    "fusion": _fusion,
    "joint-ngram": _counted,
    "seeds": lambda parts, notes: Ensemble(_members(parts, notes)),
    "with-counts": _with_counts,
}


def open_native(folder: Path, manifest: Manifest) -> Any:
    """The model of the export in ``folder``. Its products of matrices have as many threads as PyTorch now. Raises
    MissingPackageError if the library was not built, and UserError for an export of another version.
    """
    return read_model(_library_with_threads(), folder, manifest.graphs)


def native_model(model: Any, settings: Mapping[str, Any], precision: str = "float32") -> Any:
    """A model of ours for our own engine, without an export. ``convert`` describes the arguments and the errors. It
    keeps nothing of ``model``. Its products have as many threads as PyTorch now.
    """
    return assemble(_library_with_threads(), *convert(model, settings, precision))


def _library_with_threads() -> Any:
    functions = library()
    functions.transduce_set_threads(torch.get_num_threads())
    return functions


def read_model(functions: Any, folder: Path, notes: Mapping[str, Any]) -> Any:
    """The model of the export in ``folder``, packed for a variant of the library, with the ``notes`` of export.json."""
    if notes.get("model") not in tuple(MODELS):
        raise UserError(
            f"{folder} is an export of a {str(notes.get('model'))[:40]!r}, and this version of the native engine opens "
            f"{', '.join(MODELS)}: export the run again"
        )
    try:
        return assemble(functions, load_tensors(folder / WEIGHTS), notes)
    except MisfitError as error:
        raise UserError(f"{folder} is no export of this model: {error}; export the run again") from error
    except KeyError as error:  # a note or a tensor that exports did not have then, or do not have any more
        raise UserError(
            f"{folder} has no {error}: another version of transduce made the export; export the run again"
        ) from error


def assemble(functions: Any, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> Any:
    """The model that ``convert`` described by ``tensors`` and ``notes``."""
    return MODELS[notes["model"]](Parts(functions, tensors), notes).eval()
