"""The layout of a run directory: the name of each file and folder in it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from transduce.core.errors import UserError
from transduce.core.files import EARLIER, current_folder, is_engine_file, scratch_of
from transduce.runs.packed import CARD, PACK
from transduce.runs.received import received

Checkpoint = Literal["best", "last", "average"]

CONFIG = "config.toml"  # the settings, with every default; its presence makes a directory a run
TOKENIZERS = "tokenizers"
CHECKPOINTS = "checkpoints"
METRICS = "metrics.jsonl"  # the events of training
HISTORY = "history.jsonl"  # one line each time that training began or went on: versions, command, directory
DATA = "data"  # the pairs that were given from Python
INHERITED = "init.json"  # what was copied from another run
TENSORBOARD = "tensorboard"
SHORTLIST, SCORES = "shortlist.safetensors", "scores.json"  # scores.json: of the best checkpoint on a split
LANGUAGE_MODELS = "language-models"  # runs that the search uses, to keep everything in one folder
ALIGNER = "aligner"  # a run that aligns words, for protected spans
EXPORTS = "exports"  # models for other engines
LOCK = ".lock"
SET_ASIDE = ".set-aside"  # marks a run that waits as NAME.replaced while a new run takes its place
ASKED, MEASURED, LOG = "asked.toml", "measured.json", "log.txt"  # of a cell of a sweep
PARTS = frozenset(
    {CONFIG, TOKENIZERS, CHECKPOINTS, METRICS, HISTORY, DATA, INHERITED, TENSORBOARD, SHORTLIST, LOCK, SET_ASIDE}
    | {LANGUAGE_MODELS, ALIGNER, EXPORTS, CARD, PACK, SCORES, ASKED, MEASURED, LOG}
)
OWN_PAIRS = {"train": "train.jsonl", "valid": "valid.jsonl"}  # in DATA

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"  # in the folder of a checkpoint
STATE, CHECKSUMS = "state.json", "checksums.sha256"
FINGERPRINTS = "fingerprints.json"  # in the checkpoint last: of the data that training reads
RECENT = "recent"  # in CHECKPOINTS: the weights that are averaged at the end


def seeds(system: Path) -> list[Path]:
    """Splits "RUN,RUN" into the systems that it names: seeds of one model. A path that exists is one system, even if
    its name has a comma. Raises UserError if there is nothing before or after a comma, or if a system is named twice.
    """
    parts = str(system).split(",")
    if len(parts) == 1 or system.expanduser().exists():
        return [system]
    if not all(parts) or len(set(parts)) < len(parts):
        raise UserError(f"systems {str(system)!r}: different ones were expected before and after each comma")
    return [*map(Path, parts)]


def members(run: str | Path) -> list[Path]:
    """Splits "RUN+RUN" into the run directories that it names, as ``received`` finds them.

    A path that is a directory is one run, even if its name has a +. Raises UserError if there is nothing before or
    after a +, and as ``received`` does.
    """
    parts = str(run).split("+")
    whole = Path(run).expanduser()
    if len(parts) == 1 or whole.is_dir():
        return [received(run)]
    if not all(parts):
        raise UserError(f"run {str(run)!r}: a run directory was expected before and after each +")
    return [received(part) for part in parts]


def no_run(path: Path) -> FileNotFoundError:
    """The error for a path where a run directory was expected."""
    if is_engine_file(path):
        return FileNotFoundError(
            f"{path} is no run directory: it is the file of an engine, which `predict` and `serve` read, and `predict` "
            "with no options but --beam, --nbest, --batch-size, --format and --threads; use the run itself"
        )
    return FileNotFoundError(f"{path} is no run directory: it has no {CONFIG}; train one with `transduce train`")


def find_weights(run: Path, checkpoint: Checkpoint) -> Path:
    """The path of the file of a checkpoint's weights.

    Raises FileNotFoundError if ``run`` is no run directory. Also raises it if the checkpoint is missing; the message
    names the checkpoints that the run has.
    """
    if not (run / CONFIG).exists():
        raise no_run(run)
    path = current_folder(run / CHECKPOINTS / checkpoint) / MODEL
    if not path.exists():
        found = sorted(path.parent.name for path in (run / CHECKPOINTS).glob(f"[!.]*/{MODEL}"))
        raise FileNotFoundError(
            f"{run} has no checkpoint {checkpoint!r} ({path} is missing); it has: "
            f"{', '.join(found) or 'none yet, so train on with --resume'}"
        )
    return path


def foreign_files(run: Path) -> list[str]:
    """The names of files and folders in a run directory that are no part of a run, sorted. Only names are compared.
    Names in its folder ``data`` begin with "data/"; other folders are not searched.
    """
    foreign = [path.name for path in run.iterdir() if _original(path.name) not in PARTS]
    data = run / DATA
    inside = data.iterdir() if data.is_dir() else ()
    return sorted([*foreign, *(f"{DATA}/{path.name}" for path in inside if _original(path.name) not in PAIRS)])


PAIRS = frozenset(OWN_PAIRS.values())


def _original(name: str) -> str:
    """The name without what marks a file or folder that is being written or replaced, by this version or an older one
    (NAME.new).
    """
    return scratch_of(name) or name.removesuffix(".new").removesuffix(EARLIER)
