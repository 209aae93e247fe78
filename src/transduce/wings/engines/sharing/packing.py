"""Packs a run: copies what prediction needs into one folder or one .zip file. Nothing here imports torch, unless the
run searches with a language model.

Equal runs give equal bytes, in any folder and on any machine: names are sorted, and no time and no user is written.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import transduce
from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import current_folder, named_errors, replace_folder, write_file
from transduce.core.text_files import read_json
from transduce.data.fingerprints import Fingerprints, from_json
from transduce.runs.layout import (
    ALIGNER,
    CHECKPOINTS,
    CHECKSUMS,
    CONFIG,
    FINGERPRINTS,
    LANGUAGE_MODELS,
    MODEL,
    SHORTLIST,
    STATE,
    TOKENIZERS,
    Checkpoint,
    find_weights,
    members,
)
from transduce.runs.packed import CARD, FORMAT, PACK, SUFFIX, check_names, digest, foreign_files, is_pack
from transduce.wings.engines.sharing import kinds
from transduce.wings.engines.sharing.card import Card, parameters_of
from transduce.wings.engines.sharing.examples import examples_of

if TYPE_CHECKING:
    from transduce.wings.records.scores import Score

NOT_SCORES = ("step", "steps", "what", "from", "seconds", "tokens", "rank")  # in the state.json of a checkpoint
OF_THIS_MACHINE = ("cache", "cluster")  # settings of the data
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a .zip file can have
Measure = Callable[[Path], "Sequence[Score]"]


def pack(
    run: str | Path, out: str | Path, checkpoint: Checkpoint = "best", measure: Measure | None = None, address: str = ""
) -> Path:
    """Writes a run without the state of its training, and with a model card. Returns ``out``.

    ``out`` is a folder or, if its name ends in .zip, a file. A packed run that is there is replaced. ``checkpoint``
    becomes the best one. ``measure`` returns the scores for the card; it is given the folder of the packed run. None
    leaves them out. ``address`` is where people will load the run from; by default the name of ``out``.

    Absolute paths of settings become file names, so that the packed run names no folder of this machine. Language
    models of the search are packed with the run. Raises FileNotFoundError if there is no such run, checkpoint or
    language model, and UserError if ``out`` is something else than a packed run, or has further files.
    """
    source, target = members(run)[0], Path(out).expanduser()
    if len(members(run)) > 1:
        raise UserError(f"{run}: one run can be packed, not several; pack each of them")
    _check_free(target)

    def fill(folder: Path) -> None:
        copy_run(source, folder, checkpoint)
        scores = () if measure is None else tuple(measure(folder))
        made = card(source, folder, scores, address or target.name)
        (folder / CARD).write_text(str(made), encoding="utf-8", newline="\n")
        _write_list(folder)
        check_names({path.relative_to(folder).as_posix(): path.stat().st_size for path in _files(folder)}, str(source))

    if target.suffix != SUFFIX:
        replace_folder(target, fill)
        return target
    with tempfile.TemporaryDirectory() as scratch:
        with named_errors(Path(scratch)):
            fill(Path(scratch))
        write_file(target, lambda path: _zip(Path(scratch), path))
    return target


def _check_free(target: Path) -> None:
    if target.is_dir() and any(target.iterdir()) and not is_pack(target):
        raise UserError(f"{target} exists and is no packed run, so it is not replaced: name another folder with --out")
    if target.is_dir() and is_pack(target) and (others := foreign_files(target)):
        raise UserError(
            f"{target} would be replaced, and has files that are no part of the packed run: {', '.join(others[:5])}; "
            "move them elsewhere, or name another folder with --out"
        )
    if target.is_file() and target.suffix != SUFFIX:
        raise UserError(f"{target} is a file: name a folder, or a file that ends in {SUFFIX}")


def copy_run(run: Path, folder: Path, checkpoint: Checkpoint) -> None:
    """Copies the files that prediction needs into an empty folder."""
    weights = find_weights(run, checkpoint)
    settings = config.read(run / CONFIG)
    _write(folder / CONFIG, config.write(portable(settings)))
    for side in ("source", "target"):
        _copy(current_folder(run / TOKENIZERS) / f"{side}.json", folder / TOKENIZERS / f"{side}.json")
    best = folder / CHECKPOINTS / "best"
    _copy(weights, best / MODEL)
    state = read_json(weights.parent / STATE)
    kept = {key: value for key, value in state.items() if key in ("step", "what", "from") or _is_score(key, value)}
    _write(best / STATE, json.dumps(kept, indent=1))
    _write(best / CHECKSUMS, "".join(f"{digest(best / name)}  {name}\n" for name in sorted((MODEL, STATE))))
    if (run / SHORTLIST).exists():
        _copy(run / SHORTLIST, folder / SHORTLIST)
    if (current_folder(run / ALIGNER / CHECKPOINTS / "best") / MODEL).exists():
        copy_run(run / ALIGNER, folder / ALIGNER, "best")
    for path in dict.fromkeys(_language_models(settings.get("search"))):
        for member in members(path):
            _copy_language_model(member, run, folder)


def _copy_language_model(member: Path, run: Path, folder: Path) -> None:
    from transduce.runs.run import Run, found_run  # imports torch, which other runs do not need

    place = folder / LANGUAGE_MODELS / member.name
    if place.exists():
        raise UserError(f"two language models are called {member.name}: rename one of their folders")
    copy_run(found_run(member, Run.read(run)), place, "best")


def _language_models(value: object) -> Iterator[str]:
    """Yields the paths of the runs that a search's settings name, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "language_model" and isinstance(inner, str):
                yield inner
            else:
                yield from _language_models(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _language_models(inner)


def portable(settings: config.Table) -> config.Table:
    """The settings without folders of this machine: each absolute path becomes its last part, and paths of runs too."""
    data = {key: value for key, value in settings["data"].items() if key not in OF_THIS_MACHINE}
    changed = {**settings, "data": data}
    return {key: _without_folders(value) for key, value in changed.items()}


def _without_folders(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {name: _without_folders(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner, key) for inner in value]
    if not isinstance(value, str):
        return value
    if key in ("language_model", "run", "teacher"):
        return "+".join(Path(part).name for part in value.split("+"))
    absolute = PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute() or value.startswith("~")
    return PurePosixPath(value.replace("\\", "/")).name if absolute else value


def _is_score(key: str, value: object) -> bool:
    return key not in NOT_SCORES and isinstance(value, (int, float))


def card(run: Path, folder: Path, scores: Sequence[Score], address: str) -> Card:
    """The card of a run, from the files of its packed ``folder``. A run that is not packed is its own folder."""
    state = read_json(folder / CHECKPOINTS / "best" / STATE)
    return Card(
        run.resolve().name,
        portable(config.read(folder / CONFIG)),
        transduce.__version__,
        parameters_of(folder / CHECKPOINTS / "best" / MODEL),
        scores,
        {key: value for key, value in state.items() if _is_score(key, value)},
        _effort(run),
        address,
        kinds.labels(config.read(folder / CONFIG), folder / TOKENIZERS / "target.json"),
        _fingerprints(run),
        examples_of(run),
    )


def _fingerprints(run: Path) -> Fingerprints:
    """The fingerprints of the data that training read; none if the run does not have them. Raises UserError if they are
    damaged.
    """
    path = current_folder(run / CHECKPOINTS / "last") / FINGERPRINTS
    try:
        return from_json(read_json(path)) if path.exists() else {}
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error!r}): delete it, and the card has no fingerprints") from error


def _effort(run: Path) -> dict[str, float]:
    """The updates, minutes and target tokens of the training, as the checkpoint ``last`` has them."""
    path = current_folder(run / CHECKPOINTS / "last") / STATE
    state = read_json(path) if path.exists() else {}
    found = {
        "updates": state.get("step"),
        "minutes": state.get("seconds", 0) / 60,
        "target tokens": state.get("tokens"),
    }
    return {name: value for name, value in found.items() if value}


# ----------------------------------------------------------------------- files


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _write_list(folder: Path) -> None:
    """Writes pack.json: the format, the version of transduce, and the checksum of every other file."""
    files = {path.relative_to(folder).as_posix(): digest(path) for path in _files(folder)}
    table = {"format": FORMAT, "transduce": transduce.__version__, "files": dict(sorted(files.items()))}
    _write(folder / PACK, json.dumps(table, indent=1) + "\n")


def _zip(folder: Path, path: Path) -> None:
    """Writes the files of a folder, uncompressed, so that the bytes do not depend on a version of zlib."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(_files(folder), key=lambda each: each.relative_to(folder).as_posix()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), EPOCH)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            with file.open("rb") as content, archive.open(entry, "w", force_zip64=True) as target:
                shutil.copyfileobj(content, target, 2**20)
