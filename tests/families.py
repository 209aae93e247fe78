"""Every family of models, tiny. The tests of the laws run over all of them. A new family is one more line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from installed import of_hall
from transduce.core import config
from transduce.core.protocols import Chain, Model, Parallel, Regressor, can
from transduce.core.registry import model_name
from transduce.core.types import EOS, SPECIALS, Facts, Padded
from transduce.data.pairs import Pairs, Ragged
from transduce.training.counted import Counted, PartlyCounted

WORDS = Path(__file__).with_name("words.tsv")

FACTS = Facts(
    source_vocabulary=9,
    target_vocabulary=11,
    copies=(0, 0, 0, 0, 5, 0, 7, 4, 10),
    target_entries=(*SPECIALS, *"abcdefg"),
    placeholders=(5, 8),
)
JOINT = Facts(source_vocabulary=11, target_vocabulary=11)  # one vocabulary for both sides
FACTORED = Facts(source_vocabulary=9, target_vocabulary=11, source_factors=2)
KNOWN = Facts(source_vocabulary=4, target_vocabulary=11, source_words=5)  # all source ids are whole-word tokens
SIGNAL = Facts(source_vocabulary=6, target_vocabulary=11, source_factors=6)  # numbers per step
NUMERIC = Facts(source_vocabulary=2, target_vocabulary=2, source_factors=2)  # channels


def recurrent(
    wiring: object, cell: object = "lstm", bridge: str = "linear", direction: str = "both", residual: bool = False
) -> config.Table:
    layers = {"type": "recurrent", "cell": cell, "embedding_width": 8, "layers": 2, "residual": residual}
    width = 10 if direction == "both" else 5
    return {
        "type": "encoder-decoder",
        "encoder": layers | {"width": 5, "direction": direction},
        "decoder": layers | {"width": width, "wiring": wiring, "bridge": bridge},
    }


def attending(wiring: str, energy: str, attention: str = "global", **options: bool) -> config.Table:
    return {"type": wiring, "attention": {"type": attention, "energy": energy}, **options}


def copying(model: config.Table, attention: object) -> config.Table:
    return model | {"decoder": {"type": "pointer", "decoder": model["decoder"], "attention": attention}}


def fused(model: config.Table, language: config.Table, **options: object) -> config.Table:
    """A model whose decoder uses a language model."""
    return model | {"decoder": {"type": "fused", "decoder": model["decoder"], "language": language, **options}}


def editing(cell: str = "lstm", **options: object) -> config.Table:
    cells = {"cell": cell, "embedding_width": 6, "width": 5}
    decoder = {"type": "edits", "hidden": 7, "bridge": "linear", **cells, **options}
    return {"type": "encoder-decoder", "encoder": {"type": "recurrent", **cells}, "decoder": decoder}


def synchronous() -> config.Table:
    cells = {"cell": "lstm", "embedding_width": 6, "width": 5, "layers": 2}
    decoder = {"type": "synchronous", "bridge": "linear", **cells}
    return {"type": "encoder-decoder", "encoder": {"type": "recurrent", **cells}, "decoder": decoder}


def transformer(positions: str = "sinusoidal", norm: str = "pre", tie: str = "none") -> config.Table:
    stack = {"type": "transformer", "width": 8, "layers": 2, "heads": 2, "feedforward": 16}
    return {
        "type": "encoder-decoder",
        "encoder": stack | {"positions": positions, "norm": norm},
        "decoder": stack | {"positions": positions, "norm": norm},
        "tie": tie,
    }


def stacked(encoder: config.Table, decoder: config.Table) -> config.Table:
    """A Transformer without absolute positions, with these changes of its encoder and decoder."""
    plain = transformer("none")
    return plain | {"encoder": plain["encoder"] | encoder, "decoder": plain["decoder"] | decoder}


def relating(relative: str) -> config.Table:
    """Self-attention with relative positions."""
    return {"type": "attention", "relative": relative}


def mixed() -> config.Table:
    """A Transformer encoder with a recurrent decoder."""
    return transformer() | {"decoder": recurrent(attending("luong", "general"))["decoder"]}


def generator(encoder: object, wiring: object = "plain", cell: str = "lstm", **options: bool) -> config.Table:
    """A model whose decoder reads a context vector at every step. The decoder is the same for every encoder."""
    context = {"type": "context", "wiring": wiring, **options}
    return {"type": "encoder-decoder", "encoder": encoder, "decoder": recurrent(context, cell)["decoder"]}


def convs2s() -> config.Table:
    stack = {"type": "convs2s", "embedding_width": 6, "width": 8, "layers": 2}
    return {"type": "encoder-decoder", "encoder": stack, "decoder": stack | {"kernel": 4}}


def pyramidal(cell: str = "lstm", **options: object) -> config.Table:
    return {"type": "pyramidal", "cell": cell, "embedding_width": 6, "width": 5, "layers": 3, **options}


def conformer(**options: object) -> config.Table:
    return {"type": "conformer", "width": 8, "layers": 2, "heads": 2, "feedforward": 12, "kernel": 3, **options}


def hearing(embedding: object, model: config.Table) -> config.Table:
    """A model of signals: ``model`` with this embedding in its encoder."""
    return model | {"encoder": model["encoder"] | {"embedding": embedding}}


def mixture(kind: str, *models: config.Table, **options: object) -> config.Table:
    return {"type": kind, "models": list(models), **options}


def language(decoder: object, **options: str) -> config.Table:
    """A language model: a decoder without a source."""
    return {"type": "language-model", "decoder": decoder, **options}


def ctc(encoder: object, stretch: int = 3) -> config.Table:
    return {"type": "ctc", "encoder": encoder, "stretch": stretch}


def instant(encoder: object, decoder: config.Table, **options: str) -> config.Table:
    return {"type": "instant", "encoder": encoder, "decoder": decoder | {"max_length": 6, "width": 8}, **options}


def labelled(text: object) -> config.Table:
    return {"type": "labelled", "text": text, "labels": 1, "label_width": 4}


def factored(encoder: str, embedding: object) -> config.Table:
    """An encoder of tokens with two factors."""
    tables: config.Table = {"recurrent": recurrent("plain"), "transformer": transformer()}
    return tables[encoder]["encoder"] | {"embedding": embedding}


def spelled(encoder: config.Table, **options: object) -> config.Table:
    """An encoder of words. Another encoder of the same kind reads the spelling of each word."""
    return encoder | {"embedding": {"type": "spelled", "encoder": encoder, **options}}


MODERN: config.Table = {
    "mixer": relating("rotary"),
    "feedforward": {"type": "gated", "hidden": 10},
    "norm": {"type": "pre", "kind": "rms"},
}

FAMILIES: dict[str, config.Table] = {
    # "no attention" in a name: the decoder does not attend, and test_inspect.py expects an error that says so
    "lstm, no attention": recurrent("plain"),
    "gru, no attention": recurrent("plain", cell="gru"),
    "lstm, copied state, no attention": recurrent("plain", bridge="copy", direction="forward"),
    "bahdanau, additive": recurrent(attending("bahdanau", "additive")),
    "bahdanau, gru, no bridge": recurrent(attending("bahdanau", "additive"), cell="gru", bridge="zero"),
    "luong, general": recurrent(attending("luong", "general")),
    "luong, dot": recurrent(attending("luong", "dot")),
    "luong, gru, scaled dot, fed": recurrent(attending("luong", "scaled-dot", input_feeding=True), cell="gru"),
    "luong, additive, fed": recurrent(attending("luong", "additive", input_feeding=True)),
    "convs2s": convs2s(),
    "elman, reversed source, no attention": recurrent("plain", cell="elman", direction="backward"),
    "bahdanau, mut1, residual": recurrent(attending("bahdanau", "additive"), cell="mut1", residual=True),
    "bahdanau, no input gate": recurrent(attending("bahdanau", "dot"), {"type": "lstm-without", "gate": "input"}),
    "luong, ssru, residual": recurrent(attending("luong", "general"), cell="ssru", residual=True),
    "luong, layer norm, fed": recurrent(attending("luong", "dot", input_feeding=True), cell="lstm-layer-norm"),
    "multi-kernel to luong": recurrent(attending("luong", "general"))
    | {"encoder": {"type": "multi-kernel", "kernels": [3, 1, 5], "width": 6}},
    "sentence convolution, no attention": generator({"type": "sentence-convolution", "kernels": [2, 3], "width": 6}),
    "transformer, pre-norm": transformer(),
    "transformer, post-norm, tied": transformer(norm="post", tie="target"),
    "transformer, learned positions": transformer("learned"),
    "transformer, no positions": transformer("none"),
    "transformer, rotary, gated, rms": stacked(MODERN, MODERN),
    "transformer, t5 and alibi": stacked(
        {"mixer": [relating("t5"), relating("alibi")]}, {"mixer": [relating("alibi"), relating("t5")]}
    ),
    "transformer, recurrent and shaw": stacked(
        {"mixer": [{"type": "recurrent", "cell": "gru"}, relating("shaw")]},
        {"mixer": [{"type": "recurrent", "cell": "ssru"}, relating("shaw")]},
    ),
    "transformer, lightweight and dynamic": stacked(
        {"mixer": [{"type": "lightweight", "kernel": 3}, {"type": "dynamic", "kernel": 5}]},
        {"mixer": [{"type": "dynamic", "kernel": 4}, {"type": "lightweight", "kernel": 2}]},
    ),
    "transformer, dilated": stacked(
        {"mixer": [{"type": "dilated", "dilation": 2}, {"type": "dilated", "kernel": 5}]},
        {"mixer": [{"type": "dilated", "kernel": 2, "dilation": 3}, {"type": "dilated"}]},
    ),
    "transformer, lambda": stacked({"mixer": {"type": "lambda", "query_width": 3, "window": 5}}, {}),
    "transformer, local attention": stacked({"mixer": {"type": "local", "reach": 2}}, {}),
    "transformer to recurrent": mixed(),
    "pyramidal, no attention": generator(pyramidal(), cell="gru"),
    "conformer to transformer": transformer() | {"encoder": conformer()},
    "context, no attention": generator(recurrent("plain")["encoder"]),
    "context of a bag, attention too": generator({"type": "bag", "width": 6}, attending("luong", "general"), "gru"),
    "bahdanau, location": recurrent(attending("bahdanau", "additive", "location")),
    "luong, coverage, fed": recurrent(attending("luong", "general", "coverage", input_feeding=True), cell="gru"),
    "luong, multi-head": recurrent({"type": "luong", "attention": {"type": "multi-head", "heads": 2}}),
    "edits": editing(),
    "edits, two layers, no copies": editing("gru", copy=False, layers=2),
    "synchronous": synchronous(),
    "pointer over recurrent": copying(recurrent(attending("luong", "dot")), {"type": "coverage", "energy": "additive"}),
    "pointer over transformer": copying(transformer(), {"type": "multi-head", "heads": 2}),
    "cold fusion": fused(recurrent(attending("luong", "dot")), transformer("learned")["decoder"], hidden=5),
    "deep fusion": fused(transformer(), recurrent("plain", cell="gru", bridge="zero")["decoder"], fusion="deep"),
    "ensemble": mixture("ensemble", transformer(), recurrent(attending("luong", "general"))),
    "seeds of edits": {"type": "seeds", "model": editing(), "members": 2},
    "edits with counts": {
        "type": "with-counts",
        "model": editing(),
        "counted": {"type": "joint-ngram", "order": 3, "escape": 1e-2},
    },
    "fusion": mixture("fusion", recurrent("plain", cell="gru"), transformer("learned"), weights=[0.7, 0.5]),
    "fusion, not renormalised": mixture("fusion", transformer("none"), weights=[1.3], renormalise=False),
    "context of labels and text, no attention": generator(labelled(recurrent("plain")["encoder"]), deep_output=True),
    "factors side by side, no attention": generator(factored("recurrent", {"type": "concatenated", "widths": [5, 3]})),
    "sums of factors, no attention": generator(factored("transformer", "summed")),
    "language model, gru, no attention": language(recurrent("plain", cell="gru", bridge="zero")["decoder"]),
    "language model, transformer, no attention": language(transformer(norm="post")["decoder"], tie="target"),
    "language model, convs2s, no attention": language(convs2s()["decoder"] | {"positions": "sinusoidal"}),
    "language model, mixed, no attention": language(
        stacked({}, {"mixer": [{"type": "recurrent", "cell": "ssru"}, relating("rotary")]})["decoder"]
    ),
    "context of labels, no attention": generator({"type": "labels", "labels": 1, "width": 6}, cell="gru"),
    "ctc, lstm, no attention": ctc(recurrent("plain")["encoder"]),
    "ctc, transformer, no attention": ctc(transformer()["encoder"], stretch=4),
    "ctc and attention": recurrent(attending("luong", "general")) | {"type": "joint-ctc", "weight": 0.4, "stretch": 3},
}

PICTURE: config.Table = {"height": 3, "channels": 2}

SIGNALS: dict[str, config.Table] = {
    "pyramidal of stacked features": hearing(
        {"type": "features", "stack": 2},
        recurrent(attending("bahdanau", "additive")) | {"encoder": pyramidal(joined=3)},
    ),
    "conformer of sound": hearing(
        {"type": "subsampling", "channels": 3}, transformer() | {"encoder": conformer(relative="t5")}
    ),
    "ctc over a pyramid of features": hearing("features", ctc(pyramidal(joined=1, layers=2))),
    "recurrent of columns": hearing(
        {"type": "columns", "stages": [3, 4], **PICTURE}, recurrent(attending("luong", "dot"))
    ),
    "transformer of patches": hearing({"type": "patches", "patch": [3, 2], **PICTURE}, transformer("none")),
    "transformer of a map, convolutional attention": hearing(
        {"type": "convolutional-attention", "heads": 2, "embedding": {"type": "map", "stages": [3, 4], **PICTURE}},
        transformer("none", norm="post", tie="target"),
    ),
    "recurrent of clips": hearing(
        {
            "type": "frames",
            "columns": 3,
            "embedding": {"type": "map", "stages": [3], "height": 2, "channels": 1, "norm": "picture"},
        },
        recurrent(attending("luong", "dot")),
    ),
}
"""Families that read numbers. tests/test_laws.py draws a row of numbers for each id."""

FRAMEWISE = [name for name, table in FAMILIES.items() if table["type"] in ("ctc", "joint-ctc")]
"""Families whose outputs are aligned to frames: tests/wings/ctc/test_frames.py."""

INSTANT: config.Table = {"type": "transformer", "layers": 2, "heads": 2, "feedforward": 16}

LINEAR: config.Table = {"type": "linear-classifier", "pieces": [1, 3]}

LINEAR_TAGGER: config.Table = {"type": "linear-tagger", "minimum_count": 1}

PARALLEL: dict[str, config.Table] = {
    "instant, transformer, tied": instant(transformer()["encoder"], INSTANT, tie="all"),
    "instant, gru to mixed layers, post-norm": instant(
        recurrent("plain", cell="gru")["encoder"],
        INSTANT | {"mixer": [{"type": "lightweight", "kernel": 3}, relating("rotary")], "norm": "post"},
    ),
    "mask-predict": instant(transformer()["encoder"], INSTANT | {"type": "masked-transformer"}, tie="all")
    | {"type": "mask-predict"},
    "instant, lstm to dense": instant(recurrent("plain")["encoder"], {"type": "dense"}),
    "instant, labels and bag to dense": instant(labelled({"type": "bag", "width": 6}), {"type": "dense"}),
    "tagger, lstm": {"type": "tagger", "encoder": recurrent("plain")["encoder"]},
    "tagger, known words": {"type": "tagger", "encoder": spelled(recurrent("plain")["encoder"], word_width=3)},
    "tagger, gru, frozen vectors": {
        "type": "tagger",
        "encoder": recurrent("plain", cell="gru")["encoder"]
        | {"embedding": {"type": "vectors", "file": "x.vec", "frozen": True}},
    },
    "tagger, convs2s": {"type": "tagger", "encoder": convs2s()["encoder"]},
    "classifier, gru, last state": {"type": "classifier", "encoder": recurrent("plain", cell="gru")["encoder"]},
    "classifier, transformer, attention": {
        "type": "classifier",
        "encoder": transformer()["encoder"],
        "pooling": {"type": "attention", "hidden": 5},
    },
    "classifier, siamese": {
        "type": "classifier",
        "encoder": {"type": "siamese", "encoder": transformer()["encoder"], "pooling": "mean", "hidden": 7},
    },
    "classifiers, a bag and an lstm, together": {
        "type": "parallel-ensemble",
        "models": [
            {"type": "classifier", "encoder": {"type": "bag", "width": 6}, "pooling": "mean"},
            {"type": "classifier", "encoder": recurrent("plain")["encoder"], "pooling": "max"},
        ],
    },
    "classifier, linear": LINEAR,
    "classifier, linear, beside networks": {
        "type": "labels-with-counts",
        "weight": 0.4,
        "model": {
            "type": "parallel-ensemble",
            "models": [{"type": "classifier", "encoder": recurrent("plain", cell="gru")["encoder"]}] * 2,
        },
        "counted": LINEAR,
    },
    "classifier, linear, of pairs": {"type": "linear-pair-classifier", "crossed": 2},
    "tagger, linear": LINEAR_TAGGER,
    "tagger, linear, beside a network": {
        "type": "labels-with-counts",
        "model": {"type": "tagger", "encoder": recurrent("plain", cell="gru")["encoder"]},
        "counted": LINEAR_TAGGER,
    },
    "classifier, hidden Markov models": {"type": "hmm-classifier", "states": 3, "emission": "gaussian"},
}
"""Families that write all tokens in parallel: tests/test_parallel_laws.py."""

CHAINS: dict[str, config.Table] = {
    "crf, lstm": {"type": "crf", "encoder": recurrent("plain")["encoder"]},
    "crf, transformer": {"type": "crf", "encoder": transformer()["encoder"]},
    "two chains": {
        "type": "chain-fusion",
        "weights": [0.4, 1.1],
        "models": [
            {"type": "crf", "encoder": recurrent("plain")["encoder"]},
            {"type": "crf", "encoder": transformer()["encoder"]},
        ],
    },
    "hmm": {"type": "hmm", "emission": "words"},
    "hmm, of two labels, known words": {
        "type": "hmm",
        "order": 2,
        "emission": {"type": "words", "prefix": 1, "suffix": 2, "strength": 0.5},
    },
    "hmm, gaussian, diagonal": {"type": "hmm", "emission": "gaussian"},
    "hmm, gaussian, of two labels, full": {
        "type": "hmm",
        "order": 2,
        "emission": {"type": "gaussian", "covariance": "full"},
    },
}
"""Families whose labels depend on each other. test_labelling.py tests them, and the families of ``PARALLEL`` that
label."""


def forecaster(encoder: config.Table, decoder: config.Table, level: str) -> config.Table:
    decoder = decoder | {"max_length": 6, "width": 8}
    return {"type": "forecaster", "encoder": encoder | {"embedding": "numbers"}, "decoder": decoder, "level": level}


NUMBERS: dict[str, config.Table] = {
    "dense to dense": forecaster({"type": "dense", "max_length": 7, "width": 6}, {"type": "dense"}, "none"),
    "lstm to dense, from the last step": forecaster(recurrent("plain")["encoder"], {"type": "dense"}, "last"),
    "transformers, by the window": forecaster(transformer()["encoder"], INSTANT, "window"),
    "lstm to dense, a density": forecaster(recurrent("plain")["encoder"], {"type": "dense"}, "window")
    | {"type": "density-forecaster"},
    "linear autoregression": {"type": "linear", "order": 4, "steps": 6},
    "dense to dense, beside a linear autoregression": forecaster(
        {"type": "dense", "max_length": 7, "width": 6}, {"type": "dense"}, "window"
    )
    | {"counted": {"type": "linear", "order": 4, "steps": 6}},
    "kalman filter": {
        "type": "kalman",
        "components": ["level", {"type": "autoregression", "order": 2}, {"type": "free", "states": 2}],
        "steps": 6,
    },
}
"""Families that write numbers: tests/wings/signals/test_forecaster.py."""

COUNTED: dict[str, config.Table] = {
    "n-grams": {"type": "ngram", "order": 3},
    "joint n-grams": {"type": "joint-ngram", "order": 3, "escape": 1e-2},
    "joint n-grams, the probable ones": {"type": "joint-ngram", "order": 2, "beam": 3.0, "width": 4},
    "noisy channel": {"type": "noisy-channel", "words": str(WORDS), "escape": 1e-2, "width": 8, "keep": 6},
    "affix rules": {"type": "affix-rules", "letters": 2, "escape": 1e-2, "keep": 4},
}
"""Families without gradients: tests/test_laws.py and tests/wings/counted/test_joint_ngram.py."""

ALIGNERS: dict[str, config.Table] = {
    "ibm model 1": {"type": "word-aligner", "position": "ibm1", "warm_up": 0, "agreement": False},
    "ibm model 2, a prior": {"type": "word-aligner", "position": "ibm2", "agreement": False, "prior": 0.1},
    "diagonal": {"type": "word-aligner", "position": "diagonal"},
    "hidden Markov model": {"type": "word-aligner", "position": "hmm"},
    "fertilities": {"type": "word-aligner", "position": {"type": "fertility", "jumps": 1}},
}
"""Families that align two texts and write nothing: tests/wings/counted/test_aligners.py."""

for _families in (FAMILIES, SIGNALS, PARALLEL, CHAINS, NUMBERS, COUNTED, ALIGNERS):
    for _name in [name for name, table in _families.items() if not of_hall(table)]:
        del _families[_name]  # a wing that was removed has taken the family with it

SHORTEST = {
    "context of labels and text, no attention": 2,
    "context of labels, no attention": 2,
    "instant, labels and bag to dense": 2,
}
"""The minimum length of a source, EOS included, if EOS alone is not enough."""


FAST = [
    "lstm, copied state, no attention",
    "recurrent of clips",
    "bahdanau, gru, no bridge",
    "luong, gru, scaled dot, fed",
    "luong, layer norm, fed",
    "convs2s",
    "elman, reversed source, no attention",
    "bahdanau, mut1, residual",
    "bahdanau, no input gate",
    "multi-kernel to luong",
    "sentence convolution, no attention",
    "transformer, rotary, gated, rms",
    "transformer, t5 and alibi",
    "transformer, recurrent and shaw",
    "transformer, lightweight and dynamic",
    "transformer, dilated",
    "transformer, lambda",
    "transformer, local attention",
    "context of a bag, attention too",
    "bahdanau, location",
    "luong, coverage, fed",
    "edits",
    "edits, two layers, no copies",
    "seeds of edits",
    "edits with counts",
    "synchronous",
    "pointer over transformer",
    "cold fusion",
    "deep fusion",
    "ensemble",
    "fusion",
    "fusion, not renormalised",
    "context of labels and text, no attention",
    "context of labels, no attention",
    "factors side by side, no attention",
    "sums of factors, no attention",
    "language model, convs2s, no attention",
    "language model, mixed, no attention",
    "ctc, lstm, no attention",
    "ctc and attention",
    "pyramidal of stacked features",
    "conformer of sound",
    "recurrent of columns",
    "transformer of patches",
    "transformer of a map, convolutional attention",
    "n-grams",
    "joint n-grams, the probable ones",
    "noisy channel",
    "affix rules",
]
"""Families that together have every part. The slow tests add the laws of the other families, which combine the same
parts differently."""
FAST = [name for name in FAST if name in FAMILIES | SIGNALS | COUNTED]


class Drawn(nn.Module):
    """An embedding of signals that reads ids. It replaces each id by a random step, which is fixed for the id."""

    def __init__(self, embedding: Any) -> None:
        super().__init__()
        self.embedding = embedding
        generator = torch.Generator().manual_seed(6)
        self.steps = torch.randn(FACTS.source_vocabulary, SIGNAL.source_vocabulary, generator=generator)

    def embed(self, source: Padded) -> Padded:
        embedded: Padded = self.embedding.embed(Padded(self.steps[source.values], source.lengths))
        return embedded


class Paired(nn.Module):
    """An encoder of pairs, which reads ``halved`` rows of ids."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.width, self.summary_widths = encoder.width, encoder.summary_widths

    def forward(self, source: Padded) -> Any:
        return self.encoder(halved(source))


def halved(source: Padded) -> Padded:
    """Pairs of sentences: the two halves of each row, of which the first half gets an EOS of its own."""
    first_B1 = (source.lengths // 2)[:, None]
    places_1S = torch.arange(source.values.shape[1] + 1)[None]
    longer_BS = torch.cat([source.values, source.values[:, :1]], 1)
    taken_BS = (places_1S - (places_1S > first_B1).long()).expand(len(first_B1), -1)
    values_BS = longer_BS.gather(1, taken_BS).masked_fill(places_1S == first_B1, EOS)
    return Padded(values_BS, source.lengths + 1)


class DrawnEmissions(nn.Module):
    """Emissions that read ids: a fixed random step replaces each id. EOS is no step."""

    def __init__(self, emission: Any) -> None:
        super().__init__()
        self.emission = emission
        self.steps = Drawn(None).steps

    def drawn(self, source: Padded) -> Padded:
        return Padded(self.steps[source.values], source.lengths - 1)

    def forward(self, source: Padded) -> Padded:
        found: Padded = self.emission(self.drawn(source))
        return found

    def lengths(self, source: Padded) -> torch.Tensor:
        return source.lengths - 1

    def estimation(self, batches: Any, free: torch.Tensor) -> Any:
        estimation = self.emission.estimation([(self.drawn(source), weights) for source, weights in batches], free)
        kept = estimation.reestimate
        estimation.reestimate = lambda batches: kept((self.drawn(source), weights) for source, weights in batches)
        return estimation


def facts(table: config.Table) -> Facts:
    """The facts of the data that fit the model. A model that copies or shares a table needs one vocabulary for both
    sides.
    """
    if table["type"] in ("forecaster", "density-forecaster", "kalman", "linear"):
        return NUMERIC
    if table["type"] in ("hmm", "hmm-classifier"):
        emission = table["emission"]
        if "gaussian" in (emission, *(emission.values() if isinstance(emission, dict) else ())):
            return SIGNAL
        return KNOWN if isinstance(emission, dict) and emission.get("suffix") else FACTS
    embedding = table.get("encoder", {}).get("embedding", "tokens")
    kind = embedding if isinstance(embedding, str) else embedding["type"]
    if kind in ("concatenated", "summed"):
        return FACTORED
    if kind == "spelled":
        return KNOWN if "word_width" in embedding else FACTS
    if kind not in ("tokens", "vectors"):
        return SIGNAL
    joint = table.get("decoder", {}).get("type") == "pointer" or table.get("tie") == "all"
    return JOINT if joint else FACTS


def build(table: config.Table, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """The model in evaluation mode. Its weights are enlarged, since near-uniform distributions would hide mistakes."""
    torch.manual_seed(seed)
    model: Any = config.build(table, Model, facts(table), "model")
    if can(type(model), Counted):
        if facts(table) is SIGNAL:
            model.emission = DrawnEmissions(model.emission)
        if table["type"] == "linear-pair-classifier":
            of_pairs = model.bags
            model.bags = lambda source: of_pairs(halved(source))
        count(model, seed)
    for part in model.counted_parts() if can(type(model), PartlyCounted) else ():
        count(part, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.requires_grad:
                parameter.mul_(1.7)
    if facts(table) is SIGNAL and hasattr(model, "encoder"):
        model.encoder.embedding = Drawn(model.encoder.embedding)
    if table.get("encoder", {}).get("type") == "siamese":
        model.encoder = Paired(model.encoder)
    return model.to(dtype).eval()


def count(model: Any, seed: int) -> None:
    """Counts the model on random series, or on random pairs whose targets depend on their sources."""
    generator = np.random.default_rng(seed)
    regressor = can(type(model), Regressor)
    counts = model.counts(series_pairs(generator) if regressor else paired(token_rows(model, generator)))
    for _ in range(4):
        counts.reestimate()
    counts.store()


def series_pairs(generator: np.random.Generator) -> Pairs:
    """Random walks of two channels. Six steps are the source, and six are the target."""
    walks = generator.normal(size=(40, 12, NUMERIC.target_vocabulary)).cumsum(1)
    sides = [np.pad(part.reshape(40, -1), ((0, 0), (0, 1)), constant_values=EOS) for part in np.split(walks, [6], 1)]
    return Pairs(*(Ragged(side.ravel(), np.arange(41) * side.shape[1]) for side in sides))


def token_rows(model: Any, generator: np.random.Generator) -> list[tuple[list[int], list[int]]]:
    """Random sources, and targets that depend on them. A chain has one target token for each source token, a parallel
    model one in all unless it is a tagger, and another model zero to two for each source token.
    """
    tags = can(type(model), Chain) or model_name(type(model)) == LINEAR_TAGGER["type"]
    shares = [0.0, 1.0, 0.0] if tags else [0.2, 0.6, 0.2]
    rows = []
    for _ in range(200):
        source = generator.integers(4, FACTS.source_vocabulary, generator.integers(1, 7))
        drawn = [generator.choice([0, 1, 2], p=shares) for _ in source]
        target = [
            int(x + generator.integers(0, 3)) for x, times in zip(source, drawn, strict=True) for _ in range(times)
        ]
        if can(type(model), Parallel) and not tags:
            target = [int(source[0]) + int(generator.integers(0, 3))]
        rows.append(([*map(int, source), EOS], [*target, EOS]))
    return rows


def paired(rows: list[tuple[list[int], list[int]]]) -> Pairs:
    """Pairs of the given rows of ids. Each row ends with EOS."""
    sides = [[np.asarray(row[side], np.int64) for row in rows] for side in (0, 1)]
    return Pairs(*(Ragged(np.concatenate(side), np.cumsum([0, *map(len, side)])) for side in sides))


def chooses_length(family: str) -> bool:
    """Returns whether a parallel model chooses the length of its output itself. Otherwise the source determines it."""
    return PARALLEL[family]["type"] in ("instant", "mask-predict")


def labels_of(table: config.Table, lengths: list[int]) -> list[int]:
    """The number of labels for sources of these lengths. The lengths count EOS, and the numbers of labels do not."""
    return [1 if classifies(table) else length - 1 for length in lengths]


def classifies(table: config.Table) -> bool:
    """True for a model that writes one label for each source, however long it is."""
    return table.get("counted") != LINEAR_TAGGER and table["type"] in (
        "classifier",
        "hmm-classifier",
        "labels-with-counts",
        "linear-classifier",
        "linear-pair-classifier",
        "parallel-ensemble",
    )


def all_lengths(family: str) -> list[int]:
    """Seven lengths of sources. None is shorter than the family allows."""
    return [max(length, SHORTEST.get(family, 1)) for length in (5, 2, 4, 7, 1, 3, 6)]


def sources(lengths: list[int], seed: int = 1, width: int | None = None) -> Padded:
    """Random ids, with EOS at each row's end and padding after it."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.zeros(len(lengths), width or max(lengths), dtype=torch.long)
    for row, length in zip(values, lengths, strict=True):
        row[: length - 1] = torch.randint(4, FACTS.source_vocabulary, (length - 1,), generator=generator)
        row[length - 1] = 2
    return Padded(values, torch.tensor(lengths))


def targets(rows: int, length: int, seed: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, FACTS.target_vocabulary, (rows, length), generator=generator)
