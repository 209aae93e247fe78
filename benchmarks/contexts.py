"""Compares one decoder with several contexts: a sentence, a bag of words, one word, a label, a picture.

The recipe ``multi30k-de-en-context`` has the same decoder with twice the width. It reads the context at every step,
without attention. Only the encoder and the data change. Each model has the same updates. The contexts:

- ``sentence with attention``: the recipe ``multi30k-de-en-gru``. Its context is not limited to one vector.
- ``sentence``, ``bag of words``, ``one word``: the German caption of Multi30k, or its longest word (the first one of
  several). The output is the English caption.
- ``label``: positive or negative. The output is a sentence of a review. --reviews has mr.train.tsv.gz, mr.valid.tsv.gz
  and mr.test.tsv.gz with a label, a tab and a sentence in each line (Pang and Lee 2005). The recipe ``classification``,
  trained on the same sentences, labels 500 samples for each label.
- ``picture``: the mean of a map of features. The output is a caption, as in ``captions-nlvr``. --pictures has its data.

The column "context of another" gives each example the context of a distant one. So the difference shows how much the
context helps. Less perplexity is better. Parentheses have 95 % intervals by bootstrap over the examples. The same
command again continues an interrupted run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from report import Report, cell, columns, titled

import transduce
from transduce.core.files import write_lines
from transduce.core.types import Example, Prediction
from transduce.data.corpora import Splits, lines
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, statistics
from transduce.runs.run import Run
from transduce.wings.recipes.origins.multi30k import Multi30k

SPLITS = ("train", "valid", "test")
RECIPE = "multi30k-de-en-context"
WIDTH = 256  # of the decoder's state
SMALL = [f"model.decoder.width={WIDTH}", f"model.decoder.embedding_width={WIDTH // 2}", "training.schedule.warmup=100"]
GREEDY = 'search={type="greedy", max_length=60}'
CAPTION = ['data.units={joint={type="unigram", size=4000}}', GREEDY]
SENTENCE = [f"model.encoder.width={WIDTH // 2}", f"model.encoder.embedding_width={WIDTH // 2}"]
BAG = f'model.encoder={{type="bag", width={WIDTH}, dropout=0.2}}'
SAMPLES = 500  # reviews for each label
CLASSIFIER = 500  # updates
CONTEXTS = ("sentence", "bag of words", "one word", "label", "picture", "sentence with attention")
PICTURE = [
    'data.units={source={type="picture", height=32, width=128, channels=3}, target={type="words", lowercase=true}}',
    f'model.encoder={{type="bag", width={WIDTH}, dropout=0.3, embedding={{type="map", height=32, channels=3, '
    'stages=[32, 64], blocks=1, stem=2, positions="learned"}}',
    GREEDY,
    "training.batching.tokens=4096",
]
LABEL = [
    'data.units={source={type="labels", labels=1}, target={type="unigram", size=4000}}',
    f'model.encoder={{type="labels", labels=1, width={WIDTH}}}',
    'training.validation.metrics=["perplexity"]',
    f"search={{type='sampling', size={SAMPLES}, max_length=60}}",
]


@dataclass(frozen=True)
class Context:
    """A row of the table: the run's folder, its recipe and the settings that differ from the recipe."""

    run: Path
    recipe: str
    settings: Sequence[str]

    def trained(self, updates: int, threads: int) -> transduce.Transducer:
        """The model. Trains the run first if it is not finished."""
        settings = [*self.settings, f"training.steps={updates}", "training.validation.times=2"]
        return transduce.train(self.recipe, self.run, settings, resume=True, device="cpu", threads=threads)


def prepared(runs: Path, folder: str | None, reviews: Path, pictures: Path) -> dict[str, Context]:
    """All contexts by name, and the classifier. Writes the files of the single words."""
    captions = sides(Multi30k("de", "en", folder).prepare(runs / "multi30k"))
    data = {
        "sentence": [f'data.{split}={{source="{source}", target="{target}"}}' for split, source, target in captions],
        "word": [
            f'data.{split}={{source="{longest_words(source, runs / split)}", target="{target}"}}'
            for split, source, target in captions
        ],
        "label": [f'data.{split}={{path="{reviews}/mr.{split}.tsv.gz"}}' for split in SPLITS],
        "picture": [
            f'data.origin={{type="picture-archive", folder="{pictures}", text="sentence", where=["label", "true"]}}'
        ],
    }
    sentence = [*data["sentence"], *CAPTION]
    return {
        "sentence with attention": Context(runs / "attention", "multi30k-de-en-gru", [*sentence, *SMALL, *SENTENCE]),
        "sentence": Context(runs / "sentence", RECIPE, [*sentence, *SMALL, *SENTENCE]),
        "bag of words": Context(runs / "bag", RECIPE, [*sentence, *SMALL, BAG]),
        "one word": Context(runs / "word", RECIPE, [*data["word"], *CAPTION, *SMALL, BAG]),
        "label": Context(
            runs / "label", RECIPE, [*data["label"], "data.columns={labels=[0], target=1}", *SMALL, *LABEL]
        ),
        "picture": Context(runs / "picture", RECIPE, [*data["picture"], *SMALL, *PICTURE]),
        "classifier": Context(runs / "classifier", "classification", data["label"]),
    }


def sides(splits: Splits) -> list[tuple[str, Path, Path]]:
    """Each split with the paths of its source and its target."""
    found = [(name, getattr(splits, name)) for name in SPLITS]
    return [(name, Path(str(files.source)), Path(str(files.target))) for name, files in found]


def longest_words(sentences: Path, path: Path) -> Path:
    """Writes the longest word of each sentence."""
    written = path.with_suffix(".word")
    if not written.exists():
        write_lines(written, [max(line.decode().split(), key=len, default="") for line in lines(sentences)])
    return written


def exchanged(examples: Sequence[Example]) -> list[Example]:
    """Gives each example the source of the example half the corpus away, because neighbours may be alike."""
    half = len(examples) // 2
    following = [*examples[half:], *examples[:half]]
    return [replace(example, source=other.source) for example, other in zip(examples, following, strict=True)]


Measures = dict[str, tuple[Statistics, Statistics]]  # by the measure's name: own context, context of another


def captioned(transducer: transduce.Transducer, examples: Sequence[Example], names: Sequence[str]) -> Measures:
    """The statistics of these metrics with each example's own context, and with the context of another example."""
    metrics = [metric(name) for name in names]
    own, other = (transducer.evaluate(each, metrics).statistics for each in (examples, exchanged(examples)))
    return dict(zip(names, zip(own, other, strict=True), strict=True))


def reviewed(writer: transduce.Transducer, reader: transduce.Transducer) -> Measures:
    """The accuracy of the classifier ``reader`` on reviews by ``writer``. The first statistics compare its answers with
    the label that the review was written for, the second ones with the other label.
    """
    labels = ("0", "1")
    written = [[output.text for output in outputs] for outputs in writer.predict(labels)]
    answers = [Prediction(answer) for answer in reader([text for texts in written for text in texts])]
    asked = [Example("", (label,)) for label, texts in zip(labels, written, strict=True) for _ in texts]
    other = asked[SAMPLES:] + asked[:SAMPLES]
    found = [statistics([metric("accuracy")], answers, each)[0] for each in (asked, other)]
    return {"accuracy of a classifier": (found[0], found[1])}


def row(name: str, measure: str, own: Statistics, other: Statistics) -> str:
    """A line of the table. Both contexts have the same resamples."""
    first, second = (Resampling().bootstrap(each) for each in (own, other))
    difference = cell(own.score - other.score, first - second, "+")
    return f"| {name} | {measure} | {cell(own.score, first)} | {cell(other.score, second)} | {difference} |"


def measured(name: str, every: dict[str, Context], updates: int, threads: int) -> Measures:
    """The statistics of one kind of context: with each example's own one, and with the one of another example."""
    transducer, examples = every[name].trained(updates, threads), Run.open(every[name].run).examples("test")
    if name == "label":
        reader = every["classifier"].trained(CLASSIFIER, threads)
        return {**reviewed(transducer, reader), **captioned(transducer, examples, ["perplexity"])}
    return captioned(transducer, examples, ["bleu", "perplexity"])


def real_reviews(reader: transduce.Transducer, run: Path) -> Statistics:
    """The statistics of the accuracy of ``reader`` on the sentences that people wrote."""
    return reader.evaluate(Run.open(run).examples("test"), [metric("accuracy")]).statistics[0]


def main(
    report: Report,
    *,
    runs: Path,
    reviews: Path,
    pictures: Path,
    folder: str | None = None,
    updates: int = 3000,
    contexts: Annotated[Sequence[str], CONTEXTS] = CONTEXTS,
) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    every = prepared(runs.resolve(), folder, reviews.resolve(), pictures.resolve())
    report.tell(*titled("One decoder, several contexts"), f"Each model has {updates:,} updates.", "")
    report.tell(*columns("| context | measure | own context | context of another | difference |"))
    for name in contexts:
        found = measured(name, every, updates, report.threads)
        report.tell(*(row(name, measure, *both) for measure, both in found.items()), runs=[every[name].run])
        if name == "label":
            reader = every["classifier"]
            real = real_reviews(reader.trained(CLASSIFIER, report.threads), reader.run)
            line = f"| reviews by people | accuracy of a classifier | {real.score:.2f} | – | – |"
            report.tell(line, runs=[reader.run])
