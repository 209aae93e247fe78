"""Sets that are made of the shared data: the files train, valid and test of a task."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from transduce.data.base import SPLITS

Lines = dict[str, list[str]]


def _read(path: Path) -> list[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def topics(data: Path) -> Lines:
    """The topic of a dialogue by one of its turns: every tenth turn for training, of at least four words."""

    def of(split: str, every: int) -> list[str]:
        rows = (line.split("\t") for line in _read(data / "dialogue_self" / f"{split}.tsv.gz")[::every])
        return [f"{row[0]}\t{row[3]}" for row in rows if len(row[3].split()) >= 4]

    return {"train": of("train", 10), "valid": of("valid", 5), "test": of("test", 3)}


def replies(data: Path) -> Lines:
    """Does a turn follow another one, or is it of another dialogue?"""

    def of(split: str, every: int) -> list[str]:
        rows = [line.split("\t") for line in _read(data / "dialogue_self" / f"{split}.tsv.gz")[::every]]
        draw = random.Random(split)
        pairs = [(row[3], row[4], "yes") for row in rows[::2]]
        pairs += [(row[3], draw.choice(rows)[4], "no") for row in rows[1::2]]
        return [f"0\t{one}\t{other}\t0\t{label}" for one, other, label in pairs]

    return {"train": of("train", 10), "valid": of("valid", 5), "test": of("test", 3)}


def easier(data: Path) -> Lines:
    """Which of two sentences is the easier one?"""

    def of(split: str) -> Iterator[str]:
        draw = random.Random(split)
        for levels in ("adv_to_ele", "adv_to_int", "int_to_ele"):
            for line in _read(data / "simplify_onestop" / f"{levels}.{split}.tsv.gz"):
                harder, simple = line.split("\t")
                if harder != simple:
                    both = (harder, simple) if (second := draw.random() < 0.5) else (simple, harder)
                    yield "\t".join(["0", *both, "0", "second" if second else "first"])

    return {split: list(of(split)) for split in SPLITS}


def chunks(data: Path, test: str = "test") -> Lines:
    """Noun phrases without others inside, as B-NP and I-NP, of the trees of GUM."""
    names = {"train": "train", "valid": "valid", "test": test}
    return {
        split: [line for tree in _read(data / "gum" / f"{name}.trees.gz") for line in [*chunked(tree), ""]]
        for split, name in names.items()
    }


def chunked(tree: str) -> list[str]:
    """The words of a tree in brackets, each with a tab and its tag."""
    words: list[str] = []
    tags: list[str] = []
    opened: list[tuple[str, int, bool]] = []  # label, first word, and whether a noun phrase is inside
    for part in tree.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            opened.append(("", len(words), False))
        elif part == ")":
            label, first, inside = opened.pop()
            if label.startswith("NP") and not inside:
                tags[first:] = ["B-NP", *["I-NP"] * (len(words) - first - 1)]
            if opened and (inside or label.startswith("NP")):
                opened[-1] = (*opened[-1][:2], True)
        elif not opened[-1][0]:
            opened[-1] = (part, *opened[-1][1:])
        else:
            words.append(part)
            tags.append("O")
    return [f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)]


def genres(data: Path) -> Lines:
    """Chunks, tested on the other genres of GENTLE."""
    return chunks(data, "test2")


def titles(data: Path) -> Lines:
    """The title of a paper as the summary of its abstract."""
    rows = {split: map(json.loads, _read(data / "summ_scitldr" / f"{split}.jsonl.gz")) for split in SPLITS}
    return {
        split: [json.dumps({"source": " ".join(row["source"]), "target": row["title"]}) for row in of if row["title"]]
        for split, of in rows.items()
    }


def novel(data: Path) -> Lines:
    """War and Peace; words that training has once are <unk>."""
    return _closed({split: _read(data / "lm_warpeace" / f"{split}.txt.gz") for split in SPLITS})


def speeches(data: Path) -> Lines:
    """Public speeches, Genesis and plays, in parts of 40 words; words that training has once are <unk>."""
    words = [line.split() for line in _read(data / "text_publicdomain" / "text.txt.gz")]
    parts = [" ".join(line[at : at + 40]) for line in words for at in range(0, len(line), 40)]
    held = {"valid": parts[0::20], "test": parts[10::20]}
    return _closed({"train": [part for at, part in enumerate(parts) if at % 10], **held})


def _closed(lines: Lines) -> Lines:
    counts = Counter(word for line in lines["train"] for word in line.lower().split())
    return {
        split: [
            " ".join(word if counts[word] > 1 else "<unk>" for word in line.lower().split())
            for line in some
            if line.strip()
        ]
        for split, some in lines.items()
    }


def shorter(*levels: str) -> Callable[[Path], Lines]:
    """Compressions of OneStopEnglish: pairs whose easier sentence is the other one without some words."""

    def of(data: Path) -> Lines:
        from compression import compressions

        folder = data / "simplify_onestop"
        files = {split: [folder / f"{level}.{split}.tsv.gz" for level in levels] for split in map(str, SPLITS)}
        return {split: [f"{one}\t{other}" for one, other in pairs] for split, pairs in compressions(files).items()}

    return of


def accents(language: str, test: str) -> Callable[[Path], Lines]:
    """Captions of Multi30k with and without accents."""

    def of(data: Path) -> Lines:
        import unicodedata

        from transduce.wings.recipes.origins.accents import without_accents

        names = {"train": "train", "valid": "valid", "test": test}
        texts = {
            split: [unicodedata.normalize("NFC", line) for line in _read(data / "multi30k" / f"{name}.{language}.gz")]
            for split, name in names.items()
        }
        return {split: [f"{without_accents(line)}\t{line}" for line in some] for split, some in texts.items()}

    return of


MADE: dict[str, tuple[str, Callable[[Path], Lines]]] = {
    "topics": (".tsv", topics),
    "replies": (".tsv", replies),
    "easier": (".tsv", easier),
    "chunks": (".conll", chunks),
    "genres": (".conll", genres),
    "titles": (".jsonl", titles),
    "novel": (".txt", novel),
    "speeches": (".txt", speeches),
    "french-2017": (".tsv", accents("fr", "test_2017_flickr")),
    "german-2017": (".tsv", accents("de", "test_2017_flickr")),
    "coco": (".tsv", accents("fr", "test_2017_mscoco")),
    "all": (".tsv", shorter("adv_to_ele", "adv_to_int", "int_to_ele")),
    "adv_to_ele": (".tsv", shorter("adv_to_ele")),
    "adv_to_int": (".tsv", shorter("adv_to_int")),
    "int_to_ele": (".tsv", shorter("int_to_ele")),
}
"""For each made set the ending of its files, and the function that makes their lines."""


def make(name: str, data: Path, folder: Path) -> list[str]:
    """Writes the files of a made set into ``folder``, and returns the settings that name them."""
    ending, lines = MADE[name]
    folder.mkdir(parents=True, exist_ok=True)
    settings = []
    for split, some in lines(data).items():
        path = folder / f"{split}{ending}"
        _write(path, some)
        settings.append(f"data.{split}.path={path}")
    return settings


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # an equal file keeps the prepared data
        path.write_text(text, encoding="utf-8")
