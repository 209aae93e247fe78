"""Does a captioning model look at the objects that it names? The pictures are drawn scenes with known boxes of objects.

Measures the words of objects' names ("small", "red", "circle") in the model's own captions. The strongest place of a
word is the place with most attention, averaged over heads and layers. The table has three shares of the words:

- the middle of the strongest place lies in the object's box.
- it lies there, or no further away than the pointing game allows (Zhang et al. 2016).
- it lies in the box if attention is smoothed first, as in Xu et al. 2015.

Named objects that are not in the picture do not count. PAIRS.jsonl is the file that the origin ``scenes`` writes beside
its pictures. The default is the test split of the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean

from PIL import Image
from report import Report, columns, row, titled

import transduce
from transduce.core import config
from transduce.core.errors import UserError
from transduce.data.preparation import locate
from transduce.data.settings import Data
from transduce.runs.layout import Checkpoint
from transduce.runs.run import cache_folder
from transduce.wings.looking.inspection.pointing import Named, pointed
from transduce.wings.looking.inspection.signal_attention import signal_attention

PARTS = ("size", "colour", "shape")
MARGIN = 0.03  # of a picture's side; Zhang et al. allow 15 pixels of 500
SMOOTH = 0.09  # of a picture's side; Xu et al. smooth by 20 pixels of 224


def main(
    report: Report, run: Path, pairs: Path | None = None, *, pictures: int = 500, checkpoint: Checkpoint = "best"
) -> None:
    transducer = transduce.load(run, checkpoint)
    pairs = pairs or test_pairs(transducer.settings, run)
    looked = [(signal_attention(transducer, path), objects) for path, objects in islice(scenes(pairs), pictures)]
    plain, smooth = (
        [word for found, objects in looked for word in pointed(found, objects, deviation)]
        for deviation in (0.0, SMOOTH)
    )
    if not plain:
        raise UserError(f"{run} names no object that is in the pictures of {pairs}: there is nothing to measure")
    report.tell(*titled("Where captions look"), f"{run}, {pairs}", "")
    heads = ["named", "strongest place in its box, %", "or 3 % of a side off, %", "smoothed, in its box, %"]
    report.tell(*columns(row(["word", *heads])))
    for name, wanted in (("all words", PARTS), *((part, (part,)) for part in PARTS)):
        off, off_smooth = ([each.off for each in words if PARTS[each.part] in wanted] for words in (plain, smooth))
        shares = [mean(each <= margin for each in off) for margin in (0.0, MARGIN)]
        shares.append(mean(each == 0 for each in off_smooth))
        report.tell(row([name, f"{len(off):,}", *(f"{100 * share:.1f}" for share in shares)]), runs=[run])


def test_pairs(settings: config.Table, run: Path) -> Path:
    """The manifest of the run's test split."""
    data = config.build(settings["data"], Data, path="data")
    files = locate(data, cache_folder(data, run)).test
    if files is None or files.path is None:
        raise SystemExit(f"{run} has no test split of drawn scenes: name its PAIRS.jsonl")
    return Path(files.path)


def scenes(pairs: Path) -> Iterator[tuple[str, list[Named]]]:
    """Yields the path of each picture and its objects. Boxes are fractions of the picture."""
    for line in pairs.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        path = pairs.parent / record["source"]
        with Image.open(path) as picture:
            sides = (*picture.size, *picture.size)
        yield (
            str(path),
            [
                Named(each["words"], tuple(edge / side for edge, side in zip(each["box"], sides, strict=True)))
                for each in record["objects"]
            ],
        )
