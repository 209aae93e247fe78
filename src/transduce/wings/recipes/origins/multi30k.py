"""Multi30k, from its public repository or a local copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

from transduce.core.files import write_lines
from transduce.data.base import SPLITS
from transduce.data.corpora import DataError, Files, Splits
from transduce.wings.recipes.origins.published import Published

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
Language = Literal["de", "en", "fr"]
LANGUAGES = get_args(Language)
SUMS = {
    "train.de": "550c2612c7ae45ed46754e67c3011fde500b1bf88592a376e2ed6126903766f7",
    "train.en": "f7cb7c7d411f6039a15de94de8c4d1709fada7b7474791598fd18451ec62427d",
    "train.fr": "87fd0969fd5d58acc23d2b8d024261df5177e1120c65b54011ca634736dcd661",
    "valid.de": "c02c1d05fb89dba12b00503a2744b1105d45fef287501fd701b4fea5b1fca3e5",
    "valid.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "valid.fr": "3a61fe933a20608d6102b5d94dd0870ce8502d1cbec73511afff489ddab0c756",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.fr": "dd64ea1883b68f55c887118839b434edc68b1dae3be6064c3bd5ab38033ddc6b",
}
"""SHA-256 of each file's text, after runs of whitespace have become one space."""


@dataclass(frozen=True)
class Multi30k:
    """Captions of photographs and their translations (Elliott et al. 2016), task 1, untokenised, from GitHub. The test
    set is test_2016_flickr.

    ``folder`` holds a local copy that replaces the download: train.de.gz, valid.de.gz or val.de.gz,
    test_2016_flickr.de.gz and so on, plain or gzipped. Runs of white space become one space. The checksums of the
    result are checked.
    """

    source: Language = "de"
    target: Language = "en"
    folder: str | None = None

    def prepare(self, folder: Path) -> Splits:
        splits = []
        for split in ("train", "valid", "test_2016_flickr"):
            paths = [folder / f"{split}.{language}" for language in (self.source, self.target)]
            for path in paths:
                if not path.exists():
                    write_lines(path, published(path.name).lines(self.folder))
            splits.append(Files(source=str(paths[0]), target=str(paths[1])))
        return Splits(*splits)


@dataclass(frozen=True)
class Multi30kDirections:
    """Multi30k in several directions of translation, each a corpus of its own, named as in ``directions`` ("de-en").

    The target's language stands before each source as a tag: "__en__ Ein Hund" (Johnson et al. 2017). ``folder`` has
    the meaning that it has in ``Multi30k``. Raises DataError for a direction that does not exist.
    """

    directions: tuple[str, ...] = ("de-en", "de-fr", "en-de", "en-fr", "fr-de", "fr-en")
    folder: str | None = None

    def __post_init__(self) -> None:
        for direction in self.directions:
            source, _, target = direction.partition("-")
            if source == target or not {source, target} <= {*LANGUAGES}:
                raise DataError(f"directions: {direction!r}: expected two of {', '.join(LANGUAGES)}, such as 'de-en'")
        if not self.directions:
            raise DataError("directions = []: at least one direction was expected, such as 'de-en'")

    def prepare(self, folder: Path) -> Splits:
        brought = {}
        for direction in self.directions:
            source, target = cast(list[Language], direction.split("-"))
            brought[direction] = Multi30k(source, target, self.folder).prepare(folder)
        return Splits(*(self._joined(brought, split) for split in SPLITS))

    def _joined(self, brought: dict[str, Splits], split: str) -> Files:
        corpora = [
            replace(getattr(splits, split), tag=f"__{direction.split('-')[1]}__", name=direction)
            for direction, splits in brought.items()
        ]
        return Files(corpora=tuple(corpora))


def published(name: str) -> Published:
    """The published file for the local name ``name``, such as "train.de". The repository's names have "val" where ours
    have "valid".
    """
    original = name.replace("valid.", "val.")
    return Published("Multi30k", name, f"{MULTI30K}/{original}.gz", SUMS[name], (name, original))
