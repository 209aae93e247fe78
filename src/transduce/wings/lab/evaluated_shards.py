"""The evaluation of a folder of shards: the predictions for each shard are a file, and all are measured together.

So one evaluation of all examples in one file gives the same scores and intervals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from transduce.answers.output_folder import write_shards
from transduce.answers.transducer import Transducer
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import MetricOptions, RunOptions
from transduce.cli.shards import ShardOptions, shards_of
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.text_files import read_text
from transduce.core.types import Example, Prediction
from transduce.evaluation.systems import System, evaluate_model
from transduce.metrics.statistics import statistics
from transduce.metrics.suitability import concerns
from transduce.runs.identity import identity
from transduce.runs.layout import members


def shards_measured(
    trained: RunOptions, corpus: CorpusOptions, measured: MetricOptions, sharded: ShardOptions, transducer: Transducer
) -> tuple[System, list[Example]] | None:
    """Answers the shards without outputs, unless a cluster has done it. Returns the scores and the examples of all;
    None if --shard named one.
    """
    assert corpus.pairs is not None
    assert sharded.out is not None
    name, out, own = str(trained.run), sharded.out, transducer.settings["metrics"]
    shards, grouped = shards_of(corpus.pairs, out, sharded.shard), transducer.settings["data"]["group_references"]
    check_divisible(transducer, measured.metrics(own))

    def answered(shard: Path) -> Iterable[str]:
        examples = corpus.of(shard).read_files(transducer, grouped)
        return predicted(name, transducer, examples, measured.metrics(own), measured.batch_size)

    if sharded.cluster is None:
        settings = asdict(trained) | asdict(measured) | {"device": str(transducer.device)}
        settings["run"] = identity(trained.run, *trained.identity_options)
        write_shards(shards, out, answered, json.loads(json.dumps(settings, default=str)))
    if sharded.shard is not None:
        return None
    every = ((corpus.of(shard).read_files(transducer, grouped), out / shard.name) for shard in shards)
    return measured_together(name, transducer, every, measured.metrics(own))


def check_divisible(transducer: Transducer, metrics: Sequence[Metric]) -> None:
    """Raises UserError if a line's score depends on the lines before it, which may be in another shard."""
    if transducer.context is not None and any(metric.needs_forcing for metric in metrics):
        raise UserError(
            "the model reads the text before a line, which another shard may have: give --context line, or evaluate "
            "one file"
        )


def predicted(
    name: str, transducer: Transducer, examples: Sequence[Example], metrics: Sequence[Metric], batch_size: int
) -> Iterator[str]:
    """Yields a line of JSON for each example: the prediction, and the length of the source in tokens or steps."""
    found = evaluate_model(name, transducer, examples, metrics, batch_size)
    for prediction, length in zip(found.predictions, found.lengths, strict=True):
        yield json.dumps(asdict(prediction) | {"length": length}, ensure_ascii=False)


def measured_together(
    name: str, transducer: Transducer, shards: Iterable[tuple[Sequence[Example], Path]], metrics: Sequence[Metric]
) -> tuple[System, list[Example]]:
    """Measures all shards as one corpus. Returns the system, and the examples in the order of the shards. Each of the
    ``shards`` has its examples and the file with their predictions.

    Raises UserError if a file has more or fewer predictions than its shard has examples, if there is no example, and if
    examples with several references are grouped and a source is in two shards.
    """
    predictions, lengths, examples = list[Prediction](), list[int](), list[Example]()
    homes: dict[tuple[str, str], Path] = {}
    grouped = transducer.settings["data"]["group_references"]
    for own, path in shards:
        lines = read_text(path).split("\n")[:-1]  # splitlines would split inside an output, at U+2028
        if len(lines) != len(own):
            raise UserError(
                f"{path} has {len(lines):,} predictions for {len(own):,} examples: remove it, and repeat the command"
            )
        for table in map(json.loads, lines):
            lengths.append(table.pop("length"))
            predictions.append(Prediction(**table | {"deviations": tuple(table["deviations"])}))
        for example in own if grouped else ():
            home = homes.setdefault((example.source, example.corpus), path)
            if home != path:
                raise UserError(
                    f"the source {example.source[:60]!r} is in the shards {home.name} and {path.name}: put all its "
                    "references into one shard (data.group_references is true)"
                )
        examples += own
    system = System(
        name,
        predictions,
        statistics(metrics, predictions, examples),
        None,
        transducer.target_tokenizer.fingerprint,
        lengths,
        search=transducer.settings.get("search", {}),
        runs=members(name),
        concerns=concerns(metrics, examples, transducer.normalize_target),
    )
    return system, examples
