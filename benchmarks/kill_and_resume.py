"""Does a run that is killed and resumed again and again end with the same ``checkpoints/last``, bit for bit?

Trains a recipe once without interruption, and once with SIGKILL at random moments and ``--resume`` after each.
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import Report, columns, titled

STEPS = 200


def command(recipe: str, out: Path, settings: Sequence[str]) -> list[str]:
    sets = [f"training.steps={STEPS}", "training.checkpoint_every=10", "training.validation.every=50", *settings]
    flags = [flag for setting in sets for flag in ("--set", setting)]
    return [sys.executable, "-m", "transduce", "train", recipe, "--out", str(out), "--threads", "1", "--resume", *flags]


def digest(run: Path) -> dict[str, str]:
    last = run / "checkpoints" / "last"
    return {
        name: hashlib.sha256((last / name).read_bytes()).hexdigest()
        for name in ("model.safetensors", "optimizer.safetensors")
    }


def reached(run: Path) -> int:
    """The update of the last checkpoint. It is 0 before the first checkpoint, and while a new one replaces the old."""
    try:
        return int(json.loads((run / "checkpoints" / "last" / "state.json").read_text())["step"])
    except (OSError, ValueError):
        return 0


def kill_after(step: int, pause: float, process: subprocess.Popen[bytes], run: Path) -> str | None:
    """Kills the run ``pause`` seconds after the checkpoint of ``step``. Returns the moment as text; None if the run
    ended before.
    """
    while process.poll() is None and reached(run) < step:
        time.sleep(0.005)
    time.sleep(pause)
    if process.poll() is not None:
        return None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return f"{pause:.2f} s after update {reached(run)}"


def main(
    report: Report, recipe: str = "g2p-attention", *, kills: int = 5, seed: int = 0, settings: Sequence[str] = ()
) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        peace, war = Path(folder) / "peace", Path(folder) / "war"
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command(recipe, peace, settings), check=True, **quiet)
        killed = []
        for step in sorted(chance.sample(range(STEPS - 20), kills)):
            process = subprocess.Popen(command(recipe, war, settings), **quiet)
            killed.append(kill_after(step, chance.uniform(0, 0.5), process, war))
        subprocess.run(command(recipe, war, settings), check=True, **quiet)
        same = digest(peace) == digest(war)
    moments = [moment for moment in killed if moment is not None]
    report.tell(
        *titled(f"{recipe}: {STEPS} updates, killed {len(moments)} times"),
        f"A checkpoint every 10 updates; SIGKILL {', '.join(moments)}; resumed each time.",
        "",
        *columns("| kills | weights and optimiser in checkpoints/last |"),
        f"| {len(moments)} | {'the same, bit for bit' if same else 'DIFFERENT'} |",
    )
    sys.exit(0 if same else 1)
