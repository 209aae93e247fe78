"""The progress bar of a training run, on standard error. Lines about validations stay; the bar moves below them."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from transduce.core.stages import Stage
from transduce.training.callbacks import Callback, Finished, Notice, Started, TuningStep, Update, Validated

NONE = "no model is the best yet"
MUCH, LONG = 0.15, 30.0  # a share of the run's time, and seconds: validation is mentioned if it took more than both


class ProgressBar(Callback):
    """Shows the update, its loss per token, the last validation's first metric, tokens per second and the time left."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.metric, self.stage = "", Stage("")

    def on_start(self, started: Started) -> None:
        for line in started.report:
            self._print(line)
        size = f"{started.parameters / 1e6:.2f} M parameters, " if started.parameters else "counted, "
        begin = f", from update {started.step:,}" if started.step else ""
        end = f", for {started.budget}" if started.budget else ""
        self._print(f"training {started.run}: {size}{started.device}, {started.precision}{begin}{end}")
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("starting", total=1.0, left="?")
        self.bar.start()
        self.stage.__enter__()  # nothing else is shown beside the bar

    def on_update(self, update: Update) -> None:
        left = update.seconds * (1 - update.progress) / update.progress if update.progress else 0.0
        speed = f"{update.tokens_per_second:,.0f} tokens/s"
        description = f"update {update.step:,}  loss {update.nll:.3f}  {self.metric}{speed}"
        self.bar.update(self.task, completed=update.progress, description=description, left=_clock(left))

    def on_validation(self, validated: Validated) -> None:
        scores = {"loss": validated.loss, **validated.metrics}
        shown = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
        for name, value in list(validated.metrics.items())[:1]:
            self.metric = f"{name} {value:.2f}  "
        cut = f"  {100 * validated.cut:.1f} % cut at search.max_length" if validated.cut else ""
        star = "  *" if validated.best else ""
        self._print(
            f"{_clock(validated.seconds):>7}  update {validated.step:>6,}  {validated.what}  {shown}{cut}{star}"
        )

    def on_tuning(self, tuned: TuningStep) -> None:
        self._print(
            f"{_clock(tuned.seconds):>7}  tuning {tuned.iteration:>6,}  valid  {tuned.metric} {tuned.score:.3f}  "
            f"{tuned.outputs:,} different outputs so far"
        )

    def on_notice(self, notice: Notice) -> None:
        self._print(notice.text)

    def on_finish(self, finished: Finished) -> None:
        self.bar.stop()
        self.stage.__exit__()
        saved = (
            f"go on from update {finished.last_step:,} with --resume"
            if finished.last_step
            else "there is no state to go on from"
        )
        reason = {"budget": "", "patience": " (no better for long enough)"}.get(
            finished.reason, f" by {finished.reason}; {saved}"
        )
        best = f"the best model is of update {finished.best_step:,}, in {finished.run}" if finished.best_step else ""
        what = "; ".join([f"stopped after update {finished.step:,}, {_clock(finished.seconds)}{reason}", best or NONE])
        self._print(what)
        if finished.validating > max(MUCH * finished.seconds, LONG):
            self._print(
                f"{_clock(finished.validating)} of it went into validation: less with fewer examples "
                "(training.validation.examples) or times (training.validation.times)"
            )

    def _print(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
