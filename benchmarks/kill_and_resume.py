"""Is a run that was killed again and again the run that was not? Bit for bit, in ``checkpoints/last``.

    python benchmarks/kill_and_resume.py [RECIPE] [--kills 5] [--set KEY=VALUE]... [--out FILE.md]

Trains a recipe once in peace, and once with SIGKILL at random moments and ``--resume`` after each.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import machine, write

STEPS = 200


def command(recipe: str, out: Path, settings: list[str]) -> list[str]:
    sets = [f"training.steps={STEPS}", "training.checkpoint_every=10", "training.validation.every=50", *settings]
    flags = [flag for setting in sets for flag in ("--set", setting)]
    return [sys.executable, "-m", "transduce", "train", recipe, "--out", str(out), "--threads", "1", "--resume", *flags]


def digest(run: Path) -> dict[str, str]:
    last = run / "checkpoints" / "last"
    return {
        name: hashlib.sha256((last / name).read_bytes()).hexdigest()
        for name in ("model.safetensors", "optimizer.safetensors")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="g2p")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        peace, war = Path(folder) / "peace", Path(folder) / "war"
        began = time.monotonic()
        subprocess.run(command(arguments.recipe, peace, arguments.settings), check=True, stderr=subprocess.DEVNULL)
        whole = time.monotonic() - began
        moments = []
        for _ in range(arguments.kills):
            process = subprocess.Popen(command(arguments.recipe, war, arguments.settings), stderr=subprocess.DEVNULL)
            moment = chance.uniform(0.1, 0.5) * whole
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
            state = war / "checkpoints" / "last" / "state.json"
            moments.append(f"{moment:.1f} s ({'checkpoint there' if state.exists() else 'no checkpoint yet'})")
        subprocess.run(command(arguments.recipe, war, arguments.settings), check=True, stderr=subprocess.DEVNULL)
        same = digest(peace) == digest(war)
    lines = [
        f"# {arguments.recipe}: {STEPS} updates, killed {arguments.kills} times",
        "",
        machine(),
        "",
        f"Undisturbed: {whole:.1f} s. Killed (SIGKILL) after {', '.join(moments)} of each attempt, resumed each time.",
        f"Weights and optimiser in checkpoints/last: **{'the same, bit for bit' if same else 'DIFFERENT'}**.",
    ]
    print("\n".join(lines))
    write(arguments.out, lines)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
