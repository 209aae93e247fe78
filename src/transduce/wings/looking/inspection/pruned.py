"""Writes a run without some of its heads. Its matrices are smaller, and it keeps all settings of the training."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.layers.modules.attention.pruning import Prunable, keep_heads
from transduce.runs.from_model import check_empty, write_run
from transduce.runs.run import Run
from transduce.wings.looking.inspection.pruning import Head

TYPES = ("encoder-decoder", "language-model")  # types of models with the setting kept_heads


def first_heads(order: Sequence[Head], share: float) -> list[Head]:
    """The heads to remove: a ``share`` of all heads, from the beginning of ``order``. The last head of an attention is
    never removed, so the next head of the order is removed instead. Raises UserError for a share that is not between 0
    and 1.
    """
    if not 0 < share < 1:
        raise UserError(f"share = {share:g}: a part of all heads was expected, between 0 and 1")
    left = Counter(name for name, _ in order)
    removed = list[Head]()
    for head in order:
        if len(removed) < round(share * len(order)) and left[head[0]] > 1:
            left[head[0]] -= 1
            removed.append(head)
    return removed


def save_without(run: str | Path, transducer: Transducer, removed: Sequence[Head], out: str | Path) -> Run:
    """Makes the directory ``out`` a run with the ``transducer``'s weights without the ``removed`` heads. ``run`` is the
    directory that the transducer was loaded from.

    The setting ``model.kept_heads`` of the new run names the heads that stay. Raises UserError if ``out`` has files,
    and for a model that is neither an encoder-decoder nor a language model, or whose attention cannot lose heads.
    """
    place = Path(out).expanduser()
    check_empty(place)
    source = Run.open(run)
    settings = copy.deepcopy(source.settings)
    if settings["model"]["type"] not in TYPES:
        raise UserError(
            f"model.type = {settings['model']['type']!r}: only {' and '.join(TYPES)} are written without heads; prune "
            "each of its models before you join them"
        )
    model = copy.deepcopy(transducer.model)
    attentions = dict.fromkeys(name.rpartition(".")[0] for name, _ in removed)
    sizes = {name: int(cast(Prunable, model.get_submodule(name)).count) for name in attentions}
    gone = {(name.rpartition(".")[0], head) for name, head in removed}
    kept = {name: [head for head in range(count) if (name, head) not in gone] for name, count in sizes.items()}
    keep_heads(model, kept)
    earlier = settings["model"].get("kept_heads", {})
    numbers = {
        name: [earlier[name][head] for head in heads] if name in earlier else heads for name, heads in kept.items()
    }
    settings["model"]["kept_heads"] = earlier | numbers
    about = {"step": 0, "what": "pruned", "from": Path(run).name, "heads": len(removed)}
    return write_run(place, settings, source.tokenizers, model, about)
