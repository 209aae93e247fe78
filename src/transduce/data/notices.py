"""Notices about files of data that can be read, and are probably not what the user means: a header line that would be
learned, markup that is read as plain text, texts without spaces whose units are separated by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from transduce.core.contents import form, is_table
from transduce.core.text_files import head, reading
from transduce.data.addresses import Address
from transduce.data.cleaning import SIDES, Report
from transduce.data.corpora import Files, Side, Splits, format_of, present
from transduce.data.preparation import Tokenizers
from transduce.data.rows import CorpusRow
from transduce.data.settings import Data
from transduce.data.tokenizers.base import Tokenizer

ROWS = 1000  # rows that are looked at, of the first file of each corpus
VARIANT = re.compile(r"(?<=.)\(\d+\)$")  # the mark of a further variant of a word: "read(2)"
FEWEST = 10  # rows from which units are judged
NAMES = """
    answer category class code date english form forms french gloss german grapheme graphemes id input inflected ipa
    label labels lang language lemma line number output phoneme phonemes phones pos pronunciation question ref reference
    references score segment sense sentence sentence1 sentence2 sentiment source source_text spanish src src_text
    summary tag tags target target_text text text1 text2 tgt tgt_text topic transcription translation trg upos word
    words ar bg ca cs cy da de el en es et eu fa fi fr ga gl he hi hr hu hy id is it ja ka kk ko lt lv mk ms nb nl nn no
    pl pt ro ru sk sl sq sr sv ta th tr uk ur uz vi zh
""".replace("\n", " ")
"""Names that columns have, in lower case, between spaces."""


def told(data: Data, report: Report, tokenizers: Tokenizers) -> list[str]:
    """The lines of a report, with notices about the files that the settings name. The files of an origin have none."""
    found = unspaced(data, tokenizers.both)
    splits = present(Splits(data.train, data.valid, data.test))
    return [
        *report.lines(found),
        *(notice for split, files in splits.items() for notice in notices(data, split, files)),
        *found.values(),
    ]


def notices(data: Data, split: str | None, files: Files) -> Iterator[str]:
    """Yields a line for people about each thing in the first rows of a split's files that a user should check. If
    ``split`` is None, the files are no split of a run, and no setting names their columns.
    """
    for corpus in files.parts:
        shard = corpus.shards[0]
        yield from _forms(shard)
        rows = list(islice(data.rows(shard), ROWS))
        if (cells := header(rows)) is not None:
            yield _header_notice(shard, cells, split)
        if marked := variants(rows):
            yield (
                f"{shard.paths[0]}: {len(marked)} of the first {len(rows):,} sources end with a number in parentheses, "
                f"such as {marked[0]!r}, and occur without it too: if these are variants of one word, give the file "
                "the suffix .dict, for which they have one source"
            )


def _forms(shard: Files) -> Iterator[str]:
    """A notice for each file of plain lines whose content is markup, a document of JSON, or a table. A source may have
    columns, so the name of its file must say that it is a table.
    """
    if shard.path is not None and format_of(shard.path) != "txt":
        return
    for path in shard.paths:
        if isinstance(path, Address) or not path.is_file():
            continue
        with reading(path) as content:
            start = head(content)
        kind = form(start)
        if is_table(start.decode(errors="replace").split("\n")[:-1]) and (
            str(path) != shard.source or path.name.removesuffix(".gz").endswith(".tsv")
        ):
            yield f"{path}: its lines have several columns, and all are read as one text; give a table as path (.tsv)"
        if kind is not None and (not kind.name.startswith("a CSV") or ".csv" in path.name.lower()):
            yield f"{path}: its content is {kind.name}, and its lines are read as plain text; {kind.remedy}"


def header(rows: Sequence[CorpusRow]) -> tuple[str, ...] | None:
    """The cells of the first row, source before target, if they are probably names of columns; otherwise None.

    They are if each cell is a name that columns have, or one of them is and the others are plain words, and no cell
    occurs again in its place.
    """
    if len(rows) < 2 or rows[0].problem is not None or rows[0].number != 1:
        return None
    sides = [[getattr(row, side) for row in rows] for side in SIDES if getattr(rows[0], side) is not None]
    first = tuple(cell.strip() for side in sides for cell in side[0].split("\t"))
    known = [f" {cell.lower().replace(' ', '_')} " in NAMES for cell in first]
    if not (all(known) or (any(known) and all(re.fullmatch(r"[^\W\d]\w*", cell) for cell in first))):
        return None
    again = any(side[0] == text for side in sides for text in side[1:])
    return None if again or len(first) < 2 else first


def variants(rows: Sequence[CorpusRow]) -> list[str]:
    """The sources such as "read(2)" whose word is another source."""
    sources = [row.source for row in rows if row.source]
    words, alone = set(sources), [VARIANT.sub("", source) for source in sources]
    return [source for source, word in zip(sources, alone, strict=True) if word != source and word in words]


def _header_notice(shard: Files, cells: Sequence[str], split: str | None) -> str:
    place, how = shard.place("source", 1), "learned as a pair" if split == "train" else "measured as an example"
    advice = "take the line out"
    if split is not None and shard.path is not None and format_of(shard.path) == "tsv" and len(cells) == 2:
        source, target = cells
        advice = f"""name the columns (--set 'data.columns={{source="{source}", target="{target}"}}'), or {advice}"""
    return f"{place} is probably a header ({', '.join(map(repr, cells))}), and is {how}: {advice}"


def unspaced(data: Data, tokenizers: tuple[Tokenizer, Tokenizer]) -> dict[Side, str]:
    """Notices for sides of the training set whose texts have several characters and are one token each, most of them
    different: their units expect spaces, and the texts have none.
    """
    rows = [] if data.train is None else list(islice(data.rows(data.train.parts[0].shards[0]), ROWS))
    found: dict[Side, str] = {}
    for side, tokenizer in zip(SIDES, tokenizers, strict=True):
        texts = [text for row in rows if (text := getattr(row, side)) and row.problem is None]
        if tokenizer.numeric or len(texts) < FEWEST or tokenizer.labels or len(tokenizer) <= 4:
            continue
        single = [text for text in texts if len(text) > 1 and len(text.split()) == 1]
        if 10 * len(single) < 9 * len(texts) or 2 * len(set(single)) < len(texts):
            continue
        lengths = [tokenizer.length(ids) for ids in tokenizer.encode(single[:100])]
        if all(length <= 1 for length in lengths):
            shown = single[0]
            found[side] = (
                f"warning: each {side} is one token, such as {shown!r}, because its unit expects spaces between "
                f"symbols, as in {' '.join(shown)!r}, so the model cannot learn their parts: set "
                f"data.units.{side}=characters, or put the spaces into the data"
            )
    return found
