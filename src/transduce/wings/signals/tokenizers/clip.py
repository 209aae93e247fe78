"""Clips, frame by frame. S frames, C channels, H rows and W columns of pixels.

A step has D = C * H * W numbers. Number (c * H + y) * W + x is the pixel of channel c in row y, column x.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from transduce.data.corpora import DataError
from transduce.data.tokenizers.signal_files import SignalError, Steps
from transduce.wings.signals.tokenizers.picture import LARGEST, check_size, opened, resized
from transduce.wings.signals.tokenizers.tokenizer import SignalTokenizer, learned

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Clip:
    """Clips: a GIF, WebP or PNG with several frames, or a folder of pictures, one a frame, sorted by name. Subfolders,
    and files whose name begins with ".", do not count.

    Every ``every``-th frame is read, starting with the first, and resized to ``height`` and ``width``. Pixels,
    ``channels`` and the ``normalisation`` are as in ``picture``; "clip" normalises by the clip's own mean and
    deviation. Lengths count the frames that are read. A clip with more than ``frames`` frames (before ``every``) is
    unreadable. So is one in which a frame that is read has more than ``pixels`` pixels, before or after resizing.
    Raises DataError for a value that is not allowed.
    """

    height: int = 32
    width: int = 32
    channels: Literal[1, 3] = 1
    every: int = 1
    normalisation: Literal["clip", "corpus", "none"] = "none"
    frames: int = 1000
    pixels: int = LARGEST

    signal = True
    tokenizer = SignalTokenizer
    spectral = False
    bands = False

    def __post_init__(self) -> None:
        check_size(self.height, self.width, self.channels)
        if self.normalisation not in ("clip", "corpus", "none"):
            raise DataError(f'normalisation = "{self.normalisation}": expected "clip", "corpus" or "none"')
        for name in ("every", "frames"):
            if getattr(self, name) < 1:
                raise DataError(f"{name} = {getattr(self, name)}: expected at least 1")

    def learn(self, texts: Iterable[str]) -> SignalTokenizer:
        return learned(self, texts)

    @property
    def size(self) -> int:
        """The count of numbers of a channel in a step: the pixels of a frame."""
        return self.height * self.width

    def read(self, path: str) -> Steps:
        """The clip in a file or folder, [S, C * H * W], not normalised. Raises SignalError if it is unreadable."""
        steps = self._of_folder(path) if os.path.isdir(path) else self._of_file(path)
        return np.stack(steps)

    def place(self, step: int) -> str:
        return f"frame {step * self.every}"

    def _of_folder(self, path: str) -> list[Steps]:
        files = sorted(each for each in Path(path).iterdir() if each.is_file() and not each.name.startswith("."))
        if not files:
            raise SignalError(path, "is a folder without pictures")
        self._check(len(files), path)
        steps = []
        for file in files[:: self.every]:
            with opened(str(file)) as image:
                steps.append(self._step(image, str(file)))
        return steps

    def _of_file(self, path: str) -> list[Steps]:
        steps = []
        with opened(path) as image:
            from PIL import ImageSequence

            for number, frame in enumerate(ImageSequence.Iterator(image)):
                self._check(number + 1, path)
                if number % self.every == 0:
                    steps.append(self._step(frame, path))
        return steps

    def _check(self, frames: int, path: str) -> None:
        if frames > self.frames:
            raise SignalError(path, f"has more frames than frames = {self.frames} of the unit")

    def _step(self, image: Image, path: str) -> Steps:
        """One frame, [C * H * W]."""
        pixels_HWC = resized(image, path, self.height, self.width, self.channels, self.pixels)
        return pixels_HWC.transpose(2, 0, 1).reshape(-1)
