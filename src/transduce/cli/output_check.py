"""The outputs of a command are checked before it begins: none may be a file that the command reads.

Nothing here imports torch. Without an output, only the names of files are compared with standard output.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.files import check_replaceable, is_device

OUTPUTS = ("out", "save", "report", "record", "midi", "picture")
"""The parameters of commands that name what is written. Every other path is read."""

File = tuple[int, int]  # a device and the number of a file on it: all links to one file have the same


def check_outputs(arguments: Mapping[str, object], defaults: Mapping[str, object]) -> None:
    """Raises UserError if a command with these arguments would write to a file that it reads, to a part of a run that
    it reads, or to one file twice. Links, standard input and standard output count, too.

    Raises OSError if an output cannot be written, unless it is the default of its parameter.
    """
    outputs = {name: path for name in OUTPUTS if isinstance(path := arguments.get(name), Path)}
    inputs = [path for name, value in arguments.items() if name not in OUTPUTS for path in _paths(value)]
    read = {file: str(path) for path in inputs if (file := _file(path))}
    if (standard := _file(0)) and stat.S_ISREG(os.fstat(0).st_mode):
        read.setdefault(standard, "standard input")
    _check_standard_output(read)
    if not outputs:
        return
    folders = [path for path in inputs if path.is_dir()]
    for folder in folders:
        read = {file: f"data of {folder}" for path in _data_of(folder) if (file := _file(path))} | read
    for number, (name, path) in enumerate(outputs.items()):
        _check_apart(name, path, read)
        for folder in folders:
            _check_outside(path, folder)
        for other in list(outputs)[:number]:
            if os.path.realpath(outputs[other]) == os.path.realpath(path):
                raise UserError(f"--{other} and --{name} both name {path}: give each a file of its own")
        if path != defaults.get(name):
            _check_writable(name, path)


def _paths(value: object) -> Iterator[Path]:
    """The paths in an argument that exist, also in RUN+RUN, RUN,RUN and KEY=FILE. A word without a dot and a slash is
    not taken for a path.
    """
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _paths(each)
    elif isinstance(value, Path) or (isinstance(value, str) and ("." in value or os.sep in value)):
        text = str(value)
        parts = [text, *text.split("+"), *text.split(","), text.rpartition("=")[2]]
        yield from (path for part in dict.fromkeys(parts) if part and _file(path := Path(part).expanduser()))


def _file(path: Path | int) -> File | None:
    """The file of a path, or of the number of an open file; None if there is none."""
    with suppress(OSError, ValueError, RuntimeError):  # a null byte in a text; a home that nobody has
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _data_of(folder: Path) -> Iterator[Path]:
    """The files that the data of the run in ``folder`` come from; nothing if it is no run."""
    from transduce.core import config
    from transduce.runs.layout import CONFIG

    with suppress(UserError, OSError):
        yield from _texts(config.read(folder / CONFIG).get("data"))


def _texts(value: object) -> Iterator[Path]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield from (path for path in _paths(value) if path.is_file())


def _check_standard_output(read: Mapping[File, str]) -> None:
    with suppress(OSError):  # it is closed
        about = os.fstat(1)
        name = read.get((about.st_dev, about.st_ino))
        if name is not None and stat.S_ISREG(about.st_mode):
            emptied = "" if about.st_size else " (the shell has emptied this one)"
            raise UserError(
                f"standard output goes to {name}, a file that the command reads: choose another file{emptied}"
            )


def _check_apart(name: str, path: Path, read: Mapping[File, str]) -> None:
    from transduce.answers.output_file import COMPANIONS

    if is_device(path) or (name == "record" and path.is_dir()):  # a folder gets a new record
        return
    for each in (path, *(Path(f"{path}{suffix}") for suffix in COMPANIONS)):
        source = read.get(_file(each) or (0, 0))
        if source is not None:
            verb = "is" if each == path else "would replace"
            same = "" if source == str(path) else f"{source}, "
            what = "a folder" if each.is_dir() else "a file"
            raise UserError(f"--{name} {path} {verb} {same}{what} that the command reads: name another output")


def _check_outside(path: Path, folder: Path) -> None:
    """Raises UserError if the output is a part of the run in ``folder``, or is in an export, which is replaced as a
    whole.
    """
    from transduce.runs.layout import CONFIG, EXPORTS, PARTS
    from transduce.runs.manifest import is_export

    place, base = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if place == base or not place.is_relative_to(base):
        return
    part = place.relative_to(base).parts[0]
    of_run = (folder / CONFIG).exists() and part in PARTS and (part != EXPORTS or path.is_file())
    if of_run or is_export(folder):
        raise UserError(f"{path} is a part of {folder}, which the command reads: name an output outside it")


def _check_writable(name: str, path: Path) -> None:
    """Raises OSError if no file can be written at ``path``. If its folder does not exist, the nearest existing parent
    is checked.
    """
    if is_device(path):
        return
    if name == "report" and path.is_dir():
        raise IsADirectoryError(f"--report {path} is a folder: name a file in it, such as {path / 'report.html'}")
    own = path.is_dir() or (name == "record" and path.suffix != ".json")
    folder = path.absolute() if own else path.absolute().parent
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"--{name} {path}: {there} is a file, and a folder is needed; name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"--{name} {path}: nothing may be written in {there}; name another place")
    if not path.is_dir():
        check_replaceable(path)
