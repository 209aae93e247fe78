"""The bytes of a file that the native engine opens: a safetensors file whose header has texts (docs/engine.md)."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.protocols import Search
from transduce.wings.engines.native.conversion.converting import check, convert
from transduce.wings.engines.native.conversion.counted import packed
from transduce.wings.engines.native.conversion.models import ENGINE
from transduce.wings.engines.native.searches import SEARCHES

VERSION = "1"  # of the file; engine/src/file.h has the same
TYPES = {torch.float32: "F32", torch.int8: "I8", torch.int64: "I64", torch.uint8: "U8", torch.uint16: "U16"}
ALIGNED = 64  # bytes: where the numbers of tensors begin
IDS = json.dumps({"unit": "ids"})  # a side whose texts Python reads and writes
ANY_LENGTH = 2**24  # tokens of a source: whoever makes the ids has cut them


def model_content(
    model: nn.Module,
    settings: config.TableView,
    precision: str,
    texts: Mapping[str, str],
    small: bool = True,
    more: Mapping[str, Tensor] | None = None,
) -> bytes:
    """The bytes of a file of a model with these ``texts``, and ``more`` tensors than the model's. ``convert`` describes
    the other arguments and the errors. If ``small``, the n-grams of a file of int8 are rounded too, which saves memory
    and no time.
    """
    tensors, notes = convert(model, settings, precision)
    every = {**packed(tensors, small and precision == "int8"), **(more or {})}
    return file_content(every, {"model": json.dumps(notes), **texts})


def ids_content(model: nn.Module, settings: config.TableView, precision: str) -> bytes:
    """The same of a file that answers ids with ids. Its search is the first that the engine has for the model, with the
    defaults; each call brings its own.
    """
    check(settings)
    search = {"type": SEARCHES[settings["type"]][0]}
    texts = {
        "source": IDS,
        "target": IDS,
        "search": json.dumps(config.resolve(search, Search, path="search")),
        "limits": json.dumps({"max_source_length": ANY_LENGTH, "keeps_empty": True}),
        "settings": "{}",
    }
    return model_content(model, settings, precision, texts, small=False)


def file_content(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> bytes:
    """The bytes of a file with these tensors and texts. Its last tensor is the checksum of all bytes before it."""
    header: config.Table = {"__metadata__": {"transduce-engine": VERSION, **texts}}
    numbers, at = [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in TYPES:
            raise UserError(f"tensor {name} has the type {tensor.dtype}: {ENGINE} has float32 and int8")
        content = tensor.contiguous().numpy().tobytes()
        numbers.append(content)
        header[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(content)],
        }
        at += len(content)
    header["checksum"] = {"dtype": "U8", "shape": [4], "data_offsets": [at, at + 4]}
    encoded = json.dumps(header, ensure_ascii=False).encode()
    encoded += b" " * (-(8 + len(encoded)) % ALIGNED)
    content = b"".join([struct.pack("<Q", len(encoded)), encoded, *numbers])
    return content + struct.pack("<I", zlib.crc32(content))
