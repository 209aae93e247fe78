"""How fast does a Transformer decode, here and by Hugging Face's ``generate``, with the same weights?

    pip install -e '.[benchmarks]'
    python benchmarks/decoding_speed.py RUN [--rounds 5] [--beam 1 5] [--batch 64] [--out benchmarks/results/FILE.md]

RUN is of the recipe multi30k-de-en-transformer-post: MarianMTModel, into which its weights are copied, knows only
post-norm. Both read the same ids of the run's test split, batches of like length, and write at most 60 tokens; ids in
to ids out, loading excluded. They take turns, each block a process of its own, so that whatever else the machine does
falls on both; the ratio is the median of the rounds' own ratios. Outputs should agree but for ties and the different
rules by which beams stop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from report import machine, write
from stopwatch import alone

import transduce
from transduce import config
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.training.run import cache_folder
from transduce.transducer import Transducer
from transduce.types import BOS, EOS, PAD, Padded

LONGEST = 60
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}


@dataclass(frozen=True)
class Setting:
    run: Path
    beam: int
    batch: int
    threads: int
    limit: int | None
    clock: str


@dataclass(frozen=True)
class Decoded:
    """Sentences a second, and what was written for each, without its end."""

    sentences_per_second: float
    outputs: list[tuple[int, ...]]


def ours(setting: Setting) -> Decoded:
    transducer = _load(setting)
    search = Greedy(LONGEST) if setting.beam == 1 else Beam(setting.beam, max_length=LONGEST)

    def decode(source: Padded) -> list[tuple[int, ...]]:
        return [found[0].tokens[:-1] for found in search(transducer.model, source)]

    return _timed(setting, transducer, decode)


def theirs(setting: Setting) -> Decoded:
    transducer = _load(setting)
    model = marian(transducer.model, transducer.settings["model"])

    def decode(source: Padded) -> list[tuple[int, ...]]:
        options = {"num_beams": setting.beam, "do_sample": False, "early_stopping": False, "max_new_tokens": LONGEST}
        found = model.generate(input_ids=source.values, attention_mask=source.mask.long(), **options)
        return [tuple(id for id in row if id not in (PAD, BOS, EOS)) for row in found.tolist()]

    return _timed(setting, transducer, decode)


def _load(setting: Setting) -> Transducer:
    torch.set_num_threads(setting.threads)
    return transduce.load(setting.run, device="cpu")


@torch.inference_mode()
def _timed(setting: Setting, transducer: Transducer, decode: Callable[[Padded], list[tuple[int, ...]]]) -> Decoded:
    data = config.build(transducer.settings["data"], Data, path="data")
    texts = [example.source for example in examples(data, "test", cache_folder(data, setting.run))][: setting.limit]
    rows = transducer.source_tokenizer.encode(texts)
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    batches = [(places, transducer._padded([rows[place] for place in places])) for places in _cut(order, setting.batch)]
    decode(batches[0][1])
    outputs: list[tuple[int, ...]] = [()] * len(rows)
    began = CLOCKS[setting.clock]()
    for places, source in batches:
        for place, output in zip(places, decode(source), strict=True):
            outputs[place] = output
    return Decoded(len(rows) / (CLOCKS[setting.clock]() - began), outputs)


def _cut(order: list[int], size: int) -> Iterator[list[int]]:
    return (order[first : first + size] for first in range(0, len(order), size))


# ----------------------------------------------------------------- our weights in their model


def marian(model: Any, table: config.Table) -> Any:
    """MarianMTModel with the weights of a post-norm Transformer of ours, its three tables tied."""
    from transformers import MarianConfig, MarianMTModel, logging

    logging.set_verbosity_error()
    stack = table["encoder"]
    if stack["norm"]["type"] != "post" or table["tie"] != "all" or stack["positions"]["type"] != "sinusoidal":
        raise SystemExit(
            "Marian is post-norm, with sinusoids and one table: take a run of multi30k-de-en-transformer-post"
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
    # Their sinusoids are sines, then cosines; ours take turns: every feature axis follows.
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
    """A layer that reads features, of which theirs may have several for one of ours."""
    weights, biases = own.weight.chunk(len(parts)), own.bias.chunk(len(parts))
    for part, weight, bias in zip(parts, weights, biases, strict=True):
        part.weight.copy_(weight[:, features])
        part.bias.copy_(bias)


def _leave(features: torch.Tensor, own: Any, part: Any) -> None:
    """A layer that writes features, or weighs them."""
    part.weight.copy_(own.weight[features])
    part.bias.copy_(own.bias[features])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--limit", type=int, help="sentences, of the test split's beginning")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", default="wall", choices=list(CLOCKS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.clock == "processor" and given.threads > 1:
        parser.error("--clock processor counts the seconds of all threads together: give --threads 1")
    torch.set_num_threads(given.threads)
    found: dict[int, list[tuple[Decoded, Decoded]]] = {beam: [] for beam in given.beam}
    for number, beam in product(range(given.rounds), given.beam):
        setting = Setting(given.run, beam, given.batch, given.threads, given.limit, given.clock)
        turns = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        blocks = {turn: alone(turn, setting) for turn in turns}
        found[beam].append((blocks[ours], blocks[theirs]))
        print(f"beam {beam}:", *(f"{each.sentences_per_second:,.1f}" for each in found[beam][-1]), flush=True)
    told = [
        f"# Decoding {given.run.name}: sentences per second, {given.batch} a batch",
        "",
        machine(),
        "",
        f"Medians of {given.rounds} rounds, float32, seconds of the {given.clock} clock.",
        "",
        "| search | transduce | Hugging Face generate | times | equal outputs |",
        "|---|---|---|---|---|",
        *(_row(beam, rounds) for beam, rounds in found.items()),
    ]
    print("\n" + "\n".join(told))
    write(given.out, told)


def _row(beam: int, rounds: list[tuple[Decoded, Decoded]]) -> str:
    speeds = [[side.sentences_per_second for side in sides] for sides in zip(*rounds, strict=True)]
    times = median(one / other for one, other in zip(*speeds, strict=True))
    one, other = (side.outputs for side in rounds[0])
    equal = sum(output == there for output, there in zip(one, other, strict=True))
    name = "greedy" if beam == 1 else f"beam {beam}"
    return f"| {name} | {median(speeds[0]):,.1f} | {median(speeds[1]):,.1f} | {times:.2f} | {equal:,} of {len(one):,} |"


if __name__ == "__main__":
    main()
