"""Uploaded signals as temporary files of the server, which exist as long as their request."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from transduce.core.errors import RequestError, UserError
from transduce.wings.serving.bodies import Uploaded
from transduce.wings.serving.service import Service

SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,5}\Z")


@contextmanager
def sources_of(service: Service, texts: Sequence[str], files: Sequence[Uploaded]) -> Iterator[list[str]]:
    """A context with the sources for the model: the texts, or the paths of the uploaded files.

    The files are in a folder that the server makes, and deletes at the end. A client never names a path, because a
    model that reads files takes only uploads. Errors name the client's file. Raises RequestError if the model needs
    files and gets texts, if it needs texts and gets files, and if a text is too long.
    """
    limits = service.limits
    if not service.reads_files:
        if files:
            raise RequestError(f"{service.name} reads text: send the source as text, not as a file")
        for text in texts:
            limits.check_text("source", text)
        yield list(texts)
        return
    if texts:
        raise RequestError(
            f"{service.name} reads files: upload each as the field file of a multipart form; a path is not read"
        )
    with tempfile.TemporaryDirectory(prefix="transduce-") as folder:
        names: dict[str, str] = {}
        for number, each in enumerate(files):
            found = SUFFIX.search(each.name)
            path = Path(folder) / f"{number}{found.group() if found else ''}"
            path.write_bytes(each.content)
            names[str(path)] = each.name[-60:]
        try:
            yield list(names)
        except UserError as error:
            raise RequestError(_renamed(str(error), names)) from None


def shown_source(path: str, files: Sequence[Uploaded]) -> str:
    """The source that an answer shows: the client's name of an uploaded file, otherwise the text itself."""
    return files[int(Path(path).stem)].name if files else path


def _renamed(line: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        line = line.replace(path, name)
    return line
