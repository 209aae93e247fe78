"""The files of a Transformer of JoeyNMT (Kreutzer et al. 2019), version 2: the folder that its training writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from transduce.core.config import TableView
from transduce.core.errors import UserError
from transduce.core.text_files import read_text
from transduce.wings.engines.importing.hugging_face import MOST_LAYERS, is_dense, unpickled
from transduce.wings.engines.importing.refusals import Kind, check_kinds
from transduce.wings.engines.importing.yaml_files import read_yaml

CONFIG = "config.yaml"
SIDES = {"encoder": "src", "decoder": "trg"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}


TESTING: dict[str, Kind] = {
    **dict.fromkeys(("beam_size", "max_output_length"), "count"),
    **dict.fromkeys(("beam_alpha", "alpha"), "number"),
}
MODEL: dict[str, Kind] = {"tied_softmax": "flag", "tied_embeddings": "flag"}
STACK: dict[str, Kind] = {
    "activation": "word",
    "dropout": "number",
}


@dataclass(frozen=True)
class Checkpoint:
    """The files of a folder: ``settings`` is the table of config.yaml, ``tensors`` the parameters by JoeyNMT's names,
    ``models`` the SentencePiece models and ``tokens`` the vocabularies of source and target.
    """

    folder: Path
    settings: TableView
    tensors: Mapping[str, Tensor]
    models: tuple[Path, Path]
    tokens: tuple[list[str], list[str]]

    @property
    def model(self) -> TableView:
        return table(self.settings, "model")


def present(folder: Path) -> bool:
    """True if the folder has the files of a checkpoint of JoeyNMT."""
    return (folder / CONFIG).is_file() and any(folder.glob("*.ckpt"))


def read(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``: config.yaml, best.ckpt or the only .ckpt file, src_vocab.txt, trg_vocab.txt and the
    SentencePiece models that config.yaml names.

    Nothing of the folder is executed. Raises FileNotFoundError if a file is missing. Raises UserError if a file is
    damaged or holds other Python objects than tensors, or if the model is no Transformer that ours can be.
    """
    settings = read_yaml(folder / CONFIG)
    for side in SIDES.values():
        _check_text(table(settings, "data", side), f"{folder / CONFIG}: data.{side}")
    _check_kinds(settings, folder / CONFIG)
    for stack in SIDES:
        _check_stack(table(settings, "model", stack), f"{folder / CONFIG}: model.{stack}")
    source, target = (folder / _named_model(table(settings, "data", side)) for side in SIDES.values())
    tokens = [_lines(folder / f"{side}_vocab.txt") for side in SIDES.values()]
    for path in (source, target):
        _check_file(path)
    state = unpickled(_checkpoint(folder))
    tensors = state.get("model_state") if isinstance(state, dict) else None
    if not isinstance(tensors, dict) or not all(map(is_dense, tensors.values())):
        raise UserError(
            f"{_checkpoint(folder)} has no table model_state of dense tensors, as JoeyNMT writes it; copy it again"
        )
    return Checkpoint(folder, settings, tensors, (source, target), (tokens[0], tokens[1]))


def _check_kinds(settings: TableView, origin: Path) -> None:
    """Raises UserError for a setting of another kind than JoeyNMT's, where a run would take it over."""
    check_kinds(table(settings, "testing"), TESTING, f"{origin}: testing")
    check_kinds(table(settings, "model"), MODEL, f"{origin}: model")
    for stack in SIDES:
        check_kinds(table(settings, "model", stack), STACK, f"{origin}: model.{stack}")
        embeddings = table(settings, "model", stack, "embeddings")
        check_kinds(embeddings, {"scale": "flag"}, f"{origin}: model.{stack}.embeddings")


def _check_text(data: TableView, origin: str) -> None:
    """Raises UserError unless this side's text is cut by SentencePiece alone."""
    kind = data.get("tokenizer_type", data.get("bpe_type", "sentencepiece"))
    given = {"level": data.get("level"), "tokenizer_type": kind, "lowercase": data.get("lowercase", False)}
    given["pretokenizer"] = table(data, "tokenizer_cfg").get("pretokenizer", "none")
    expected = {"level": "bpe", "tokenizer_type": "sentencepiece", "lowercase": False, "pretokenizer": "none"}
    for name, value in expected.items():
        if given[name] != value:
            raise UserError(
                f"{origin}.{name} = {given[name]!r}: only {value!r} is imported, because a run cuts text by a "
                "SentencePiece model as it is; train JoeyNMT (version 2) with tokenizer_type: sentencepiece"
            )


def _check_stack(stack: TableView, origin: str) -> None:
    """Raises UserError unless encoder or decoder is a Transformer that ours can be."""
    embeddings = table(stack, "embeddings")
    allowed: dict[str, tuple[object, tuple[object, ...]]] = {
        "type": (stack.get("type"), ("transformer",)),
        "layer_norm": (stack.get("layer_norm", "post"), ("pre", "post")),
        "activation": (stack.get("activation", "relu"), tuple(ACTIVATIONS)),
        "alpha": (stack.get("alpha", 1.0), (1.0,)),
        "embeddings.embedding_dim": (embeddings.get("embedding_dim"), (stack.get("hidden_size"),)),
    }
    for name, (value, expected) in allowed.items():
        if value not in expected:
            raise UserError(f"{origin}.{name} = {value!r}: {' or '.join(map(repr, expected))} was expected")
    for name in ("hidden_size", "num_layers", "num_heads", "ff_size"):
        count = stack.get(name)
        if not isinstance(count, int) or count < 1 or (name == "num_layers" and count > MOST_LAYERS):
            raise UserError(f"{origin}.{name} = {count!r}: a whole number of at least 1 was expected")


def _named_model(data: TableView) -> str:
    """The name of the SentencePiece model. JoeyNMT copies it beside config.yaml, which keeps the old path."""
    path = table(data, "tokenizer_cfg").get("model_file")
    if not isinstance(path, str) or not Path(path).name:
        raise UserError(
            f"{CONFIG}: tokenizer_cfg.model_file = {path!r}: the path of a SentencePiece model was expected"
        )
    return Path(path).name


def _checkpoint(folder: Path) -> Path:
    paths = sorted(folder.glob("*.ckpt"))
    best = [path for path in paths if path.name == "best.ckpt"]
    if len(paths) > 1 and not best:
        raise UserError(f"{folder} has {len(paths)} .ckpt files and no best.ckpt: keep the one to import")
    return (best or paths)[0]


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; copy the whole folder of the checkpoint")


def _lines(path: Path) -> list[str]:
    _check_file(path)
    text = read_text(path)
    return text.removesuffix("\n").split("\n") if text else []


def table(settings: TableView, *names: str) -> TableView:
    """The table at this place of config.yaml, empty if there is none."""
    found: object = settings
    for name in names:
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}
