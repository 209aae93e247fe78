"""How fast does a Transformer decode, here and by Hugging Face's ``generate``, with the same weights?

    pip install -e '.[benchmarks]'
    python benchmarks/decoding_speed.py RUN [--rounds 5] [--precision float32 bfloat16] [--beam 1 5]
                                        [--batch 64 256] [--workers 1 2] [--out benchmarks/results/FILE.md]
                                        [--record FILE.json]

RUN is a run of the recipe multi30k-de-en-transformer with post-norm (docs/families.md). Its weights are copied into
MarianMTModel, which supports only post-norm.

Both programs read the run's test split in batches of similar length, and write at most 60 tokens. Loading is not timed.
Ours is timed from text to text, theirs from ids to ids, in the same precisions. They take turns, and each block has its
own process, so that other programs on the machine slow all of them alike. Each side uses its best ``--batch``. The
ratio compares a side with theirs in the first ``--precision``. It is the median of the ratios of the rounds. If
``--workers`` is above 1, ours has that many processes with one thread each, and theirs has that many threads. In
float32, outputs should agree, except for ties and for the different rules that stop a beam. BLEU shows the quality of
the outputs in bfloat16.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from report import Report, columns, parse, parser_of, titled
from stopwatch import alone

import transduce
from transduce.answers.batches import sorted_batches
from transduce.answers.transducer import Transducer
from transduce.compute.precision import Precision
from transduce.compute.workers import Workers
from transduce.core import config
from transduce.core.types import BOS, EOS, PAD, Example, Prediction
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.metrics.base import metric
from transduce.metrics.statistics import statistics
from transduce.runs.run import cache_folder
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy

LONGEST = 60
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}


@dataclass(frozen=True)
class Setting:
    run: Path
    beam: int
    batch: int
    workers: int
    limit: int | None
    clock: str


@dataclass(frozen=True)
class Decoded:
    """Sentences per second, the output ids of each source without the end, and the BLEU of the outputs."""

    sentences_per_second: float
    outputs: list[tuple[int, ...]]
    bleu: float


def ours(precision: Precision, setting: Setting) -> Decoded:
    torch.set_num_threads(1)
    transducer, given = _loaded(setting, precision)
    texts = [example.source for example in given]
    search = Greedy(LONGEST) if setting.beam == 1 else Beam(setting.beam, max_length=LONGEST)
    if setting.workers > 1:
        load = partial(transduce.load, setting.run, device="cpu", precision=precision)
        workers: Workers[Transducer] = Workers(load, setting.workers)
        list(workers(_wait, range(setting.workers)))  # until each has loaded the model
        transducer = replace(transducer, workers=workers)
    list(transducer.predict(texts[: 4 * setting.workers], search, 4))
    began = CLOCKS[setting.clock]()
    found = list(transducer.predict(texts, search, setting.batch))
    seconds = CLOCKS[setting.clock]() - began
    return _decoded(transducer, given, [outputs[0].ids[:-1] for outputs in found], seconds)


def _wait(_: Transducer, __: int) -> None:
    time.sleep(10)


@torch.inference_mode()
def theirs(precision: Precision, setting: Setting) -> Decoded:
    torch.set_num_threads(setting.workers)
    transducer, given = _loaded(setting)
    model = marian(transducer.model, transducer.settings["model"]).to(getattr(torch, precision))
    options = {"num_beams": setting.beam, "do_sample": False, "early_stopping": False, "max_new_tokens": LONGEST}

    def decode(batches: Iterable[list[list[int]]]) -> Iterator[list[tuple[int, ...]]]:
        for rows in batches:
            source = transducer.padded(rows)
            found = model.generate(input_ids=source.values, attention_mask=source.mask.long(), **options)
            yield [tuple(id for id in row if id not in (PAD, BOS, EOS)) for row in found.tolist()]

    rows = [(len(ids), ids) for ids in transducer.source_tokenizer.encode([example.source for example in given])]
    sorted_batches(rows[:8], 4, decode)
    began = CLOCKS[setting.clock]()
    found = sorted_batches(rows, setting.batch, decode)
    return _decoded(transducer, given, found, CLOCKS[setting.clock]() - began)


def _loaded(setting: Setting, precision: Precision = "float32") -> tuple[Transducer, list[Example]]:
    """The transducer of the run, and the test examples that it reads."""
    transducer = transduce.load(setting.run, device="cpu", precision=precision)
    data = config.build(transducer.settings["data"], Data, path="data")
    return transducer, examples(data, "test", cache_folder(data, setting.run))[: setting.limit]


def _decoded(transducer: Transducer, given: list[Example], outputs: list[tuple[int, ...]], seconds: float) -> Decoded:
    written = [Prediction(transducer.target_tokenizer.decode((*ids, EOS))) for ids in outputs]
    (bleu,) = statistics([metric("bleu")], written, given)
    return Decoded(len(outputs) / seconds, outputs, bleu.score)


# ----------------------------------------------------------------- our weights in their model


def marian(model: Any, table: config.Table) -> Any:
    """MarianMTModel with the weights of our post-norm Transformer, whose three embedding tables are tied."""
    from transformers import MarianConfig, MarianMTModel, logging

    logging.set_verbosity_error()
    stack = table["encoder"]
    if stack["norm"]["type"] != "post" or table["tie"] != "all" or stack["positions"]["type"] != "sinusoidal":
        raise SystemExit(
            "Marian is post-norm, with sinusoids and one table: take a run of "
            "multi30k-de-en-transformer with post-norm (docs/families.md)"
        )
    vocabulary, width = model.decoder.projection.weight.shape
    settings = MarianConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=stack["layers"],
        decoder_layers=table["decoder"]["layers"],
        encoder_attention_heads=stack["heads"],
        decoder_attention_heads=table["decoder"]["heads"],
        encoder_ffn_dim=stack["feedforward"],
        decoder_ffn_dim=table["decoder"]["feedforward"],
        max_position_embeddings=512,
        scale_embedding=True,
        activation_function="relu",
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=EOS,
    )
    theirs: Any = MarianMTModel(settings).eval()
    # Their sinusoids have all sines, then all cosines. Ours alternate, so every feature axis is reordered.
    features = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    enter, leave = partial(_enter, features), partial(_leave, features)
    with torch.no_grad():
        theirs.model.shared.weight.copy_(model.decoder.projection.weight[:, features])
        theirs.final_logits_bias.copy_(model.decoder.projection.bias[None])
        sides = (
            (theirs.model.encoder.layers, model.encoder.layers),
            (theirs.model.decoder.layers, model.decoder.layers),
        )
        for layer, own in (pair for layers in sides for pair in zip(*layers, strict=True)):
            attention = layer.self_attn
            enter(own.mixer.project, attention.q_proj, attention.k_proj, attention.v_proj)
            leave(own.mixer.out, attention.out_proj)
            leave(own.mixer_residual.norm, layer.self_attn_layer_norm)
            enter(own.feedforward.widen, layer.fc1)
            leave(own.feedforward.narrow, layer.fc2)
            leave(own.feedforward_residual.norm, layer.final_layer_norm)
        for layer, own in zip(*sides[1], strict=True):
            read = layer.encoder_attn
            enter(own.memory.query, read.q_proj)
            enter(own.memory.project, read.k_proj, read.v_proj)
            leave(own.memory.out, read.out_proj)
            leave(own.memory_residual.norm, layer.encoder_attn_layer_norm)
    return theirs


def _enter(features: torch.Tensor, own: Any, *parts: Any) -> None:
    """Copies a layer that reads features. One layer of ours may be several layers of theirs."""
    weights, biases = own.weight.chunk(len(parts)), own.bias.chunk(len(parts))
    for part, weight, bias in zip(parts, weights, biases, strict=True):
        part.weight.copy_(weight[:, features])
        part.bias.copy_(bias)


def _leave(features: torch.Tensor, own: Any, part: Any) -> None:
    """Copies a layer that writes features, or scales them."""
    part.weight.copy_(own.weight[features])
    part.bias.copy_(own.bias[features])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 256], help="each side has what is best for it")
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--limit", type=int, help="sentences, of the test split's beginning")
    parser.add_argument("--clock", default="wall", choices=list(CLOCKS))
    given = parse(parser)
    if given.clock == "processor" and max(given.workers) > 1:
        parser.error("--clock processor counts the seconds of one process, of all its threads: give --workers 1")
    told = [
        *titled(f"Decoding {given.run.name}: sentences per second"),
        f"Medians of {given.rounds} rounds, seconds of the {given.clock} clock, each with the batch that is its best.",
    ]
    report = Report.asked(given)
    for beam, workers in product(given.beam, given.workers):
        settings = {batch: Setting(given.run, beam, batch, workers, given.limit, given.clock) for batch in given.batch}
        sides: Sides = {f"transduce, {name}": partial(ours, name) for name in given.precision}
        sides |= {f"Hugging Face generate, {name}": partial(theirs, name) for name in reversed(given.precision)}
        rounds = [_round(sides, settings, number) for number in range(given.rounds)]
        name, cores = "greedy" if beam == 1 else f"beam {beam}", f"{workers} core{'s' * (workers > 1)}"
        told += ["", f"## {name.capitalize()}, {cores}", "", *_table(rounds)]
        print("\n".join(told), flush=True)
        report.write(told, [given.run])


Sides = dict[str, Callable[[Setting], Decoded]]
Round = dict[str, dict[int, Decoded]]


def _round(sides: Sides, settings: dict[int, Setting], number: int) -> Round:
    """Decodes with each side and each batch size. Every second round reverses the order of the sides."""
    found: Round = {name: {} for name in sides}
    for batch, setting in settings.items():
        for name in list(sides)[:: -1 if number % 2 else 1]:
            found[name][batch] = alone(sides[name], setting)
    return found


def _table(rounds: list[Round]) -> list[str]:
    speeds, first = {}, {}  # by side, with its best batch: the speed of each round, and the result of the first round
    for side, found in rounds[0].items():
        each = {batch: [found[side][batch].sentences_per_second for found in rounds] for batch in found}
        batch = max(each, key=lambda batch: median(each[batch]))
        speeds[f"{side} ({batch})"], first[f"{side} ({batch})"] = each[batch], found[batch]
    *_, other = speeds
    exact = next(iter(first.values()))
    lines = columns("| side (batch) | sentences a second | times theirs | BLEU | lines unlike the first row's |")
    for side, own in speeds.items():
        times = median(one / another for one, another in zip(own, speeds[other], strict=True))
        unlike = sum(one != another for one, another in zip(first[side].outputs, exact.outputs, strict=True))
        lines.append(
            f"| {side} | {median(own):,.1f} | {times:.2f} | {first[side].bleu:.2f} "
            f"| {unlike:,} of {len(exact.outputs):,} |"
        )
    return lines


if __name__ == "__main__":
    main()
