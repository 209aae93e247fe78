"""The studio in Debian's Firefox, by puppeteer-core and WebDriver BiDi: one walk over all interactions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_kalman import run as gaps  # noqa: F401
from test_serve import language, picture, pictures  # noqa: F401
from test_speech import corpus  # noqa: F401
from test_speech import run as tones  # noqa: F401
from test_studio import models, moods, tags, url  # noqa: F401

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("firefox.cjs")
STEPS = [
    "paragraphs", "confidence", "Other outputs", "Attention", "Search tree", "fold", "Use it from code", "alternatives",
    "swap", "theme and text", "card", "history", "two models", "document", "drop", "clear", "classifier", "tagger",
    "drawing", "picture", "recording", "microphone", "API",
]  # fmt: skip


def test_all_interactions_in_firefox(url: str, corpus: Path, tmp_path: Path) -> None:
    """`npm install puppeteer-core` in a folder, and NODE_PATH=FOLDER/node_modules, are what it needs beside Firefox."""
    firefox, node = shutil.which("firefox-esr"), shutil.which("node")
    if firefox is None or node is None:
        pytest.skip("there is no firefox-esr or no node on this machine")
    found = subprocess.run([node, "-e", "require('puppeteer-core')"], capture_output=True)
    if found.returncode:
        pytest.skip("puppeteer-core is not in NODE_PATH: npm install puppeteer-core")
    (tmp_path / "letter.txt").write_text("abc\n")
    (tmp_path / "mine.png").write_bytes(picture(3))
    shutil.copy(corpus / "test" / "wav" / "1.wav", tmp_path / "tone.wav")
    home = os.environ | {"HOME": str(tmp_path)}  # a profile of its own
    done = subprocess.run([node, SCRIPT, firefox, url, tmp_path], capture_output=True, text=True, timeout=300, env=home)
    assert done.stdout.splitlines() == [*STEPS, "errors [] outside []"], done.stderr
