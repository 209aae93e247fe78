"""Runs in repositories of the Hugging Face hub: "hf:owner/name", or "hf:owner/name@revision"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from transduce.core.errors import MissingPackageError, UserError
from transduce.runs.packed import ALLOWED, check_folder, check_names, check_sums

PREFIX = "hf:"
_ADDRESS = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True)
class Address:
    """A repository of models, and its revision: a branch, a tag or a commit. None is the main branch."""

    name: str
    revision: str | None = None

    @classmethod
    def of(cls, text: str) -> Address:
        """Raises UserError for another text than "hf:owner/name" or "hf:owner/name@revision"."""
        found = _ADDRESS.fullmatch(text.replace("\\", "/"))
        if found is None or ".." in text:
            raise UserError(f"{text!r}: hf:owner/name or hf:owner/name@revision was expected")
        return cls(found["name"], found["revision"])

    def __str__(self) -> str:
        return f"{PREFIX}{self.name}" + (f"@{self.revision}" if self.revision else "")


def is_address(run: str | Path) -> bool:
    """True for a text that begins with "hf:"."""
    return str(run).startswith(PREFIX)


def library() -> ModuleType:
    """The package huggingface_hub. Raises MissingPackageError if it is not installed."""
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise MissingPackageError(
            "a run of the Hugging Face hub needs huggingface_hub, which is not installed: pip install 'transduce[hub]'"
        ) from error


def download(address: Address) -> Path:
    """The folder of a packed run of the hub, in the cache of huggingface_hub.

    Only files of a packed run are downloaded. If the hub cannot be reached, this returns the run that was downloaded
    before. Raises UserError if there is no such repository, or if its files are not those of a packed run.
    """
    hub = library()
    options: dict[str, object] = {"repo_id": address.name, "revision": address.revision}
    try:
        found = hub.HfApi().model_info(address.name, revision=address.revision, files_metadata=True)
        names = {each.rfilename: each.size or 0 for each in found.siblings if ALLOWED.fullmatch(each.rfilename)}
        check_names(names, str(address))
        folder = Path(hub.snapshot_download(**options, allow_patterns=list(names)))
    except UserError:
        raise
    except hub.errors.HfHubHTTPError as error:
        raise UserError(f"{address} cannot be read: {_first_line(error)}") from error
    except Exception as error:  # each version of the library has other errors of the network
        try:
            folder = Path(hub.snapshot_download(**options, local_files_only=True))
        except Exception:
            raise UserError(f"{address} cannot be reached, and is not in the cache: {_first_line(error)}") from error
    check_folder(folder, folder.parents[1])
    check_sums(folder, str(address))
    return folder


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
