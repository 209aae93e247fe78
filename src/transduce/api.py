"""Training from Python: ``transduce.train``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from transduce.answers.transducer import Transducer
from transduce.cli.training_bar import ProgressBar
from transduce.compute.crew import join
from transduce.compute.threads import use_threads
from transduce.core import registry
from transduce.runs.loading import trained
from transduce.training import begin
from transduce.training.callbacks import Callback
from transduce.training.interruption import raise_again
from transduce.training.job import Resume
from transduce.training.request import TrainingRequest

EVENTS = "events for TensorBoard"  # the name of the service


def train(
    recipe: str | Path,
    out: str | Path | None = None,
    settings: Mapping[str, object] | Sequence[str] = (),
    pairs: Iterable[tuple[str, str]] | None = None,
    resume: Resume = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    device: str = "auto",
    threads: int | None = None,
    progress: bool = True,
    init: str | Path | None = None,
    teacher: str | Path | None = None,
) -> Transducer:
    """Trains ``recipe``, the name of a shipped recipe or the path of a .toml file. Returns the best model with the
    run's own search.

    ``settings`` override the recipe's: ``{"training.steps": 1000}`` or ``["training.steps=1000"]``. A budget among them
    (steps, epochs, minutes) replaces the recipe's whole budget.

    ``pairs`` of (source, target) replace the recipe's data. Give ("", text) for a language model. The source of a
    signal is a path, relative to the current directory. One pair in twenty is held out for validation, unless
    ``settings`` name a file in ``data.valid``. A resumed run keeps its own pairs.

    ``out`` is the run directory, by default ``runs/NAME``. A directory that holds a run is refused unless ``resume`` or
    ``overwrite`` is set. ``resume`` continues the run. If its data have changed since, it raises UserError; "new-data"
    continues with the new data, from the beginning of an epoch. ``overwrite`` replaces the run: it is deleted when the
    new one has its first checkpoint. Raises UserError if both are set.

    ``device`` is cpu, cuda (or cuda:1), mps, or "auto" for the first available of cuda, mps and cpu. ``threads`` is the
    number of processor threads (default: PyTorch's own number).

    ``callbacks`` receive the events of training. If TensorBoard is installed, its events are written into the run
    directory too. ``progress`` draws a bar on standard error. SIGINT, SIGTERM and SIGHUP save a checkpoint before they
    end the program. ``init`` is a run to start from, and ``teacher`` one to learn from (``[init]`` and
    ``[distillation]`` in docs/configuration.md).
    """
    request = TrainingRequest(recipe, out, settings, pairs, resume, overwrite, init, teacher)
    run = train_run(request, callbacks, device, threads, progress)
    return trained(run, device)


def train_run(
    request: TrainingRequest,
    callbacks: Sequence[Callback] = (),
    device: str = "auto",
    threads: int | None = None,
    progress: bool = True,
) -> Path:
    """Trains as the function ``train`` does, which describes the arguments. Returns the run directory, and loads no
    model.
    """
    use_threads(threads)
    crew = join()
    try:
        job = request.job(crew.first)
        boards = registry.service(EVENTS)(job.run) if registry.has(registry.SERVICES[EVENTS]) else []
        every = [*callbacks, *([ProgressBar()] if progress else []), *boards]
        finished = begin.train(job, every, device, crew)
    finally:
        crew.leave()
    raise_again(finished.reason)
    return job.run


def dry_run(request: TrainingRequest, device: str = "auto", threads: int | None = None) -> list[str]:
    """Measures what a training would cost. Returns lines for people: seconds and memory of an update, updates of the
    budget, and the largest token budget that fits into memory.

    Prepares the data in the cache of the run directory, and writes no run.
    """
    use_threads(threads)
    job = request.new()
    lines: list[str] = registry.service("dry run")(job, device).lines()
    return [*job.merged.notes, *lines]
