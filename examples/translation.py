"""Translation with attention, on the parts of transduce: dates as people write them become dates in ISO 8601.

    python examples/translation.py

The file has no configuration and no run directory. It shows what `transduce train` puts together: a tokenizer, an
encoder, attention, a decoder, an objective, and two searches. B sources, S and T positions, V vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import partial

import torch

from transduce.core.types import Batch, Example, Padded, Prediction
from transduce.data.tokenizers.base import Tokenizer
from transduce.data.tokenizers.text import Characters
from transduce.layers.decoders.recurrent import RecurrentDecoder
from transduce.layers.encoders.recurrent import RecurrentEncoder
from transduce.layers.modules.attention.energies import General
from transduce.layers.modules.attention.one_head import GlobalAttention
from transduce.layers.modules.bridges import LinearBridge
from transduce.layers.modules.cells.gru import GRU
from transduce.layers.modules.wirings import Luong
from transduce.metrics.base import evaluate, metric
from transduce.models.autoregressive import EncoderDecoder
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy

UPDATES, BATCH = 300, 64
FORMS = ("%d %B %Y", "%B %d, %Y", "%A, %d %b %Y", "%d.%m.%y", "%d/%m/%Y")

# ---------------------------------------------------------------- 1. data: pairs of texts


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Dates of the years 1970 to 2069, in one of five forms, each with its form in ISO 8601."""
    draw = random.Random(seed)
    days = [date(1970, 1, 1) + timedelta(days=draw.randrange(36_500)) for _ in range(count)]
    return [(day.strftime(draw.choice(FORMS)), day.isoformat()) for day in days]


def batches(data: Sequence[tuple[str, str]], source: Tokenizer, target: Tokenizer) -> Iterator[Batch]:
    """Batches of random pairs, without end. An encoded text ends with EOS; ``Padded`` fills up the shorter ones."""
    draw = random.Random(1)
    while True:
        some = draw.sample(data, BATCH)
        sources, targets = ([*side] for side in zip(*some, strict=True))
        yield Batch(Padded.of(source.encode(sources)), Padded.of(target.encode(targets)), ids=torch.arange(BATCH))


# ---------------------------------------------------------------- 2. the model: parts that fit together


def model_of(source: Tokenizer, target: Tokenizer) -> EncoderDecoder:
    """Luong's model: a GRU reads the source in both directions, and a GRU writes the target with attention.

    A part that needs widths which only another part knows is given as a function: the decoder's cell, for example,
    learns from the wiring how wide its input is.
    """
    encoder = RecurrentEncoder(len(source), GRU, embedding_width=32, width=64, dropout=0.0)
    attention = partial(GlobalAttention, energy=General)
    decoder = partial(
        RecurrentDecoder,
        target_vocabulary=len(target),
        cell=GRU,
        wiring=partial(Luong, attention=attention),
        bridge=LinearBridge,
        embedding_width=32,
        width=128,
        dropout=0.0,
    )
    return EncoderDecoder(encoder, decoder)


# ---------------------------------------------------------------- 3. training: an objective and an optimiser


def train(model: EncoderDecoder, stream: Iterator[Batch]) -> None:
    """Teacher forcing: the model reads the target's own words. The objective returns a sum and a count, so that it can
    be divided once, after several batches or processes.
    """
    objective, optimizer = CrossEntropy(), torch.optim.Adam(model.parameters(), lr=3e-3)
    for update in range(1, UPDATES + 1):
        loss, _ = objective(model, next(stream))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if update % 100 == 0:
            print(f"update {update}: loss {loss.total.item() / loss.count:.3f} a token")


# ---------------------------------------------------------------- 4. search: from the model to texts


def written(model: EncoderDecoder, texts: Sequence[str], source: Tokenizer, target: Tokenizer, size: int) -> list[str]:
    """The best output for each text. A search knows three verbs of a model: start, extend, readout."""
    search = Greedy(max_length=20) if size == 1 else Beam(size, max_length=20)
    found = search(model.eval(), Padded.of(source.encode(texts)))
    return [target.decode(hypotheses[0].tokens) for hypotheses in found]


def main() -> float:
    """Trains, measures on dates that training has not seen, and returns the percentage that is right."""
    torch.manual_seed(1)
    known, new = pairs(5_000, seed=1), pairs(200, seed=2)
    source, target = Characters().learn([text for text, _ in known]), Characters().learn([iso for _, iso in known])
    model = model_of(source, target)
    train(model, batches(known, source, target))
    outputs = written(model, [text for text, _ in new], source, target, size=4)
    examples = [Example(text, (iso,)) for text, iso in new]
    score = evaluate([metric("exact")], [Prediction(output) for output in outputs], examples)["exact"]
    print(f"{score:.1f} % of new dates are right")
    for text in ("Monday, 20 Jul 1987", "29.02.16", "October 03, 2044"):
        print(f"{text:>20} -> {written(model, [text], source, target, size=1)[0]}")
    return score


if __name__ == "__main__":
    main()
