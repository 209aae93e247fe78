"""OpenNMT-py, and Eole, which is a fork of it. Both toolkits have nearly the same configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import sizes
from peers.base import Column, Environment, Family, PeerError, Speed, Task, trained_by_log
from peers.data import Data

REPORTED = re.compile(r"Step .*?[\d.]+/\s*([\d.]+) tok/s")  # source / target tokens


@dataclass(frozen=True)
class OpenNMT:
    """OpenNMT-py. Its pin of torch is overridden."""

    environment: Environment
    name: str = "OpenNMT-py"
    package: str = "OpenNMT-py"
    module: tuple[str, ...] = ("onmt.bin.train",)
    trains: Sequence[tuple[Family, str]] = (("transformer", "float32"), ("recurrent", "float32"))
    predicts: Sequence[str] = ()

    def install(self) -> str:
        self.environment.install()
        return self.environment.version(self.package)

    def configuration(self, data: Data, family: Family) -> dict[str, Any]:
        return _common(data) | _training() | {"save_model": str(data.folder / "opennmt" / family)} | _MODELS[family]

    def train(self, task: Task, family: Family, precision: str) -> Speed:
        folder = task.data.folder / self.name / family
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "configuration.yaml"
        path.write_text(json.dumps(self.configuration(task.data, family)), encoding="utf-8")  # JSON is YAML
        command = [str(self.environment.python), "-m", *self.module, "-config", str(path)]
        return trained_by_log(command, task, REPORTED, folder)

    def predict(self, task: Task, way: str, columns: Sequence[Column]) -> dict[Column, Speed]:
        raise PeerError(f"{self.name} is not measured in prediction: it does not read our weights")


@dataclass(frozen=True)
class Eole(OpenNMT):
    name: str = "Eole"
    package: str = "eole"
    module: tuple[str, ...] = ("eole.bin.main", "train")

    def configuration(self, data: Data, family: Family) -> dict[str, Any]:
        training = _training() | {
            "model_path": str(data.folder / "eole" / family),
            "compute_dtype": "fp32",
        }
        return _common(data) | {"training": training, "model": _EOLE_MODELS[family]}


def _common(data: Data) -> dict[str, Any]:
    vocabulary, count = str(_counted(data)), data.vocabulary
    return {
        "seed": data.setting.seed,
        "report_every": sizes.REPORT,
        "overwrite": True,
        "save_data": str(data.folder / "opennmt-data"),
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "src_vocab_size": count,
        "tgt_vocab_size": count,
        "share_vocab": True,
        "n_sample": 0,
        "data": {"pairs": {"path_src": str(data.folder / "train.src"), "path_tgt": str(data.folder / "train.tgt")}},
    }


def _counted(data: Data) -> Path:
    """Writes the vocabulary with a count for each piece, in the toolkits' own format. Returns its path."""
    path = data.folder / "vocabulary.counted.txt"
    pieces = data.pieces.read_text(encoding="utf-8").split()
    path.write_text("".join(f"{each}\t1\n" for each in pieces), encoding="utf-8")
    return path


def _training() -> dict[str, Any]:
    return {
        "train_steps": sizes.FOREVER,
        "save_checkpoint_steps": sizes.FOREVER,
        "valid_steps": sizes.FOREVER,
        "bucket_size": 29_000,
        "num_workers": 0,
        "world_size": 1,
        "gpu_ranks": [],
        "batch_type": "tokens",
        "batch_size": sizes.TOKENS,
        "batch_size_multiple": 1,
        "normalization": "tokens",
        "accum_count": [1],
        "accum_steps": [0],
        "dropout": [sizes.DROPOUT],
        "dropout_steps": [0],
        "attention_dropout": [sizes.DROPOUT],
        "optim": "adam",
        "adam_beta2": sizes.BETA,
        "learning_rate": sizes.RATE,
        "max_grad_norm": sizes.CLIP,
        "label_smoothing": sizes.SMOOTHING,
    }


_MODELS: dict[Family, dict[str, Any]] = {
    "transformer": {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "layers": sizes.LAYERS,
        "heads": sizes.HEADS,
        "hidden_size": sizes.WIDTH,
        "word_vec_size": sizes.WIDTH,
        "transformer_ff": sizes.HIDDEN,
        "share_decoder_embeddings": True,
        "share_embeddings": True,
    },
    "recurrent": {
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "LSTM",
        "global_attention": "general",
        "input_feed": 1,
        "layers": 1,
        "hidden_size": sizes.RECURRENT,
        "word_vec_size": sizes.EMBEDDING,
        "share_embeddings": True,
    },
}
_LSTM = {"hidden_size": sizes.RECURRENT, "layers": 1, "rnn_type": "LSTM"}
_EOLE_MODELS: dict[Family, dict[str, Any]] = {
    "transformer": {
        "architecture": "transformer",
        "layers": sizes.LAYERS,
        "heads": sizes.HEADS,
        "hidden_size": sizes.WIDTH,
        "transformer_ff": sizes.HIDDEN,
        "share_decoder_embeddings": True,
        "share_embeddings": True,
        "embeddings": {"word_vec_size": sizes.WIDTH, "position_encoding_type": "SinusoidalInterleaved"},
    },
    "recurrent": {
        "architecture": "custom",
        "hidden_size": sizes.RECURRENT,
        "share_embeddings": True,
        "encoder": {"encoder_type": "brnn", **_LSTM},
        "decoder": {"decoder_type": "rnn", "global_attention": "general", **_LSTM},
        "embeddings": {"word_vec_size": sizes.EMBEDDING, "position_encoding_type": None},
    },
}
