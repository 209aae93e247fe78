"""Checks whether another engine can run a Transformer of ours, from its settings."""

from __future__ import annotations

from typing import Any

from transduce.core.config import TableView
from transduce.core.errors import UserError

ACTIVATIONS = ("relu", "gelu", "swish")


def check_transformer(settings: TableView, engine: str, positions: tuple[str, ...], norms: tuple[str, ...]) -> None:
    """Raises UserError for the first setting of a run's table ``model`` that ``engine`` cannot run.

    An encoder and a decoder with attention, plain feed-forward networks and layer norms are possible. ``positions`` and
    ``norms`` are the possible types of these two. The norms of both stacks must add the same number to the variance.
    """
    check_value("type", settings["type"], ("encoder-decoder",), engine)
    check_value("kept_heads", settings.get("kept_heads"), (None,), engine)
    for side in ("encoder", "decoder"):
        check_value(f"{side}.type", settings[side]["type"], ("transformer",), engine)
        check_stack(settings, side, engine, positions, norms)
        check_value(f"{side}.norm.eps", epsilon(settings[side]), (epsilon(settings["encoder"]),), engine)


def check_stack(
    settings: TableView, side: str, engine: str, positions: tuple[str, ...], norms: tuple[str, ...]
) -> None:
    """Raises UserError for the first setting of a Transformer's encoder or decoder that ``engine`` cannot run. ``side``
    is "encoder" or "decoder", and ``settings`` is the table ``model``.
    """
    stack = settings[side]
    feedforward = stack["feedforward"]
    found: dict[str, tuple[object, tuple[object, ...]]] = {
        "embedding": (kind(stack.get("embedding", "tokens")), ("tokens",)),
        "positions": (kind(stack["positions"]), positions),
        "norm": (kind(stack["norm"]), norms),
        "norm.kind": (inner(stack["norm"], "kind", "layer"), ("layer",)),
        "feedforward": (0 if isinstance(feedforward, int) else kind(feedforward), (0, "plain")),
        "feedforward.activation": (activation(stack), ACTIVATIONS),
        "mixer": (kind(stack.get("mixer", "attention")), ("attention",)),
        "mixer.relative": (kind(inner(stack.get("mixer"), "relative", "none")), ("none",)),
    }
    for key, (value, allowed) in found.items():
        check_value(f"{side}.{key}", value, allowed, engine)


class UnsupportedError(UserError):
    """The ``value`` of a setting of the table ``model`` is none of those that an engine runs."""

    def __init__(self, key: str, value: object, allowed: tuple[object, ...], engine: str) -> None:
        self.given = value, allowed, engine
        self.key = key
        expected = " or ".join(map(repr, allowed))
        super().__init__(
            f"model.{key} = {value!r}: {engine} runs {expected} here; predict with --engine torch, or try to export "
            "with --to onnx"
        )

    def inside(self, table: str) -> UnsupportedError:
        """The error of a model whose settings are in ``table``, a table of the outer model."""
        return UnsupportedError(f"{table}.{self.key}", *self.given)


def check_value(key: str, value: object, allowed: tuple[object, ...], engine: str) -> None:
    """Raises UserError unless ``value`` of the setting ``model.key`` is one of ``allowed``."""
    if value not in allowed:
        raise UnsupportedError(key, value, allowed, engine)


def activation(stack: TableView) -> str:
    feedforward = stack["feedforward"]
    return "relu" if isinstance(feedforward, int) else str(feedforward.get("activation", "relu"))


def epsilon(stack: TableView) -> float:
    """The number that a stack's norms add to the variance."""
    return float(inner(stack["norm"], "eps", 1e-5))


def kind(table: object) -> Any:
    return table.get("type") if isinstance(table, dict) else table


def inner(table: object, key: str, default: object) -> Any:
    return table.get(key, default) if isinstance(table, dict) else default
