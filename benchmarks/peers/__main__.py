"""Installs each peer that still works with this PyTorch, and measures all of them and transduce in turn.

    cd benchmarks
    python -m peers HOME [--peers eole joeynmt …] [--only training prediction losses] [--rounds 3] [--seconds 15]
                    [--run RUN | --minutes 4] [--torch 'torch==2.13.0'] [--out FILE.md] [--record FILE.json]

HOME is a folder for the peers' environments (about 2 GB each), the data and the run; nothing is installed anywhere
else. A second call uses them again. All toolkits get the same Multi30k pairs (German to English) as ready pieces of one
joint vocabulary of 8,000, and batches of about 2,048 tokens. Their models have the same sizes. The Transformer has
3 + 3 layers, width 256 and feed-forward networks of 1,024. The other model has a bidirectional LSTM as its encoder. Its
decoder is an LSTM of 512 with attention and input feeding. The order of norms, the biases and the initialisation remain
each toolkit's own.

All predict with the weights of RUN, a run of multi30k-de-en-transformer with post-norm (docs/families.md). Without
--run, HOME/run is trained for --minutes. Hugging Face and CTranslate2 read and write ids. transduce reads and writes
text. Each process has --prediction-threads. The default is 1, because bulk work runs a process on each core.

In each round, each row of a table has its own process. A table compares its rows with the first one, round by round.
--only losses measures the validation loss after --steps updates in both precisions, and its spread over seeds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from report import Report, parse, titled
from stopwatch import alone, share_of_limit
from training_speed import Setting, limit, loss_lines, losses, operations

from peers.base import TORCH, Column, Environment, Family, Peer, PeerError, Task
from peers.ctranslate2 import CTranslate2
from peers.data import Data, write
from peers.hugging_face import HuggingFace
from peers.joeynmt import JoeyNMT
from peers.opennmt import Eole, OpenNMT
from peers.ours import RECIPES, Ours, setting_of, trained, write_exports
from peers.turns import Measured, failure_lines, prediction, prediction_lines, training, training_lines

PARTS = ("training", "prediction", "losses")
PINNED = (  # the requirements of OpenNMT-py without its pin of torch
    "configargparse",
    "ctranslate2>=4",
    "fasttext-wheel",
    "flask",
    "pyahocorasick",
    "pyonmttok",
    "pyyaml",
    "rapidfuzz",
    "sacrebleu",
    "sentencepiece",
    "six",
    "spacy",
    "tensorboard",
    "waitress",
)
FAMILIES: dict[Family, str] = {
    "transformer": "Training, Transformer 3 + 3: non-pad target tokens per second",
    "recurrent": "Training, LSTM with attention and input feeding: non-pad target tokens per second",
}


def peers(home: Path, requirement: str) -> dict[str, Peer]:
    """All peers, in the order of the tables."""

    def environment(name: str, *requirements: str, bare: tuple[str, ...] = ()) -> Environment:
        return Environment(home / "environments" / name, requirement, requirements, bare)

    return {
        "hugging-face": HuggingFace(environment("hugging-face", "transformers>=5", "sentencepiece")),
        "eole": Eole(environment("eole", "eole", "aiohttp")),
        "opennmt-py": OpenNMT(environment("opennmt-py", *PINNED, bare=("OpenNMT-py",))),
        "joeynmt": JoeyNMT(environment("joeynmt", "joeynmt", "importlib_metadata")),
        "ctranslate2": CTranslate2(environment("ctranslate2", "ctranslate2")),
        "transduce": Ours(),
    }


def installed(asked: Mapping[str, Peer]) -> tuple[list[Peer], dict[str, str], list[str]]:
    """Installs the peers. Returns the installed peers, the reasons why the others failed, and the versions."""
    found, failed, versions = list[Peer](), dict[str, str](), list[str]()
    for peer in asked.values():
        print(f"installing {peer.name}", flush=True)
        try:
            versions.append(f"{peer.name} {peer.install()}")
        except PeerError as error:
            failed[peer.name] = str(error)
            print(f"{peer.name} does not install: {error}", flush=True)
        else:
            found.append(peer)
    return found, failed, versions


def shares(measured: Measured, family: Family, task: Task) -> dict[str, float]:
    """For each row of transduce, its rate of operations as a share of the machine's fastest products."""
    setting = setting_of(task, family)
    work, found = alone(operations, setting), dict[str, float]()
    for row, speeds in measured.speeds.items():
        if isinstance(row.peer, Ours):
            rates = sorted(each["tokens/s"].rate for each in speeds)
            fastest = alone(limit, setting, row.way, work.shapes)
            found[row.name] = share_of_limit([rates[len(rates) // 2] * work.per_token / 1e9], [fastest])
    return found


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, metavar="HOME")
    parser.add_argument("--data", type=Path, help="Multi30k's raw files (default: multi30k in $TRANSDUCE_DATA)")
    parser.add_argument("--peers", nargs="+", default=list(peers(Path(), TORCH)), choices=list(peers(Path(), TORCH)))
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15, help="of each block of training, after its start")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of training")
    parser.add_argument("--prediction-threads", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=300, help="in batches of 64")
    parser.add_argument("--single", type=int, default=30, help="one after the other")
    parser.add_argument("--run", type=Path, help="a run of multi30k-de-en-transformer with post-norm")
    parser.add_argument("--minutes", type=float, default=4, help="to train HOME/run, without --run")
    parser.add_argument("--steps", type=int, default=150, help="updates before the loss is compared")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--torch", default=TORCH, help="the requirement for the peers' PyTorch")
    asked = parse(parser, given)
    if asked.data is None:
        if "TRANSDUCE_DATA" not in os.environ:
            parser.error("no data: give --data FOLDER, or set TRANSDUCE_DATA to the folder that holds multi30k")
        asked.data = Path(os.environ["TRANSDUCE_DATA"]) / "multi30k"
    asked.home = asked.home.resolve()
    return asked


def main(given: Sequence[str] | None = None) -> None:
    asked = arguments(given)
    torch.set_num_threads(asked.threads)
    asked.home.mkdir(parents=True, exist_ok=True)
    everyone = peers(asked.home, asked.torch)
    found, failed, versions = installed({name: everyone[name] for name in asked.peers})
    recipe, changes = RECIPES["transformer"]
    shared = Setting(str(asked.data), str(asked.home / "work"), asked.threads)
    setting = replace(shared, recipe=recipe, changes=tuple(changes.items()))
    run = (asked.run or asked.home / "run") if "prediction" in asked.only else None
    data = Data(asked.home / "data", setting, run)
    if run is not None and asked.run is None and not (run / "config.toml").exists():
        trained(run, data, asked.minutes)
    write(data)
    lines = [*titled("Peers on one machine, in turn"), f"{'; '.join(versions)}.", ""]
    lines.append(f"Medians of {asked.rounds} rounds, {asked.seconds:g} seconds of training each.")
    report = Report.asked(asked)

    def tell(more: Sequence[str]) -> None:
        lines.extend(more)
        report.write([*lines, *failure_lines(failed)])

    task = Task(data, asked.threads, asked.seconds)
    if "training" in asked.only:
        for family in asked.families:
            measured = training(found, family, task, asked.rounds)
            failed |= {f"{name}, {family}": reason for name, reason in measured.failed.items()}
            tell(training_lines(FAMILIES[family], measured, shares(measured, family, task)))
    if run is not None:
        write_exports(data)
        columns = [
            Column(beam, batch, count) for batch, count in ((64, asked.sentences), (1, asked.single)) for beam in (1, 5)
        ]
        measured = prediction(found, columns, Task(data, asked.prediction_threads, asked.seconds), asked.rounds)
        failed |= measured.failed
        tell(prediction_lines(measured))
    if "losses" in asked.only:
        tell(loss_lines(losses(setting, ["float32", "bfloat16"], asked.steps, asked.seeds), asked.steps, asked.seeds))
    print("\n".join([*lines, *failure_lines(failed)]))


if __name__ == "__main__":
    main()
