"""How many protected spans come back, and in the right place? Spans are put into sentences by this program.

PAIRS has the test sentences (a source, a tab, a reference), TRAIN the pairs of the run's training. A word aligner with
fertilities learns from all of them, divided into words and signs, in both directions (grow-diag-final-and). Each
sentence gets spans by random numbers (seed: its number), at places where the alignment of source and reference
decides where they belong: a pair of tags around one to five source words whose links reach a block of the reference
that links to nothing else, by preference a block that stands elsewhere in the order (every third sentence); perhaps a
pair within it; one to three placeholders, addresses or numbers between two words that both have links, some of them
repeated, some two together, some between tags. The reference gets the same spans at the places that the links give.

A span is kept if the output has it, as often as the source. It is right in the model's own output if the links of the
source and the output say so, by the same aligner. A pair of tags encloses the words that link to its old words, and no
others that have a link. Anything else stands beside a word that links to its neighbour in the source, with only words
without links between them. It is right in the reference, which the model reads as if it had written it, if it stands
where this program has put it, words without links apart. Spans of which no neighbour has a link in the output cannot be
judged; their number is in the table. BLEU is of the sentences with each span as one mark, on both sides; of the outputs
without their spans; and of the same sentences without spans.

The second command writes the pairs of a training with marks put into 6 of 10, by the same alignment, as copied units: a
letter of the private area of Unicode for each span, by its number in the sentence, so that any tokenizer has it as a
unit. A run that has learned from them (--learned) reads a mark in the place of each span, and a mark of its output
becomes the span. "Required" also demands every mark, or every span that the vocabulary can spell, of the search
(``Constraints``). The option --catalogue translates the texts of PO files, which have names such as
PACKAGE/locale/de/LC_MESSAGES/django.po, and counts the spans; without --pairs nothing else.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from report import Report, columns, machine, row, titled
from sacrebleu.metrics.bleu import BLEU

import transduce
from transduce import Constraints, Extras, Protection, Request, UserError
from transduce.answers.answer import Output
from transduce.data.corpora import text_lines
from transduce.runs.layout import ALIGNER
from transduce.wings.alignment.corpus import align
from transduce.wings.counted.alignment.training import learn_aligner
from transduce.wings.protection.text import units

ALONE = ["{name}", "%s", "<br/>", "https://x.org/a?b=1", "a@x.org", "{{n}}", "`ls -l`", "12.345,67 €", "17"]
TAGS = [("<b>", "</b>"), ("<i>", "</i>"), ('<a href="https://x.org">', "</a>"), ("<g id='1'>", "</g>")]
MARK = "§"

FIRST_ALONE, FIRST_OPEN, FIRST_CLOSE = 0xE000, 0xE010, 0xE018  # marks of spans, and of the tags of pairs
PAIRS_OF_MARKS = 2

Links = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Put:
    """Spans that were put in: between source words, before the one with the number ``start``; or, for a pair of tags,
    around the words from ``start`` to ``end``.
    """

    texts: tuple[str, ...]
    start: int
    end: int | None = None


@dataclass(frozen=True)
class Case:
    """A sentence and its reference, both without and with spans. ``starts`` has the first characters of the spans of
    each ``Put`` in the source.
    """

    source: str
    reference: str
    put: Sequence[Put]
    marked_source: str
    marked_reference: str
    starts: Sequence[Sequence[int]]
    links: Links  # of the source and the reference


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in units(text)]


class Aligner:
    """Links the units of pairs, by a model that has learned from some pairs."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._model = learn_aligner([self._split(pair) for pair in pairs], "fertility")

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        found = align(self._model, [self._split(pair) for pair in pairs], "grow-diag-final-and").links
        links: list[set[tuple[int, int]]] = [set() for _ in pairs]
        for pair, one, other in zip(found.pair_L, found.source_L, found.target_L, strict=True):
            links[int(pair)].add((int(one), int(other)))
        return [frozenset(each) for each in links]

    @staticmethod
    def _split(pair: tuple[str, str]) -> tuple[str, str]:
        return " ".join(words(pair[0])), " ".join(words(pair[1]))


# ------------------------------------------------------------------ spans are put in


def blocks(links: Links, size: int) -> list[tuple[int, int]]:
    """The stretches of one to five source words, with a link at both ends, whose links reach a stretch of the target
    that links to no other word.
    """
    sources, found = {i for i, _ in links}, []
    for start in sources:
        for end in range(start + 1, min(start + 5, size) + 1):
            to = reached(links, start, end)
            if end - 1 in sources and all(start <= i < end for i, j in links if min(to) <= j <= max(to)):
                found.append((start, end))
    return sorted(found)


def reached(links: Links, start: int, end: int) -> set[int]:
    return {j for i, j in links if start <= i < end}


def moved(block: tuple[int, int], links: Links) -> bool:
    """True if a word before the block in the source is after it in the target, or the reverse."""
    to = reached(links, *block)
    return any((i < block[0] and j > max(to)) or (i >= block[1] and j < min(to)) for i, j in links)


def between(gap: int, links: Links) -> range:
    """The gaps of the target between the words that link to the two neighbours of a source gap; empty unless these
    words are neighbours too, words without links apart.
    """
    left, right = reached(links, gap - 1, gap), reached(links, gap, gap + 1)
    if not left or not right:
        return range(0)
    low, high = max(left) + 1, min(right)
    return range(low, high + 1) if not any(low <= j < high for _, j in links) else range(0)


def beside(gap: int, links: Links, size: int) -> set[int]:
    """The gaps of the target after a word that links to the word before the source gap, or before one that links to the
    word after it; with only words without links between.
    """
    found, filled = set[int](), {j for _, j in links}
    for j in reached(links, gap - 1, gap):
        place = j + 1
        found.add(place)
        while place < size and place not in filled:
            place += 1
            found.add(place)
    for j in reached(links, gap, gap + 1):
        place = j
        found.add(place)
        while place > 0 and place - 1 not in filled:
            place -= 1
            found.add(place)
    return found


def put_spans(number: int, source: str, links: Links) -> list[Put]:
    """The spans for the sentence with this number."""
    draw, tokens, found = random.Random(number), words(source), list[Put]()
    every = [each for each in blocks(links, len(tokens)) if tokens[each[0]].isalnum() and tokens[each[1] - 1].isalnum()]
    if number % 3 == 0 and (some := [each for each in every if moved(each, links)]):
        every = some
    if every:
        outer, tag = draw.choice(every), draw.choice(TAGS)
        found.append(Put(tag, *outer))
        inner = [each for each in every if outer[0] <= each[0] and each[1] <= outer[1] and each != outer]
        if inner and draw.random() < 0.4:
            found.append(Put(draw.choice([each for each in TAGS if each != tag]), *draw.choice(inner)))
    ranges = units(source)
    apart = [source[one[1] : other[0]].isspace() for one, other in itertools.pairwise(ranges)]
    gaps = [gap for gap in range(1, len(tokens)) if apart[gap - 1] and between(gap, links)]
    once = draw.choice(ALONE)
    for _ in range(draw.randint(1, 3)):
        if not gaps:
            break
        gap = gaps.pop(draw.randrange(len(gaps)))
        text = once if draw.random() < 0.3 else draw.choice(ALONE)
        kind = draw.random()
        several = (
            (draw.choice(ALONE[:3]), draw.choice(ALONE[:6]))
            if kind < 0.15
            else ("<u>", text, "</u>")
            if kind < 0.25
            else (text,)
        )
        found.append(Put(several, gap))
    return found


def written(text: str, put: Sequence[Put]) -> tuple[str, list[list[int]]]:
    """A text with the spans, and where they begin. Tags touch the words that they enclose; other spans stand apart."""
    ranges, starts, whole, last = units(text), [list[int]() for _ in put], "", 0
    order = sorted(range(len(put)), key=lambda n: (put[n].end is not None, -(put[n].end or 0)))

    def add(number: int, texts: Sequence[str], after: str) -> None:
        nonlocal whole
        for each in texts:
            starts[number].append(len(whole))
            whole += each
        whole += after

    for place, (start, end) in enumerate(ranges):
        whole += text[last:start]
        for number in order:
            if put[number].start == place:
                alone = put[number].end is None
                add(number, put[number].texts if alone else put[number].texts[:1], " " if alone else "")
        whole, last = whole + text[start:end], end
        for number in reversed(order):
            if put[number].end == place + 1:
                add(number, put[number].texts[1:], "")
    return whole + text[last:], starts


def cases(pairs: Sequence[tuple[str, str]], every: Sequence[Links]) -> Iterator[Case]:
    """A case for each pair in which spans can be put."""
    for number, ((source, reference), links) in enumerate(zip(pairs, every, strict=True)):
        if put := put_spans(number, source, links):
            yield case_of(source, reference, put, links)


def case_of(source: str, reference: str, put: Sequence[Put], links: Links) -> Case:
    target = []
    for each in put:
        if each.end is None:
            target.append(replace(each, start=between(each.start, links)[0]))
        else:
            to = reached(links, each.start, each.end)
            target.append(replace(each, start=min(to), end=max(to) + 1))
    marked, starts = written(source, put)
    return Case(source, reference, put, marked, written(reference, target)[0], starts, links)


# ------------------------------------------------------------------ and looked for


def words_before(text: str, spans: Sequence[Any]) -> list[int]:
    """For each span of an output that is there, how many words are before it, spans apart."""
    plain = list(text)
    for span in spans:
        plain[slice(*span.place)] = " " * (span.place[1] - span.place[0])
    ends = [end for _, end in units("".join(plain))]
    return [sum(end <= span.place[0] for end in ends) for span in spans]


def judged(case: Case, text: str, spans: Sequence[Any], links: Links, strict: bool) -> list[bool | None]:
    """For each ``Put``, whether all its spans are right in an output, whose links with the source are ``links``; None
    if its neighbours have no links. ``strict`` allows only places between the two neighbours.
    """
    there = [span for span in spans if span.place is not None]
    found = {span.span.start: place for span, place in zip(there, words_before(text, there), strict=True)}
    size, verdicts = len(words(text)), list[bool | None]()
    for put, starts in zip(case.put, case.starts, strict=True):
        places = [found.get(start) for start in starts]
        if put.end is None:
            right = {*between(put.start, links)} if strict else beside(put.start, links, size)
            verdicts.append(all(place in right for place in places) if right else None)
        elif to := reached(links, put.start, put.end):
            others = {j for i, j in links if not put.start <= i < put.end}
            ends = [place for place in places if place is not None]
            inside = set(range(*ends)) if len(ends) == len(places) else set[int]()
            verdicts.append(to - others <= inside and not inside & (others - to))
        else:
            verdicts.append(None)
    return verdicts


def one_mark(text: str) -> str:
    """A text with each span as one mark between spaces."""
    whole, last = "", 0
    for span in Protection().read(text).spans:
        whole, last = f"{whole}{text[last : span.start]} {MARK} ", span.end
    return " ".join((whole + text[last:]).split())


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    return float(BLEU().corpus_score(list(outputs), [list(references)]).score)


def kept_share(sources: Sequence[str], outputs: Sequence[str]) -> tuple[int, int]:
    """The number of the sources' spans that the outputs have, by their texts; and the number of the sources' spans."""
    protection, kept, every = Protection(), 0, 0
    for source, output in zip(sources, outputs, strict=True):
        wanted, there = (Counter(span.text for span in protection.read(text).spans) for text in (source, output))
        kept, every = kept + sum((wanted & there).values()), every + sum(wanted.values())
    return kept, every


def measure(
    name: str, outputs: Sequence[Any], forced: Sequence[Any], every: Sequence[Case], judge: Aligner, plain: float
) -> tuple[str, list[str]]:
    """The line of a way in the table, and the errors in its outputs, a case a line."""
    texts = [output.text for output in outputs]
    kept, spans = kept_share([case.marked_source for case in every], texts)
    bare = [bare_text(output, case) for case, output in zip(every, outputs, strict=True)]
    links = judge([(case.source, text) for case, text in zip(every, bare, strict=True)])
    verdicts, wrong = list[bool | None](), list[str]()
    for case, output, link in zip(every, outputs, links, strict=True):
        own = judged(case, output.text, output.spans or (), link, strict=False)
        verdicts += own
        failed = [put for put, right in zip(case.put, own, strict=True) if right is False]
        wrong += [f"{put.texts}: {case.marked_source} => {output.text}" for put in failed]
    in_reference = [
        ok
        for case, output in zip(every, forced, strict=False)
        for ok in judged(case, output.text, output.spans, case.links, strict=True)
    ]
    marked = bleu([one_mark(text) for text in texts], [one_mark(case.marked_reference) for case in every])
    without = bleu(bare, [case.reference for case in every])
    row = (
        f"| {name} | {100 * kept / spans:.2f} | {share(verdicts)} | {verdicts.count(None)} | {share(in_reference)} "
        f"| {marked:.2f} | {without:.2f} | {without - plain:+.2f} |"
    )
    return row, wrong


def bare_text(output: Any, case: Case) -> str:
    """An output without the spans that were put in."""
    text, put_in = output.text, {start for starts in case.starts for start in starts}
    spans = [span for span in output.spans or () if span.place and span.span.start in put_in]
    for span in sorted(spans, key=lambda span: -span.place[0]):
        before, after = text[: span.place[0]], text[span.place[1] :]
        text = before + after if before.endswith(" ") or after[:1] in " .,;:!?" else f"{before} {after}"
    return " ".join(text.split())


def share(verdicts: Sequence[bool | None]) -> str:
    real = [each for each in verdicts if each is not None]
    return f"{100 * sum(real) / max(1, len(real)):.2f}" if real else "–"


# ------------------------------------------------------------------ ways


@dataclass(frozen=True)
class Found:
    """A span of a source and its place in an output; None if it is lost."""

    span: Any
    place: tuple[int, int] | None


@dataclass(frozen=True)
class Written:
    text: str
    spans: Sequence[Found]


def by_alignment(model: transduce.Transducer, every: Sequence[Case], extras: Extras) -> list[Output]:
    return [answer.best for answer in model.answer(Request(case.marked_source, extras=extras) for case in every)]


def forced_outputs(model: transduce.Transducer, every: Sequence[Case], extras: Extras) -> list[Output]:
    """The references with the spans of their sources, placed as if the model had written them."""
    found = list(model.answer([Request(case.source, target=case.reference) for case in every]))
    asked = [Request(case.marked_source, extras=extras) for case in every]
    rows = [source.row for source in model.read([request.text for request in asked])]
    answers = [replace(answer, request=request) for answer, request in zip(found, asked, strict=True)]
    return [answer.best for answer in extras.protect.complete(model, answers, rows, 64)]


def searched(case: Case, text: str) -> Written:
    """An output with the places of the source's spans in it, by their texts, in their order."""
    protection, places = Protection(), dict[str, list[tuple[int, int]]]()
    for span in protection.read(text).spans:
        places.setdefault(span.text, []).append((span.start, span.end))
    spans = protection.read(case.marked_source).spans
    return Written(text, [Found(s, places[s.text].pop(0) if places.get(s.text) else None) for s in spans])


def answered(model: transduce.Transducer, requests: Sequence[Request]) -> list[str]:
    """The best output of each request; empty for one that cannot be answered."""
    return [answer.best.text if answer.outputs else "" for answer in model.answer(requests, tolerant=True)]


def required(model: transduce.Transducer, texts: Sequence[str]) -> Constraints | None:
    """The phrases that the search must write, of those that the vocabulary can spell."""
    phrases = list[str]()
    for text in dict.fromkeys(texts):
        try:
            Constraints([text]).tokenized(model.lexicon)
        except UserError:
            continue
        phrases.append(text)
    return Constraints(phrases) if phrases else None


def by_constraints(model: transduce.Transducer, every: Sequence[Case]) -> list[Written]:
    requests = [
        Request(case.marked_source, constraints=required(model, [text for put in case.put for text in put.texts]))
        for case in every
    ]
    found = answered(model, requests)
    return [searched(case, text) for case, text in zip(every, found, strict=True)]


def with_marks(case: Case) -> tuple[str, dict[str, Any]]:
    """The source with a mark in the place of each span, and the span of each mark."""
    spans = {span.start: span for span in Protection().read(case.marked_source).spans}
    roles, pairs = dict[int, str](), 0
    for put, starts in zip(case.put, case.starts, strict=True):
        if put.end is not None and pairs < PAIRS_OF_MARKS:
            roles |= {starts[0]: chr(FIRST_OPEN + pairs), starts[1]: chr(FIRST_CLOSE + pairs)}
            pairs += 1
    text, last, alone, marks = "", 0, 0, dict[str, Any]()
    for start in sorted(spans):
        mark = roles.get(start, chr(FIRST_ALONE + alone))
        alone += start not in roles
        marks[mark] = spans[start]
        text, last = text + case.marked_source[last:start] + mark, spans[start].end
    return text + case.marked_source[last:], marks


def by_marks(model: transduce.Transducer, every: Sequence[Case], demanded: bool) -> list[Written]:
    """The outputs of a run that has learned to carry marks, with the spans in the places of their marks."""
    marked = [with_marks(case) for case in every]
    requests = [Request(text, constraints=required(model, list(marks)) if demanded else None) for text, marks in marked]
    found = []
    for text, (_, marks) in zip(answered(model, requests), marked, strict=True):
        whole, places = "", dict[str, tuple[int, int]]()
        for letter in text:
            span = marks.get(letter)
            if span is not None and letter not in places:
                places[letter] = len(whole), len(whole) + len(span.text)
                whole += span.text
            elif not FIRST_ALONE <= ord(letter) < FIRST_CLOSE + 8:
                whole += letter
        found.append(Written(whole, [Found(span, places.get(mark)) for mark, span in marks.items()]))
    return found


def write_marked(train: Sequence[tuple[str, str]], path: Path) -> None:
    """Writes the pairs of a training, with marks in 6 of 10."""
    every, lines = Aligner(train)(train), list[str]()
    for number, ((source, target), links) in enumerate(zip(train, every, strict=True)):
        put = [] if random.Random(-number).random() < 0.4 else put_spans(number, source, links)
        if put:
            case = case_of(source, target, put, links)
            one, marks = with_marks(case)
            other = case.marked_reference
            for mark, span in sorted(marks.items(), key=lambda each: -len(each[1].text)):
                other = other.replace(span.text, mark, 1)
            source, target = one, other
        lines.append(f"{source}\t{target}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def kept_in_catalogue(path: Path, model: transduce.Transducer) -> str:
    """A row about the texts of a PO file that have spans: how many of them an output keeps."""
    import polib  # type: ignore[import-untyped, unused-ignore]

    entries = [entry for entry in polib.pofile(str(path)) if entry.msgid and entry.msgstr and not entry.obsolete]
    pairs = [(" ".join(entry.msgstr.split()), " ".join(entry.msgid.split())) for entry in entries]
    protection, extras = Protection(), Extras(protect=True)
    pairs = [pair for pair in pairs if protection.read(pair[0]).spans]
    requests = [Request(source, extras=extras) for source, _ in pairs]
    found = [answer.best for answer in model.answer(requests)]
    kept, spans = kept_share([source for source, _ in pairs], [output.text for output in found])
    lost = sum(len(output.lost) for output in found)
    where, share = "/".join(path.parts[-6:-3]), f"{100 * kept / spans:.2f}" if spans else "–"
    return row([where, f"{len(pairs):,}", f"{spans:,}", f"{kept:,}", share, f"{lost:,}"])


def tell_catalogues(report: Report, paths: Sequence[Path], model: transduce.Transducer) -> None:
    report.tell("", *columns("| texts of | with spans | spans | kept | kept, % | told as lost |"))
    for path in paths:
        report.tell(kept_in_catalogue(path, model))


COLUMNS = (
    "way",
    "kept, %",
    "right in own output, %",
    "not judged",
    "right in the reference, %",
    "BLEU, one mark each",
    "BLEU, spans removed",
    "change",
)


def main(
    report: Report,
    run: Path | None = None,
    *,
    train: Path | None = None,
    pairs: Path | None = None,
    count: int = 300,
    aligner: Annotated[Path | None, "another run, whose aligner is measured, too"] = None,
    learned: Annotated[Path | None, "a run that learned with --write-marks"] = None,
    write_marks: Annotated[Path | None, "write training pairs with marks, and measure nothing"] = None,
    aligned_alone: Annotated[bool, "without the search that must write the spans"] = False,
    catalogue: Annotated[Sequence[Path], "files of gettext"] = (),
    show: Annotated[int, "print this many wrong spans of each way"] = 0,
) -> None:
    if run is not None and pairs is None and catalogue:
        report.tell(*titled("Protected spans in catalogues of messages"), runs=[run])
        tell_catalogues(report, catalogue, transduce.load(run, device="cpu"))
        return
    if train is None:
        raise UserError("give --train TRAIN.tsv, the pairs of the run's training")
    known = read(train)
    if write_marks is not None:
        write_marked(known, write_marks)
        return
    if run is None or pairs is None:
        raise UserError("give RUN and --pairs PAIRS.tsv, or --write-marks FILE.tsv")
    asked = read(pairs)[:count]
    model = transduce.load(run, device="cpu")
    plain_outputs = [outputs[0].text for outputs in model.predict([source for source, _ in asked])]
    further = [(source, output) for (source, _), output in zip(asked, plain_outputs, strict=True)]
    judge = Aligner([*asked, *known, *further])
    every = list(cases(asked, judge(asked)))
    there = {source: output for (source, _), output in zip(asked, plain_outputs, strict=True)}
    plain = bleu([there[case.source] for case in every], [case.reference for case in every])
    spans = sum(len(put.texts) for case in every for put in case.put)
    report.tell(
        "# Protected spans",
        "",
        f"{len(every)} sentences with {spans} spans. BLEU of the run without spans: {plain:.2f}. {machine()}",
        "",
        *columns(row(COLUMNS)),
        runs=[run],
    )

    def tell(name: str, outputs: Sequence[Any], forced: Sequence[Any] = (), before: float = plain) -> None:
        line, wrong = measure(name, outputs, forced, every, judge, before)
        report.tell(line)
        print("\n".join(wrong[:show]), end="\n" * bool(wrong[:show]), flush=True)

    raw = answered(model, [Request(case.marked_source) for case in every])
    tell("none", [searched(case, text) for case, text in zip(every, raw, strict=True)])
    alone, own = replace(model, folder=None), (run / ALIGNER).exists()
    aligned = {
        **({"aligned by the run's word aligner": (model, Extras(protect=True))} if own else {}),
        "aligned by the model": (alone, Extras(protect=True)),
        "aligned by its attention alone": (alone, Extras(protect=True, head=0)),
    }
    if aligner:
        other = transduce.load(aligner, device="cpu")
        aligned["aligned by --aligner"] = (model, Extras(protect=True, aligner=other))
    for name, (by, extras) in aligned.items():
        tell(name, by_alignment(by, every, extras), forced_outputs(by, every, extras))
    if not aligned_alone:
        tell("required of the search", by_constraints(model, every))
    if learned:
        marked = transduce.load(learned, device="cpu")
        texts = answered(marked, [Request(case.source) for case in every])
        before = bleu(texts, [case.reference for case in every])
        report.runs.append(learned)
        tell(f"marks, learned (a run of BLEU {before:.2f})", by_marks(marked, every, False), before=before)
        tell("marks, learned and required", by_marks(marked, every, True), before=before)
    if catalogue:
        tell_catalogues(report, catalogue, model)


def read(path: Path) -> list[tuple[str, str]]:
    return [(one, other) for one, _, other in (line.partition("\t") for line in text_lines(path))]
