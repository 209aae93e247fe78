"""Does a translation model gain from tags, lemmas and morphology beside its source? Our own models make them.

GUM has train.conllu.gz and valid.conllu.gz. ``tagging-hmm`` counts a tagger on its sentences, for parts of speech and
morphology together ("NOUN;Number=Plur"). ``inflection-rules`` counts a lemmatiser, from a form and its tag to its
lemma. Words and punctuation marks of the English captions of Multi30k are divided and tagged, and cut into subwords
(BPE of 4,000 entries). Each piece gets the factors of its word, as in Sennrich and Haddow 2016.

The recipe ``translation-tagged`` translates the captions to German. All systems read the same pieces in the same
batches, so they have equal pairs, target tokens and updates. A piece has 256 features; the factors take some of them.
Parentheses have 95 % intervals by bootstrap over the sentences of test_2016_flickr. The gain is over "words", on the
same resamples. The same command again continues interrupted runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from report import Report, cell, columns, titled

import transduce
from transduce.core.files import write_lines
from transduce.data.corpora import lines, text_lines
from transduce.data.tokenizers.text import Bpe, TextTokenizer
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, mean_of_seeds
from transduce.runs.run import Run
from transduce.wings.recipes.origins.multi30k import Multi30k

SIZE = 4000  # entries of the source's subwords
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
RECIPE = "translation-tagged"
SPLITS = ("train", "valid", "test")
SYSTEMS = {
    "words": ("words", ['data.units.source={type="symbols", minimum_count=2}', "model.encoder.embedding=tokens"]),
    "words, tags, lemmas and morphology": ("factors", []),
}
"""The kind of file and the settings of each system. The last has the settings of the recipe."""

Facts = tuple[str, str, str]
"""The part of speech, the lemma and the morphology of a word."""


# ---------------------------------------------------------------- tags, lemmas


def sentences(file: Path) -> Iterator[list[tuple[str, str, str]]]:
    """Yields the sentences of a CoNLL-U file. A word has its form, lemma and tag, such as "NOUN;Number=Plur"."""
    found: list[tuple[str, str, str]] = []
    for line in (*text_lines(file), ""):
        if not line.strip() and found:
            yield found
            found = []
        elif line and line[0] != "#":
            number, form, lemma, tag, _, features, *_ = line.split("\t")
            if number.isdigit() and " " not in form:
                found.append((form, lemma, tag if features == "_" else f"{tag};{features.replace('|', ';')}"))
    if found:
        yield found


def write_counted_data(gum: Path, runs: Path) -> None:
    """Writes the data of the tagger, SPLIT.tags.tsv, and of the lemmatiser, SPLIT.lemmas.tsv, into ``runs``."""
    for split in ("train", "valid"):
        found = list(sentences(gum / f"{split}.conllu.gz"))
        tagged = [" ".join(form for form, _, _ in each) + "\t" + " ".join(tag for *_, tag in each) for each in found]
        lemmas = {f"{form}\t{tag}\t{lemma}" for each in found for form, lemma, tag in each}
        write_lines(runs / f"{split}.tags.tsv", tagged)
        write_lines(runs / f"{split}.lemmas.tsv", sorted(lemmas))


def counted(recipe: str, name: str, runs: Path, settings: Sequence[str], threads: int) -> transduce.Transducer:
    """The tagger or the lemmatiser. Counts it first if it is not there."""
    data = [f"data.{split}.path={runs}/{split}.{name}.tsv" for split in ("train", "valid")]
    return transduce.train(recipe, runs / name, [*data, *settings], resume=True, device="cpu", threads=threads)


def facts_of_words(
    captions: list[str], tagger: transduce.Transducer, lemmatiser: transduce.Transducer
) -> list[list[Facts]]:
    """The facts of each word of each caption. A word that the lemmatiser does not change is its own lemma."""
    tags = [line.split() for line in tagger(captions)]
    words = [list(zip(line.split(), own, strict=True)) for line, own in zip(captions, tags, strict=True)]
    different = sorted({pair for line in words for pair in line})
    lemmas = dict(zip(different, lemmatiser([f"{tag}\t{word}" for word, tag in different]), strict=True))
    return [[facts(tag, lemmas[word, tag] or word) for word, tag in line] for line in words]


def facts(tag: str, lemma: str) -> Facts:
    """Divides a tag into its part of speech and its morphology, "_" if it has none. No fact has a bar or a space."""
    part, _, features = tag.partition(";")
    return part, "_".join(escaped(lemma).split()) or "_", features or "_"


def escaped(text: str) -> str:
    return text.replace("|", "&#124;")


# ------------------------------------------------------------------------ text


def pieces(cutter: TextTokenizer, line: str, own: Sequence[Facts]) -> list[tuple[str, Facts]]:
    """The subwords of a line, each with the facts of its word."""
    ids = cutter.encode(line.split())
    return [
        (escaped(piece), each)
        for word, each in zip(ids, own, strict=True)
        for piece in cutter.tokens(word[:-1])  # without EOS
    ]


def prepare(gum: Path, runs: Path, folder: str | None, pairs: int, threads: int) -> None:
    """Writes SPLIT.words, SPLIT.factors and SPLIT.de into ``runs``, unless they are there."""
    if all((runs / f"{split}.factors").exists() for split in SPLITS):
        return
    write_counted_data(gum, runs)
    own_target = ["data.units.target=symbols", "model.order=1"]  # "_" is no missing tag here; some 200 tags
    tagger = counted("tagging-hmm", "tags", runs, own_target, threads)
    lemmatiser = counted("inflection-rules", "lemmas", runs, [], threads)
    Multi30k("en", "de", folder).prepare(runs / "multi30k")
    english, german = dict[str, list[str]](), dict[str, list[str]]()
    for split in SPLITS:
        file = runs / "multi30k" / ("test_2016_flickr" if split == "test" else split)
        english[split], german[split] = (
            [line.decode() for line in lines(file.with_suffix(f".{language}"))] for language in ("en", "de")
        )
        english[split] = [" ".join(WORD.findall(line)) for line in english[split]]
    english["train"], german["train"] = english["train"][:pairs], german["train"][:pairs]
    cutter = Bpe(SIZE).learn(english["train"])
    for split in SPLITS:
        found = facts_of_words(english[split], tagger, lemmatiser)
        cut = [pieces(cutter, line, own) for line, own in zip(english[split], found, strict=True)]
        write_lines(runs / f"{split}.de", german[split])
        write_lines(runs / f"{split}.words", [" ".join(piece for piece, _ in line) for line in cut])
        write_lines(
            runs / f"{split}.factors", [" ".join("|".join((piece, *own)) for piece, own in line) for line in cut]
        )


# ---------------------------------------------------------------------- report


def trained(system: str, seed: int, runs: Path, updates: int, threads: int) -> tuple[Path, Statistics]:
    """The run of a system, and its BLEU statistics on test. Trains it first if it is not finished."""
    kind, own = SYSTEMS[system]
    run = runs / f"{kind}-{seed}"
    settings = [f'data.{split}={{source="{runs / split}.{kind}", target="{runs / split}.de"}}' for split in SPLITS]
    settings += [*own, f"training.steps={updates}", f"training.seed={seed}", "training.clock=processor"]
    transducer = transduce.train(RECIPE, run, settings, resume=True, device="cpu", threads=threads)
    return run, transducer.evaluate(Run.open(run).examples("test"), [metric("bleu")]).statistics[0]


def rows(label: str, found: Mapping[str, Statistics]) -> list[str]:
    """The lines of the table for one seed, or for the mean of several."""
    resampling, words = Resampling(), found["words"]
    written = []
    for system, each in found.items():
        drawn = resampling.bootstrap(each)
        gain = "–" if each is words else cell(each.score - words.score, drawn - resampling.bootstrap(words), "+")
        written.append(f"| {label} | {system} | {cell(each.score, drawn)} | {gain} |")
    return written


def main(
    report: Report,
    gum: Path,
    *,
    runs: Path,
    folder: str | None = None,
    pairs: int = 29_000,
    updates: int = 400,
    seeds: Sequence[int] = (1,),
) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    prepare(gum, runs, folder, pairs, report.threads)
    report.tell(*titled("Tags, lemmas and morphology beside the source, Multi30k, English to German"))
    report.tell(f"{updates:,} updates each.", "", *columns("| seed | source | BLEU | gain |"))
    found = dict[str, list[Statistics]]()
    for seed in seeds:
        own = {system: trained(system, seed, runs, updates, report.threads) for system in SYSTEMS}
        report.tell(
            *rows(str(seed), {system: each for system, (_, each) in own.items()}), runs=[run for run, _ in own.values()]
        )
        for system, (_, each) in own.items():
            found.setdefault(system, []).append(each)
    if len(seeds) > 1:
        report.tell(*rows(f"mean of {len(seeds)}", {system: mean_of_seeds(each) for system, each in found.items()}))
