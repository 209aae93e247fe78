"""Brings packed runs to a repository of the Hugging Face hub, and copies received runs. Nothing here imports torch."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.files import replace_folder
from transduce.runs.hub import Address, library
from transduce.runs.layout import Checkpoint
from transduce.runs.packed import PACK, check_sums, is_pack
from transduce.runs.received import received
from transduce.wings.engines.sharing.packing import Measure, pack


def push(
    run: str | Path,
    address: str,
    checkpoint: Checkpoint = "best",
    measure: Measure | None = None,
    private: bool = False,
    message: str = "A run of transduce",
) -> str:
    """Packs a run and uploads it to a repository of the Hugging Face hub, which is made if it is not there. Returns the
    page of the commit.

    ``address`` is "hf:owner/name" or "hf:owner/name@branch". ``run``, ``checkpoint`` and ``measure`` are as in
    ``pack``. The account is the one that huggingface_hub is logged in with (``hf auth login``, or ``HF_TOKEN``). Raises
    UserError if the hub refuses, and MissingPackageError if huggingface_hub is not installed.
    """
    place, hub = Address.of(address), library()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pack(run, Path(scratch) / place.name.rpartition("/")[2], checkpoint, measure, address)
        try:
            api = hub.HfApi()
            api.create_repo(place.name, private=private, exist_ok=True)
            if place.revision is not None:
                api.create_branch(place.name, branch=place.revision, exist_ok=True)
            done = api.upload_folder(
                repo_id=place.name, folder_path=folder, revision=place.revision, commit_message=message
            )
        except hub.errors.HfHubHTTPError as error:
            raise UserError(f"{address}: the hub refuses ({' '.join(str(error).split())[:300]})") from error
        except Exception as error:  # each version of the library has other errors of the network
            raise UserError(
                f"{address}: the hub cannot be reached ({' '.join(str(error).split())[:300]}), and the run was not "
                "uploaded; try again with a network, or pack it for another way: transduce pack"
            ) from error
    return str(done.commit_url)


def pull(run: str | Path, out: str | Path, trust: bool = False) -> Path:
    """Copies a packed run to the directory ``out``, where it is a run like any other. Returns ``out``.

    If ``trust`` is True, the copy has no pack.json. Then it counts as a run of the user's own, whose data may be read
    from other machines.

    ``run`` is "hf:owner/name", a packed .zip file, or the folder of a packed run. Raises UserError if it is no packed
    run or is damaged, and if ``out`` has files.
    """
    target = Path(out).expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target} exists and is not empty: name another folder with --out, or move it elsewhere")
    source = received(run)
    if not is_pack(source):
        raise UserError(f"{run} is no packed run: make one with `transduce pack RUN --out DIR`")
    check_sums(source, str(run))
    replace_folder(target, lambda folder: _copy_all(source, folder, (PACK,) if trust else ()))
    return target


def _copy_all(source: Path, folder: Path, left_out: Collection[str]) -> None:
    for path in sorted(path for path in source.rglob("*") if path.is_file() and path.name not in left_out):
        place = folder / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)  # follows the links of the hub's cache, and copies no rights
