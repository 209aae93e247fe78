"""Hugging Face's Marian: a plain training loop, and ``generate``. Needs only torch and transformers.

python -m peers.programs.marian OPTIONS     (JSON; prints its answer as JSON)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from peers.sizes import BETA, CLIP, DROPOUT, HEADS, HIDDEN, LAYERS, RATE, SMOOTHING, WARMUP, WIDTH

PAD, BOS, EOS = 0, 1, 2  # the ids of our vocabularies
SETTLING = 10  # updates before the clock starts


def new_model(vocabulary: int) -> Any:
    """A MarianMTModel of these sizes, with random weights."""
    try:
        from transformers import MarianConfig, MarianMTModel
    except ImportError as error:
        raise SystemExit(f"{error}: pip install -e '.[benchmarks]'") from error
    side = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": HIDDEN}
    sizes = {f"{coder}_{name}": value for coder in ("encoder", "decoder") for name, value in side.items()}
    return MarianMTModel(
        MarianConfig(
            **sizes,
            vocab_size=vocabulary,
            d_model=WIDTH,
            max_position_embeddings=1024,
            activation_function="relu",
            scale_embedding=True,
            dropout=DROPOUT,
            attention_dropout=DROPOUT,
            activation_dropout=DROPOUT,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )
    )


@dataclass(frozen=True)
class Plan:
    """The rate of each update: a linear warm-up, then an inverse square root, or a linear decay to 0 at ``steps``."""

    rate: float = RATE
    warmup: int = WARMUP
    steps: int | None = None

    def at(self, step: int) -> float:
        later = (self.warmup / step) ** 0.5 if self.steps is None else (self.steps - step) / (self.steps - self.warmup)
        return self.rate * min(step / self.warmup, later)


def updates(
    model: Any, batches: Iterable[tuple[Tensor, Tensor]], precision: str, plan: Plan | None = None
) -> Iterator[Tensor]:
    """Trains on the batches of ids, source [B, S] and target [B, T], which end with EOS and are padded. Yields the loss
    after each update.
    """
    model.train()
    plan = plan or Plan()
    optimizer = torch.optim.Adam(model.parameters(), plan.rate, (0.9, BETA), 1e-9)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)
    for step, (source, target) in enumerate(batches, 1):
        for group in optimizer.param_groups:
            group["lr"] = plan.at(step)
        read = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            output = model(source, attention_mask=(source != PAD).long(), decoder_input_ids=read)
            loss = criterion(output.logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        yield loss


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def train(batches: str, vocabulary: int, precision: str, seconds: float, seed: int) -> dict[str, Any]:
    """Trains for ``seconds`` after the first ``SETTLING`` updates. ``batches`` is the path of a file."""
    torch.manual_seed(seed)
    with open(batches, encoding="utf-8") as file:
        found = json.load(file)
    model = new_model(vocabulary)
    began = now = 0.0
    tokens, value = 0, float("nan")
    pairs = ((padded(source), padded(target)) for source, target in found)
    for step, loss in enumerate(updates(model, pairs, precision), 1):
        now = time.perf_counter()
        if step == SETTLING:
            began = now
        elif step > SETTLING:
            tokens += sum(map(len, found[step - 1][1]))
            if now - began > seconds:
                value = loss.item()
                break
    else:
        raise SystemExit(f"{len(found):,} batches took less than {seconds} seconds: give it fewer --seconds")
    size = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"rate": tokens / (now - began), "parameters": size, "loss": value}


def generate(folder: str, sources: str, columns: Sequence[Sequence[int]], longest: int) -> dict[str, Any]:
    """Sentences per second for each column: beam, batch and count. ``sources`` is the path of a file of rows of ids."""
    import transformers

    transformers.logging.set_verbosity_error()
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    with open(sources, encoding="utf-8") as file:
        rows = json.load(file)

    def answer(beam: int, batch: int, count: int) -> None:
        ordered = sorted(rows[:count], key=len, reverse=True) if batch > 1 else rows[:count]
        for first in range(0, len(ordered), batch):
            source = padded(ordered[first : first + batch])
            mask = (source != PAD).long()
            with torch.inference_mode():
                model.generate(source, attention_mask=mask, num_beams=beam, do_sample=False, max_new_tokens=longest)

    rates = []
    for beam, batch, count in columns:
        answer(beam, batch, min(batch, 4))
        began = time.perf_counter()
        answer(beam, batch, count)
        rates.append(min(count, len(rows)) / (time.perf_counter() - began))
    return {"rates": rates}


def main() -> None:
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options.pop("threads"))
    generates = options.pop("do") == "generate"
    answer = generate(**options) if generates else train(**options)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
