"""JoeyNMT, which trains in epochs and prints its speed after each ``logging_freq`` updates."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peers import sizes
from peers.base import Column, Environment, Family, PeerError, Speed, Task, trained_by_log
from peers.data import Data
from transduce.core.types import BOS, EOS, PAD, SPECIALS, UNK

REPORTED = re.compile(r"Tokens per Sec:\s*([\d.]+)")


@dataclass(frozen=True)
class JoeyNMT:
    environment: Environment
    name: str = "JoeyNMT"
    trains: Sequence[tuple[Family, str]] = (("transformer", "float32"), ("recurrent", "float32"))
    predicts: Sequence[str] = ()

    def install(self) -> str:
        self.environment.install()
        return self.environment.version("joeynmt")

    def train(self, task: Task, family: Family, precision: str) -> Speed:
        folder = task.data.folder / "joeynmt" / family
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "configuration.yaml"
        path.write_text(json.dumps(_configuration(task.data, family, str(folder / "run"))), encoding="utf-8")
        command = [str(self.environment.python), "-m", "joeynmt", "train", str(path), "--skip-test"]
        return trained_by_log(command, task, REPORTED, folder)

    def predict(self, task: Task, way: str, columns: Sequence[Column]) -> dict[Column, Speed]:
        raise PeerError("JoeyNMT is not measured in prediction: it does not read our weights")


def _configuration(data: Data, family: Family, run: str) -> dict[str, Any]:
    side = {"level": "word", "lowercase": False, "max_length": 1000, "voc_file": str(data.pieces)}
    symbols = {f"{name}_id": number for number, name in enumerate(("unk", "pad", "bos", "eos"))}  # JoeyNMT's order
    tokens = {
        "pad_token": SPECIALS[PAD],
        "bos_token": SPECIALS[BOS],
        "eos_token": SPECIALS[EOS],
        "unk_token": SPECIALS[UNK],
    }
    return {
        "name": family,
        "joeynmt_version": "2.3.0",
        "model_dir": run,
        "use_cuda": False,
        "fp16": False,
        "random_seed": data.setting.seed,
        "data": {
            "train": str(data.folder / "train"),
            "dev": str(data.folder / "valid"),
            "dataset_type": "plain",
            "src": {"lang": "src", **side},
            "trg": {"lang": "tgt", **side},
            "special_symbols": symbols | tokens,
        },
        "testing": {"beam_size": 1, "batch_size": 64, "batch_type": "sentence", "max_output_length": sizes.LONGEST},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, sizes.BETA],
            "learning_rate": sizes.RATE,
            "learning_rate_min": 0.0,  # YAML reads "1e-09" as text
            "clip_grad_norm": sizes.CLIP,
            "loss": "crossentropy",
            "label_smoothing": sizes.SMOOTHING,
            "batch_size": sizes.TOKENS,
            "batch_type": "token",
            "normalization": "tokens",
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": sizes.WARMUP,
            "epochs": sizes.FOREVER,
            "validation_freq": sizes.FOREVER,
            "logging_freq": sizes.REPORT,
            "early_stopping_metric": "loss",
            "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            **_MODELS[family],
        },
    }


def _transformer() -> dict[str, Any]:
    return {
        "type": "transformer",
        "num_layers": sizes.LAYERS,
        "num_heads": sizes.HEADS,
        "hidden_size": sizes.WIDTH,
        "ff_size": sizes.HIDDEN,
        "dropout": sizes.DROPOUT,
        "embeddings": {"embedding_dim": sizes.WIDTH, "scale": True},
        "layer_norm": "post",
        "activation": "relu",
    }


_LSTM: dict[str, Any] = {
    "type": "recurrent",
    "rnn_type": "lstm",
    "num_layers": 1,
    "dropout": sizes.DROPOUT,
    "embeddings": {"embedding_dim": sizes.EMBEDDING},
}
_MODELS: dict[Family, dict[str, Any]] = {
    "transformer": {"tied_softmax": True, "encoder": _transformer(), "decoder": _transformer()},
    "recurrent": {
        "tied_softmax": False,
        "encoder": {**_LSTM, "hidden_size": sizes.RECURRENT // 2, "bidirectional": True},
        "decoder": {
            **_LSTM,
            "hidden_size": sizes.RECURRENT,
            "hidden_dropout": sizes.DROPOUT,
            "attention": "luong",
            "init_hidden": "bridge",
            "input_feeding": True,
        },
    },
}
