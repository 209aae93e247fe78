"""How much does a translation lose by capitals, missing punctuation and typing errors, and what brings it back?

The recipe ``translation`` learns German to English from Multi30k, once for each system of ``SYSTEMS``, with equally
many updates. Each system translates test_2016_flickr as it is, and changed in the ways of ``WAYS``; the references do
not change, so capitals count. BLEU and chrF distinguish capitals and lower case. A share is the score beside the same
system's score on the unchanged sources. Typing errors are slips of the fingers: in 10 % of the words, or one for each
tenth letter. The same command again continues interrupted runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from report import Report, columns, row, titled

import transduce
from transduce.core.types import Example
from transduce.metrics.base import metric
from transduce.runs.run import Run
from transduce.wings.robustness.casing import CASES
from transduce.wings.robustness.punctuation import as_spoken, without_end
from transduce.wings.robustness.typing_errors import mistyped, slip

APART = 'data.units={source={type="bpe", size=4000, lowercase=true}, target={type="bpe", size=4000}}'
SYSTEMS: dict[str, list[str]] = {
    "plain": [],
    "robust": ["training.robust=true"],
    "lower-cased source": [APART],
    "robust, lower-cased source": [APART, "training.robust=true"],
}


def slipped(text: str, chance: np.random.Generator) -> str:
    """The text with a slip for each tenth letter, on average."""
    words = text.split(" ")
    for number, word in enumerate(words):
        for _ in range(chance.binomial(len(word), 0.1)):
            words[number] = slip(words[number], chance) if len(words[number]) > 1 else words[number]
    return " ".join(words)


WAYS: dict[str, Callable[[str, np.random.Generator], str]] = {
    "as it is": lambda text, _: text,
    "capitals": lambda text, _: CASES["capitals"](text),
    "lower case": lambda text, _: CASES["lower"](text),
    "no final punctuation": lambda text, _: without_end(text),
    "speech-like": lambda text, _: as_spoken(text),
    "10 % of the words mistyped": lambda text, chance: mistyped(text, 0.1, chance),
    "10 % of the letters mistyped": slipped,
}


def scores(run: Path) -> dict[str, tuple[float, float]]:
    """BLEU and chrF of a run for each way to write the sources."""
    transducer, examples, found = transduce.load(run, device="cpu"), Run.open(run).examples("test"), {}
    for name, way in WAYS.items():
        changed = [
            Example(way(each.source, np.random.default_rng([7, number])), each.references)
            for number, each in enumerate(examples)
        ]
        results = transducer.evaluate(changed, [metric("bleu"), metric("chrf")]).statistics
        found[name] = results[0].score, results[1].score
    return found


def over(score: float, clean: float) -> str:
    return f"{score / clean:.0%}" if clean else "–"


def main(
    report: Report,
    *,
    runs: Path,
    folder: str | None = None,
    systems: Annotated[Sequence[str], SYSTEMS] = tuple(SYSTEMS),
    updates: int = 1300,
    seeds: Sequence[int] = (1,),
) -> None:
    report.tell(*titled(f"Texts as people write them, Multi30k, German to English, {updates:,} updates"))
    report.tell(*columns("| system | seed | sources | BLEU | share | chrF | share |"))
    origin = f', folder="{folder}"' if folder else ""
    common = [f'data.origin={{type="multi30k", source="de", target="en"{origin}}}', "data.group_references=false"]
    common += [f"training.steps={updates}", "training.aligner=false"]
    common += ["training.clock=processor"]  # of equally many updates, also on a busy machine
    for seed in seeds:
        for system in systems:
            run = runs / f"{system.replace(', ', '-').replace(' ', '-')}-{seed}"
            made = [*common, *SYSTEMS[system], f"training.seed={seed}"]
            transduce.train("translation", run, made, resume=True, device="cpu", threads=report.threads)
            found = scores(run)
            bleu, chrf = found["as it is"]
            for way, (own, letters) in found.items():
                cells = [f"{own:.2f}", over(own, bleu), f"{letters:.2f}", over(letters, chrf)]
                report.tell(row([system, seed, way, *cells]), runs=[run])
