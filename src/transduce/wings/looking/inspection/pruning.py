"""The importance of each head of a Transformer, and the quality of a model without its least important heads
(Michel, Levy and Neubig, "Are sixteen heads really better than one?", 2019).

B sentences, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.answers.batches import windows
from transduce.answers.transducer import Transducer
from transduce.core.protocols import Metric
from transduce.core.types import Example
from transduce.search.forcing import shifted
from transduce.wings.alignment.attention_weights import WEIGHTS
from transduce.wings.looking.inspection.heads import attention_maps
from transduce.wings.pages.palette import FAINT, HUES, INK, RULE
from transduce.wings.pages.plots import figure, save

Head = tuple[str, int]  # the attention's name in the model, and the head's number from 0


@contextmanager
def gated(model: nn.Module, gates: Mapping[str, Tensor]) -> Iterator[None]:
    """A context in which the weights of the named attentions are multiplied by their gates [H] or [B, H]. A gate of 0
    silences a head. It uses hooks, so the model itself does not change.
    """
    modules = dict(model.named_modules())
    hooks = [
        modules[f"{name}.{WEIGHTS}"].register_forward_hook(
            lambda module, given, weights_BHTS, gate=gate: weights_BHTS * gate[..., None, None]
        )
        for name, gate in gates.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class Importance:
    """The importance of a head. ``gradient`` is the mean absolute derivative of a sentence's loss with respect to the
    head's gate. ``alone`` is the rise of the mean loss of a token if only this head is silenced (natural logarithm).
    """

    head: Head
    gradient: float
    alone: float


def importances(transducer: Transducer, pairs: Sequence[tuple[str, str]], batch_size: int = 32) -> list[Importance]:
    """The importance of every head over the ``pairs`` (source, target), in the order of the model's layers. Raises
    UserError like ``attention_maps``.
    """
    sizes = {name: weights.shape[1] for name, (_, weights) in attention_maps(transducer, pairs[:1]).heads.items()}
    whole, tokens = _losses(transducer, pairs, batch_size, {})
    gradients = _gradients(transducer, pairs, batch_size, sizes)
    found = []
    for name, heads in sizes.items():
        for head in range(heads):
            gate_H = torch.ones(heads, device=transducer.device)
            gate_H[head] = 0.0
            without, _ = _losses(transducer, pairs, batch_size, {name: gate_H})
            found.append(Importance((name, head), gradients[name][head] / len(pairs), (without - whole) / tokens))
    return found


def _loss(transducer: Transducer, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, int]:
    """The sum of the losses of a batch's target tokens, with gradients, and their number."""
    model = transducer.stepwise
    source = transducer.padded([source.row for source in transducer.read([text for text, _ in pairs])])
    target = transducer.padded(transducer.target_tokenizer.encode([text for _, text in pairs]), torch.long)
    features, _ = model.extend(shifted(target), model.start(source))
    logits_NV = model.readout(features)[target.mask]
    loss = nn.functional.cross_entropy(logits_NV.float(), target.values[target.mask], reduction="sum")
    return loss, len(logits_NV)


@torch.inference_mode()
def _losses(
    transducer: Transducer, pairs: Sequence[tuple[str, str]], batch_size: int, gates: Mapping[str, Tensor]
) -> tuple[float, int]:
    with gated(transducer.model, gates):
        found = [_loss(transducer, batch) for batch in windows(pairs, batch_size)]
    return sum(float(loss) for loss, _ in found), sum(count for _, count in found)


def _gradients(
    transducer: Transducer, pairs: Sequence[tuple[str, str]], batch_size: int, sizes: Mapping[str, int]
) -> dict[str, list[float]]:
    """For each attention and head: the absolute derivative of a sentence's loss by the head's gate, summed over
    sentences.
    """
    sums = {name: torch.zeros(heads, dtype=torch.double) for name, heads in sizes.items()}
    for batch in windows(pairs, batch_size):
        with torch.enable_grad():
            gates = {
                name: torch.ones(len(batch), heads, device=transducer.device, requires_grad=True)
                for name, heads in sizes.items()
            }
            with gated(transducer.model, gates):
                loss, _ = _loss(transducer, batch)
            each = torch.autograd.grad(loss, list(gates.values()))
        for name, gradient_BH in zip(gates, each, strict=True):
            sums[name] += gradient_BH.abs().sum(0).double().cpu()
    return {name: sum_H.tolist() for name, sum_H in sums.items()}


def pruning_curve(
    transducer: Transducer,
    examples: Sequence[Example],
    metric: Metric,
    order: Sequence[Head],
    shares: Sequence[float] = (0, 0.1, 0.2, 1 / 3, 0.5, 0.75),
    told: Callable[[int, float], None] = lambda count, score: None,
) -> list[tuple[int, float]]:
    """The metric of the examples' outputs without the first heads of ``order``, for each of the ``shares`` of all
    heads. Returns pairs of the number of silenced heads and the score. ``told`` is called with each pair as soon as it
    is computed.
    """
    sizes: dict[str, int] = {}
    for name, head in order:
        sizes[name] = max(sizes.get(name, 0), head + 1)
    curve = []
    for count in dict.fromkeys(round(share * len(order)) for share in shares):
        gates = {name: torch.ones(heads, device=transducer.device) for name, heads in sizes.items()}
        for name, head in order[:count]:
            gates[name][head] = 0.0
        with gated(transducer.model, gates if count else {}):
            score = transducer.evaluate(examples, [metric], told=False).scores[metric.name]
        told(count, score)
        curve.append((count, score))
    return curve


def plot(curve: Sequence[tuple[int, float]], heads: int, name: str, path: str | Path) -> None:
    """Draws a pruning curve into a file (.png, .svg, .pdf): the metric ``name`` against the share of all ``heads`` that
    is silenced. Raises MissingPackageError without matplotlib, and UserError for an unsupported suffix.
    """
    drawn = figure(6.0, 3.6)
    axes = drawn.subplots()
    axes.plot([100 * count / heads for count, _ in curve], [score for _, score in curve], "o-", color=HUES[0])
    axes.set_xlabel(f"% of {heads} heads silenced, least important first", color=FAINT)
    axes.set_ylabel(name, color=FAINT)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    save(drawn, path)
