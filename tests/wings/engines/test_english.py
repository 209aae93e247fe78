"""The model that comes with the engine: the pronunciation of English words."""

from __future__ import annotations

import subprocess
import sys

from test_engine_file import needs_engine

from transduce_engine import ENGLISH, load

pytestmark = needs_engine

PRONOUNCED = {"knowledge": "N AA L IH JH", "transduction": "T R AE N S D AH K SH AH N", "Gribbly": "G R IH B L IY"}


def test_the_command_without_a_file_pronounces_english_words() -> None:
    lines = "".join(f"{word.lower()}\n" for word in PRONOUNCED).encode()
    done = subprocess.run([sys.executable, "-m", "transduce_engine"], input=lines, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == list(PRONOUNCED.values())
    assert not done.stderr


def test_it_is_small_and_says_what_it_is() -> None:
    assert ENGLISH.stat().st_size <= 8_000_000
    assert load(ENGLISH).note("card").startswith("# english\n")


def test_a_letter_that_it_does_not_know_is_told() -> None:
    (answer,) = load(ENGLISH).answer(["straße"])
    assert answer.warnings(1)
