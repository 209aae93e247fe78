"""Reads checkpoints of Marian itself (Junczys-Dowmunt et al. 2018): a .npz file with the model's YAML inside, a
vocabulary in YAML, and SentencePiece models. OPUS-MT publishes such folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.text_files import read_text
from transduce.core.types import EOS, PAD, SPECIALS, UNK
from transduce.data.corpora import DataError
from transduce.wings.documents.npz_arrays import read_npz
from transduce.wings.engines.foreign.marian import ACTIVATIONS, BIAS, EMBEDDINGS, READOUT, SHARED, Numerics
from transduce.wings.engines.importing.base import Foreign, Side
from transduce.wings.engines.importing.hugging_face import checked_config
from transduce.wings.engines.importing.refusals import Kind, check_kinds
from transduce.wings.engines.importing.yaml_files import parsed

YAML = "special:model.yml"  # the array whose bytes are the model's settings
Arrays = Mapping[str, NDArray[np.generic]]
Floats = NDArray[np.float32]
SIDES = "src", "trg"
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("dim-emb", "enc-depth", "dec-depth", "transformer-heads", "transformer-dim-ffn"), "count"),
    "transformer-ffn-activation": "word",
    "tied-embeddings": "flag",
}
ONLY: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-train-position-embeddings": (False,),
    "transformer-tied-layers": ([],),
    "transformer-no-projection": (False,),
    "transformer-depth-scaling": (False, True),  # the start of training alone
    "ulr": (False,),
    "right-left": (False,),
    "output-omit-bias": (False,),
    "factors-combine": ("sum",),
    "lemma-dim-emb": (0,),
}
"""Settings of Marian, and the values with which its Transformer is ours. A setting that is not there has the first."""
NUMERICS = Numerics(eps=1e-6, exponents="inclusive")
NOTE = "the original is Hugging Face's Marian with the same weights, and with Marian's own positions and norms"


def read(folder: Path) -> Foreign:
    """The checkpoint in ``folder``: one .npz file, source.spm, target.spm, and one vocabulary *vocab.yml. If both sides
    have vocabularies of their own, these are *src.vocab.yml and *trg.vocab.yml.

    Nothing of the folder is executed: arrays of Python objects are refused. Raises FileNotFoundError if a file is
    missing, and UserError if one is damaged or if the model is no Transformer that ours can be.
    """
    path = _only(sorted(folder.glob("*.npz")), folder)
    arrays = read_npz(path)
    settings = _settings(arrays, path)
    _check(settings, path)
    shared = list(folder.glob("*vocab.yml"))
    paths = shared if len(shared) == 1 else [_only(list(folder.glob(f"*{side}.vocab.yml")), folder) for side in SIDES]
    tokens = [_vocabulary(each) for each in paths]
    sides = []
    for name, own in zip(("source", "target"), (tokens[0], tokens[-1]), strict=True):
        model = folder / f"{name}.spm"
        if not model.is_file():
            raise FileNotFoundError(f"{model} is missing: the SentencePiece model that cuts the {name} into pieces")
        sides.append(Side((model,), model.read_bytes(), [*own, SPECIALS[PAD]]))
    config = _config(settings, arrays, [len(side.tokens) for side in sides], tokens[-1], path)
    tensors = dict(_tensors(arrays, config))
    options = {"num_beams": _beam(folder), "max_length": 512}
    source, target = sides
    return Foreign(folder, config, tensors, source, target, options, silent=True, numerics=NUMERICS, notes=(NOTE,))


def _only(paths: Sequence[Path], folder: Path) -> Path:
    if len(paths) != 1:
        names = ", ".join(path.name for path in paths) or "none"
        raise UserError(
            f"{folder} needs one .npz file, and one *vocab.yml or one *src.vocab.yml and one *trg.vocab.yml; found "
            f"{names}: keep the files to import"
        )
    return paths[0]


def _settings(arrays: Arrays, path: Path) -> Table:
    if YAML not in arrays:
        raise UserError(f"{path} has no array {YAML!r} with the model's settings: it is no checkpoint of Marian")
    text = arrays[YAML].tobytes().rstrip(b"\0").decode("utf-8", errors="replace")
    found = parsed(text, f"{path}: {YAML}")
    if not isinstance(found, dict):
        raise UserError(f"{path}: {YAML} is no table of settings; copy it again")
    return found


def _check(settings: Table, path: Path) -> None:
    """Raises UserError for the first setting with a value that our Transformer does not have."""
    check_kinds(settings, KINDS, path)
    for name, allowed in ONLY.items():
        if settings.get(name, allowed[0]) not in allowed:
            expected = " or ".join(map(repr, allowed))
            raise UserError(f"{path}: {name} = {settings[name]!r}: only {expected} can be imported")
    if settings.get("transformer-ffn-activation", "swish") not in ACTIVATIONS:
        raise UserError(
            f"{path}: transformer-ffn-activation = {settings['transformer-ffn-activation']!r}: unknown here"
        )


def _vocabulary(path: Path) -> list[str]:
    ids = parsed(read_text(path), str(path))
    try:
        tokens = sorted(map(str, ids), key=lambda token: int(ids[token]))
        if sorted(ids.values()) != list(range(len(ids))):
            raise TypeError("its ids are not 0, 1, 2 and so on")
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is no vocabulary of Marian, a table of tokens and their ids: {error}") from error
    return tokens


def _beam(folder: Path) -> int:
    """The beam size of decoder.yml, or Marian's own: 12."""
    path = folder / "decoder.yml"
    found = parsed(read_text(path), str(path)) if path.is_file() else {}
    if not isinstance(found, dict | None):
        raise UserError(f"{path} is no table of settings; copy it again, or delete it")
    check_kinds(found or {}, {"beam-size": "count"}, path)
    return int((found or {}).get("beam-size") or 12)


def _config(settings: Table, arrays: Arrays, sizes: list[int], target: list[str], origin: Path) -> Table:
    """The values that Hugging Face's config.json has for such a model. Padding is one more token, the last."""
    source_size, target_size = sizes
    pad = target_size - 1
    if SPECIALS[EOS] not in target or SPECIALS[UNK] not in target:
        raise UserError(f"the vocabulary needs {SPECIALS[EOS]} and {SPECIALS[UNK]}, as Marian's has; copy it again")
    heads = settings.get("transformer-heads", 8)
    shared = "Wemb" in arrays
    if not shared and source_size != target_size:
        raise UserError(
            f"vocabularies of {source_size - 1} and {target_size - 1} tokens: Hugging Face's format, which the import "
            "goes through, pads both with the same id; only vocabularies of one size can be imported"
        )
    try:
        width, layers = int(settings["dim-emb"]), [int(settings[f"{side}-depth"]) for side in ("enc", "dec")]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{YAML} needs numbers dim-emb, enc-depth and dec-depth ({error!r}); copy it again") from error
    found = {
        "model_type": "marian",
        "vocab_size": source_size,
        "decoder_vocab_size": target_size,
        "d_model": width,
        "encoder_layers": layers[0],
        "decoder_layers": layers[1],
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": settings.get("transformer-dim-ffn", 2048),
        "decoder_ffn_dim": settings.get("transformer-dim-ffn", 2048),
        "activation_function": settings.get("transformer-ffn-activation", "swish"),
        "max_position_embeddings": 512,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": shared or bool(settings.get("tied-embeddings")),
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": target.index(SPECIALS[EOS]),
        "forced_eos_token_id": target.index(SPECIALS[EOS]),
        "bos_token_id": None,
        "bad_words_ids": [[pad]],
    }
    return dict(checked_config(found, origin))


def _tensors(arrays: Arrays, config: Table) -> Iterator[tuple[str, Tensor]]:
    """Yields the parameters by Hugging Face's names. Marian's matrices are transposed, and padding gets a row of
    zeros: Marian starts its decoder with a vector of zeros.
    """
    if config["share_encoder_decoder_embeddings"]:
        yield SHARED, _with_padding(_array(arrays, "Wemb"))
    else:
        yield EMBEDDINGS["encoder"], _with_padding(_array(arrays, "encoder_Wemb"))
        yield EMBEDDINGS["decoder"], _with_padding(_array(arrays, "decoder_Wemb"))
    if not config["tie_word_embeddings"]:
        yield READOUT, _with_padding(_array(arrays, "decoder_ff_logit_out_W").T)
    yield BIAS, _with_padding(_array(arrays, "decoder_ff_logit_out_b").reshape(-1, 1)).T.contiguous()
    for side in ("encoder", "decoder"):
        for number in range(config[f"{side}_layers"]):
            theirs, ours = f"{side}_l{number + 1}_", f"model.{side}.layers.{number}."
            blocks = {"self": "self_attn", **({"context": "encoder_attn"} if side == "decoder" else {})}
            for block, name in blocks.items():
                for letter, projection in zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                    yield from _linear(arrays, f"{theirs}{block}", letter, f"{ours}{name}.{projection}")
                yield from _norm(arrays, f"{theirs}{block}_Wo", f"{ours}{name}_layer_norm")
            for digit in "12":
                yield from _linear(arrays, f"{theirs}ffn", digit, f"{ours}fc{digit}")
            yield from _norm(arrays, f"{theirs}ffn_ffn", f"{ours}final_layer_norm")


def _linear(arrays: Arrays, block: str, letter: str, ours: str) -> Iterator[tuple[str, Tensor]]:
    yield f"{ours}.weight", torch.from_numpy(np.ascontiguousarray(_array(arrays, f"{block}_W{letter}").T))
    yield f"{ours}.bias", torch.from_numpy(_array(arrays, f"{block}_b{letter}").reshape(-1).copy())


def _norm(arrays: Arrays, block: str, ours: str) -> Iterator[tuple[str, Tensor]]:
    for theirs, name in (("scale", "weight"), ("bias", "bias")):
        yield f"{ours}.{name}", torch.from_numpy(_array(arrays, f"{block}_ln_{theirs}").reshape(-1).copy())


def _with_padding(array_VD: Floats) -> Tensor:
    return torch.cat([torch.from_numpy(np.ascontiguousarray(array_VD)), torch.zeros(1, array_VD.shape[1])])


def _array(arrays: Arrays, name: str) -> Floats:
    if name not in arrays or arrays[name].ndim != 2 or arrays[name].dtype.kind != "f":
        raise UserError(
            f"the .npz file has no matrix {name} of real numbers, which a Transformer of Marian has; copy it again"
        )
    return arrays[name].astype(np.float32)
