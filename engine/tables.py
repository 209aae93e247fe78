"""Writes src/unicode.inc: what the engine knows of Unicode, read from the library ``tokenizers``, so that both
normalise, lower and cut text in the same way. After an update of this library run ``python engine/tables.py`` again.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

EVERY = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # they are computed
NFD, NFC, NFKD = (each.normalize_str for each in (normalizers.NFD(), normalizers.NFC(), normalizers.NFKD()))


def changes(change: Callable[[str], str], others: Callable[[str], str] | None = None) -> dict[int, list[int]]:
    """What each character becomes, of those that change, and that change in another way than by ``others``."""
    found = {}
    for c in EVERY:
        if ord(c) not in HANGUL and (new := change(c)) != (c if others is None else others(c)):
            found[ord(c)] = [ord(each) for each in new]
    return found


def combining_classes() -> dict[int, int]:
    """The class of each mark. If Python does not know a mark, the library tells by its order beside others."""
    known = {unicodedata.combining(c): c for c in EVERY if unicodedata.combining(c)}
    first = known[min(known)]
    found = {}
    for c in EVERY:
        if own := unicodedata.combining(c):
            found[ord(c)] = own
        elif unicodedata.category(c) == "Cn" and NFD(known[240] + c) == c + known[240]:
            # the largest class that stays before the mark
            found[ord(c)] = max((n for n, mark in known.items() if NFD(mark + c) == mark + c), default=ord(first))
    return found


def pairs(decomposed: dict[int, list[int]]) -> list[tuple[int, int, int]]:
    """The pairs of characters that become one: (first, second, one), sorted."""
    found = []
    for c, parts in decomposed.items():
        if len(parts) > 1 and NFC(chr(c)) == chr(c):
            front = NFC("".join(map(chr, parts[:-1])))
            if len(front) == 1 and NFC(front + chr(parts[-1])) == chr(c):
                found.append((ord(front), parts[-1], c))
    return sorted(found)


def spans(kept: Iterable[int]) -> list[tuple[int, int]]:
    """The runs of numbers, each with its first and its last."""
    runs = [[n for _, n in group] for _, group in groupby(enumerate(sorted(kept)), lambda each: each[1] - each[0])]
    return [(run[0], run[-1]) for run in runs]


def letters() -> list[int]:
    """The characters that are part of a word."""
    cut = pre_tokenizers.Split(Regex(r"\w+"), "removed")
    return [ord(c) for c in EVERY if not cut.pre_tokenize_str(c)]


def spaces() -> list[int]:
    cut = pre_tokenizers.WhitespaceSplit()
    return [ord(c) for c in EVERY if not cut.pre_tokenize_str(c)]


def shapes() -> list[str]:
    """Tables of capitals, of other letters that have a case, and of digits, as Python has them."""
    kinds = {
        "CAPITALS": str.isupper,
        "SMALL": lambda c: c.islower() or (c.istitle() and not c.isupper()),
        "DIGITS": str.isdigit,
    }
    return [
        array(f"static const Span {name}[]", [f"{{{a},{b}}}" for a, b in spans(ord(c) for c in EVERY if fits(c))])
        for name, fits in kinds.items()
    ]


def mappings(name: str, found: dict[int, list[int]]) -> list[str]:
    """A table from each character to a place and a count in a pool of characters."""
    pool: list[int] = []
    rows = []
    for c, new in sorted(found.items()):
        rows.append(f"{{{c},{len(pool)},{len(new)}}}")
        pool += new
    return [array(f"static const Mapping {name}[]", rows), array(f"static const uint32_t {name}_POOL[]", pool)]


def array(declared: str, items: Sequence[object]) -> str:
    lines, line = [], ""
    for text in map(str, items):
        if len(line) + len(text) > 115:
            lines.append(line)
            line = ""
        line += text + ","
    return "\n".join([f"{declared} = {{", *lines, line, "};"])


def main() -> None:
    decomposed = changes(NFD)
    tables = [
        "// Tables of Unicode. engine/tables.py writes this file: change nothing here.",
        *mappings("CANONICAL", decomposed),
        *mappings("COMPATIBLE", changes(NFKD, NFD)),
        *mappings("LOWER", changes(normalizers.Lowercase().normalize_str)),
        array("static const Pair PAIRS[]", [f"{{{a},{b},{c}}}" for a, b, c in pairs(decomposed)]),
        array("static const Class CLASSES[]", [f"{{{c},{n}}}" for c, n in sorted(combining_classes().items())]),
        array("static const Span LETTERS[]", [f"{{{a},{b}}}" for a, b in spans(letters())]),
        array("static const Span SPACES[]", [f"{{{a},{b}}}" for a, b in spans(spaces())]),
        *shapes(),
    ]
    (Path(__file__).parent / "src" / "unicode.inc").write_text("\n".join(tables) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
