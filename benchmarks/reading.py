"""Short answers from a passage: questions that are made of parsed texts, and two methods without a model.

FOLDER gets train.tsv, valid.tsv and test.tsv of the CoNLL-U files in GUM, which has Universal Dependencies: a question,
a passage and an answer on each line. A passage is four sentences of a document that stand side by side. A sentence of
the passage gives a question about its main verb, with the verb's lemma as people ask:

    Results show a clear trend in May .
    what show a clear trend ?                       its subject
    what do Results show ?                          its object
    when or where do Results show a clear trend ?   a phrase with a preposition, which the question does not name

Answers are at most eight words, and no pronouns. A question about a subject has the object, or else the phrase with a
preposition. The verb "be" gives no questions. Rules make the questions, so the figures say little about questions that
people ask. `transduce train answers` reads the files.

RUN is such a run. It answers the test questions beside two methods without a model. "nearest sentence" takes a stretch
of words that the question does not have, of the sentence that has most of the question's words, each weighed by how
rare it is in training. The longest, the first and the last stretch are tried on valid. "a phrase" takes the longest
stretch of any sentence. "exact" is the share of answers that are the reference word by word. "F1" is the mean over
questions of the F1 of words. Parentheses have 95 % intervals by bootstrap over the questions.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from report import Report, cell, columns, row, titled

import transduce
from transduce.core.errors import UserError
from transduce.core.files import write_lines
from transduce.data.corpora import text_lines
from transduce.metrics.base import metric
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics

SPLITS = ("train", "valid", "test")
SENTENCES = 4  # of a passage
LONGEST = 8  # words of a subject or an object
OBJECTS, SUBJECTS = ("obj",), ("nsubj", "nsubj:pass")
PHRASES = ("obl", "obl:tmod")
HELPING = ("aux", "aux:pass", "cop")
_WORD = re.compile(r"\w")
_ARTICLES = {"a", "an", "the"}


@dataclass(frozen=True)
class Word:
    form: str
    lemma: str
    tag: str
    head: int  # the place in its sentence, from 0; -1 for the root
    relation: str


Sentence = list[Word]
Question = tuple[str, str, str]
"""A question, its passage and its answer."""


def documents(file: Path) -> Iterator[list[Sentence]]:
    """Yields the sentences of each document of a CoNLL-U file."""
    document: list[Sentence] = []
    sentence: Sentence = []
    for line in (*text_lines(file), ""):
        if line.startswith("# newdoc") and document:
            yield document
            document = []
        elif not line.strip() and sentence:
            document.append(sentence)
            sentence = []
        elif line and line[0] != "#":
            number, form, lemma, tag, _, _, head, relation, *_ = line.split("\t")
            if number.isdigit():  # neither the words of a contraction together, nor a word that is left out
                sentence.append(Word(form.replace(" ", ""), lemma, tag, int(head) - 1, relation))
    if document:
        yield document


def phrase(sentence: Sentence, head: int) -> list[int]:
    """The places of a word and all that depends on it, without punctuation marks at its ends. Empty if the places are
    not side by side.
    """
    places = {head}
    while more := {place for place, word in enumerate(sentence) if word.head in places} - places:
        places |= more
    found = sorted(places)
    while found and sentence[found[0]].tag == "PUNCT":
        found.pop(0)
    while found and sentence[found[-1]].tag == "PUNCT":
        found.pop()
    return found if found and found[-1] - found[0] == len(found) - 1 else []


def questions(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Yields the questions about a sentence with their answers, if its main word is a verb."""
    root = next((place for place, word in enumerate(sentence) if word.head == -1), None)
    if root is None or sentence[root].tag != "VERB" or sentence[root].lemma == "be":
        return
    found: dict[str, list[int]] = {}
    for name, relations in (("subject", SUBJECTS), ("object", OBJECTS), ("other", PHRASES)):
        heads = [place for place, word in enumerate(sentence) if word.head == root and word.relation in relations]
        found[name] = phrase(sentence, heads[0]) if heads else []
    helping = [word.form for word in sentence if word.head == root and word.relation in HELPING]
    verb = sentence[root].lemma

    def words(name: str) -> list[str]:
        return [sentence[place].form for place in found[name]]

    def answers(name: str) -> bool:
        places = found[name]
        return 0 < len(places) <= LONGEST and not (len(places) == 1 and sentence[places[0]].tag == "PRON")

    rest = words("object") or words("other")
    if answers("subject") and 0 < len(rest) <= LONGEST:
        yield " ".join(["what", *helping, verb, *rest, "?"]), " ".join(words("subject"))
    if found["subject"] and answers("object"):
        yield " ".join(["what do", *words("subject"), *helping, verb, "?"]), " ".join(words("object"))
    if found["subject"] and answers("other") and sentence[found["other"][0]].tag == "ADP":
        asked = ["when or where do", *words("subject"), *helping, verb, *words("object"), "?"]
        yield " ".join(asked), " ".join(words("other"))


def made(file: Path, drawn: random.Random) -> list[Question]:
    """The questions about the documents of a file. The place of a sentence in its passage is drawn."""
    found: list[Question] = []
    for document in documents(file):
        for place, sentence in enumerate(document):
            last = max(0, len(document) - SENTENCES)
            first = min(last, max(0, place - drawn.randrange(SENTENCES)))
            passage = " ".join(word.form for each in document[first : first + SENTENCES] for word in each)
            found += [(question, passage, answer) for question, answer in questions(sentence)]
    return found


# ------------------------------------------------------------------- methods


def stretches(sentence: Sequence[str], question: set[str]) -> list[list[str]]:
    """The stretches of words that the question does not have, between its words and punctuation marks."""
    found: list[list[str]] = [[]]
    for word in sentence:
        if word.lower() in question or not _WORD.search(word):
            found.append([])
        else:
            found[-1].append(word)
    return [each for each in found if each]


def divided(passage: str) -> list[list[str]]:
    """The words of each sentence of a passage, which ends at ".", "!" or "?"."""
    found: list[list[str]] = [[]]
    for word in passage.split():
        found[-1].append(word)
        if word in (".", "!", "?"):
            found.append([])
    return [each for each in found if each]


CHOICES = {
    "longest": lambda some: max(some, key=len),
    "first": lambda some: some[0],
    "last": lambda some: some[-1],
}


def nearest(asked: Question, rarity: Mapping[str, float], choice: str) -> str:
    """A stretch of the sentence that has most of the question's words."""
    question = {word.lower() for word in asked[0].split()}
    unseen = max(rarity.values())

    def shared(sentence: Sequence[str]) -> float:
        return sum(rarity.get(word, unseen) for word in {each.lower() for each in sentence} & question)

    ordered = sorted(divided(asked[1]), key=shared, reverse=True)
    return next((" ".join(CHOICES[choice](some)) for each in ordered if (some := stretches(each, question))), "")


def any_phrase(asked: Question) -> str:
    """The longest stretch of the passage without a word of the question."""
    question = {word.lower() for word in asked[0].split()}
    longest = max([*stretches(asked[1].split(), question), []], key=len)
    return " ".join(longest)


def rarities(asked: Iterable[Question]) -> dict[str, float]:
    """-log of the share of passages that have a word, in lower case."""
    passages = dict.fromkeys(passage for _, passage, _ in asked)
    counts = Counter(word for passage in passages for word in {each.lower() for each in passage.split()})
    return {word: math.log(len(passages) / count) for word, count in counts.items()}


# ------------------------------------------------------------------- figures


def f1(answer: str, reference: str) -> float:
    """The F1 of two answers' words, without regard to case, order, articles and punctuation marks, in [0, 1]."""
    one, other = (
        Counter(word for word in text.lower().split() if _WORD.search(word) and word not in _ARTICLES)
        for text in (answer, reference)
    )
    words = one.total() + other.total()
    return 2 * (one & other).total() / words if words else float(answer == reference)


def measured(answers: Sequence[str], asked: Sequence[Question]) -> list[Statistics]:
    """The exact answers and the F1 of words, as means over questions."""
    pairs = [(answer, reference) for answer, (_, _, reference) in zip(answers, asked, strict=True)]
    scores = [(float(one == other) for one, other in pairs), (f1(one, other) for one, other in pairs)]
    return [Statistics(metric("accuracy"), np.array([(score, 1.0) for score in each])) for each in scores]


def shown(system: str, answers: Sequence[str], asked: Sequence[Question], ours: Sequence[Statistics] | None) -> str:
    """The row of a system, with what ``ours`` has more, on the same resamples."""
    resampling, cells = Resampling(), [system]
    for place, own in enumerate(measured(answers, asked)):
        drawn = resampling.bootstrap(own)
        cells.append(cell(own.score, drawn))
        if ours is not None:
            cells.append(cell(ours[place].score - own.score, resampling.bootstrap(ours[place]) - drawn, "+"))
        else:
            cells.append("–")
    return row(cells)


def read(file: Path) -> list[Question]:
    found = [tuple(line.split("\t")) for line in text_lines(file)]
    return [(question, passage, answer) for question, passage, answer in found]


def main(report: Report, folder: Path, *, gum: Path | None = None, run: Path | None = None) -> None:
    if gum:
        folder.mkdir(parents=True, exist_ok=True)
        for split in SPLITS:
            lines = ["\t".join(each) for each in made(gum / f"{split}.conllu.gz", random.Random(1))]
            write_lines(folder / f"{split}.tsv", lines)
            print(f"{split}: {len(lines):,} questions")
    if run is None:
        return
    if not (folder / "test.tsv").exists():
        raise UserError(f"{folder} has no questions: write them first with --gum FOLDER")
    asked = {split: read(folder / f"{split}.tsv") for split in SPLITS}
    rarity = rarities(asked["train"])

    def right(choice: str) -> float:
        valid = asked["valid"]
        return measured([nearest(each, rarity, choice) for each in valid], valid)[0].score

    choice = max(CHOICES, key=right)
    model, test = transduce.load(run, device="cpu"), asked["test"]
    ours = [outputs[0].text for outputs in model.predict([f"{question}\t{passage}" for question, passage, _ in test])]
    systems = {
        f"nearest sentence, its {choice} stretch": [nearest(each, rarity, choice) for each in test],
        "a phrase, the longest stretch": [any_phrase(each) for each in test],
    }
    counts = ", ".join(f"{len(some):,} for {split}" for split, some in asked.items())
    report.tell(*titled("Short answers from a passage"), f"Questions: {counts}.", "")
    report.tell(*columns("| system | exact | ours has more | F1 | ours has more |"), runs=[run])
    report.tell(shown("answers", ours, test, None), runs=[run])
    for system, answers in systems.items():
        report.tell(shown(system, answers, test, measured(ours, test)))
    for place in range(0, len(test), max(1, len(test) // 8)):
        print(f"{test[place][0]}\n  reference: {test[place][2]}\n  ours: {ours[place]}")
