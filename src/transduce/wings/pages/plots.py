"""Pictures by matplotlib, which is imported only when something is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.files import write_file
from transduce.wings.pages.palette import SHADES

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


def figure(width: float, height: float) -> Figure:
    """An empty figure; ``width`` and ``height`` are in inches. Raises MissingPackageError (an ImportError) without
    matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("drawing needs matplotlib: pip install 'transduce[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(drawn: Figure, path: str | Path) -> None:
    """Writes the figure in the format of the path's suffix, which matplotlib must support; otherwise raises
    UserError. An older file is replaced as a whole.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in drawn.canvas.get_supported_filetypes():
        raise UserError(f"{path}: pictures are drawn as .png, .svg or .pdf; end the name with one of them")

    def save(scratch: Path) -> None:
        drawn.savefig(scratch, format=kind, dpi=160, bbox_inches="tight", pad_inches=0.15)

    write_file(Path(path), save)


def shades() -> Colormap:
    """A colour map from 0 (the palest colour of ``SHADES``) to 1 (the darkest)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", SHADES)
