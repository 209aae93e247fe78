"""CTranslate2 by its own Python API. Needs only ctranslate2, without torch.

python -m peers.programs.translator OPTIONS     (JSON; prints its answer as JSON)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any


def translate(translator: Any, rows: Sequence[Sequence[str]], beam: int, batch: int, longest: int) -> None:
    """Translates rows of tokens, ``batch`` at a time. An output has at most ``longest`` tokens with the end."""
    options = {"beam_size": beam, "length_penalty": float(beam > 1), "max_decoding_length": longest - 1}
    parts = [rows] if batch > 1 else [[row] for row in rows]
    for part in parts:
        translator.translate_batch(part, max_batch_size=batch, return_end_token=True, **options)


def main() -> None:
    import ctranslate2

    asked = json.loads(sys.argv[1])
    translator = ctranslate2.Translator(
        asked["folder"], device="cpu", compute_type=asked["precision"], inter_threads=1, intra_threads=asked["threads"]
    )
    with open(asked["sources"], encoding="utf-8") as file:
        rows = json.load(file)
    rates = []
    for beam, batch, count in asked["columns"]:
        translate(translator, rows[: min(batch, 4)], beam, batch, asked["longest"])
        began = time.perf_counter()
        translate(translator, rows[:count], beam, batch, asked["longest"])
        rates.append(min(count, len(rows)) / (time.perf_counter() - began))
    print(json.dumps({"rates": rates}))


if __name__ == "__main__":
    main()
