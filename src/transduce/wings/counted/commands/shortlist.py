"""``transduce shortlist``: learns, from a run's training pairs, the target words that each source word suggests."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import Plugins
from transduce.core.errors import UserError
from transduce.core.files import write_file
from transduce.runs.layout import SHORTLIST

if TYPE_CHECKING:
    from transduce.data.pairs import Pairs
    from transduce.wings.counted.shortlist import CandidateWords


def shortlist(
    run: Annotated[Path, typer.Argument(help="A run directory; the list is stored there.", metavar="RUN")],
    best: Annotated[int, typer.Option(min=1, help="Target words per source token.")] = 50,
    frequent: Annotated[int, typer.Option(min=0, help="Frequent target words that are on every list.")] = 200,
    iterations: Annotated[int, typer.Option(min=1, help="Passes over the pairs.")] = 5,
    plugin: Plugins = None,
) -> None:
    """Learn the likely target words of each source word.

    `predict --shortlist` then searches only among them.

    \b
    Examples:
      transduce shortlist runs/de-en
    """
    import torch

    from transduce.core.plugins import load_plugins
    from transduce.core.types import EOS
    from transduce.runs.run import Run
    from transduce.wings.counted.association import associate
    from transduce.wings.counted.association import frequent as most_frequent
    from transduce.wings.counted.shortlist import CandidateWords, on_every_list

    load_plugins(plugin)
    prepared = Run.open(run).prepared()
    if prepared.source_tokenizer.numeric or not prepared.tokenizers.conditional:
        raise UserError(f"the sources of {run} are not words, so there is no shortlist for them")
    suggested = associate(prepared.train, iterations).best(best, len(prepared.source_tokenizer), EOS)
    common = torch.from_numpy(most_frequent(prepared.train, frequent))
    candidates = CandidateWords(torch.from_numpy(suggested).long(), on_every_list(common))
    write_file(run / SHORTLIST, candidates.save)
    print(run / SHORTLIST)
    if prepared.valid is not None:
        listed, words = _coverage(candidates, prepared.valid)
        print(
            f"{100 * listed:.2f} % of the words of the validation set are on their sentence's list, which has "
            f"{words:,.0f} of {len(prepared.target_tokenizer):,} words on the average"
        )


def _coverage(candidates: CandidateWords, pairs: Pairs) -> tuple[float, float]:
    """How good a shortlist is: the share of the target tokens that are on their source's list, and the average number
    of tokens on a list.

    Special tokens, which are on every list, do not count in either number.
    """
    import numpy as np

    from transduce.core.types import SPECIALS

    listed = tokens = words = 0
    for ids in np.array_split(np.arange(len(pairs)), -(-len(pairs) // 64)):
        batch = pairs.batch(ids)
        lists = candidates.of(batch.source)
        word_BT = batch.target.mask & (batch.target.values >= len(SPECIALS))  # specials are on every list
        listed += int((lists.has(batch.target) & word_BT).sum())
        tokens += int(word_BT.sum())
        words += int(lists.listed_BC.sum()) - len(SPECIALS) * len(batch.target.lengths)
    return listed / tokens if tokens else math.nan, words / len(pairs)
