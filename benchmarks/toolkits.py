"""Installs each peer that still works with this PyTorch, and measures all of them and transduce in turn.

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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from peers.base import TORCH, Column, Environment, Family, Peer, PeerError, Task
from peers.ctranslate2 import CTranslate2
from peers.data import Data, write
from peers.hugging_face import HuggingFace
from peers.joeynmt import JoeyNMT
from peers.opennmt import Eole, OpenNMT
from peers.ours import RECIPES, Ours, setting_of, trained, write_exports
from peers.turns import Measured, failure_lines, prediction, prediction_lines, training, training_lines
from report import Report, titled
from stopwatch import alone, share_of_limit
from training_speed import Setting, limit, loss_lines, losses, multi30k, operations

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


def toolkits(home: Path, requirement: str) -> dict[str, Peer]:
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


NAMES = tuple(toolkits(Path(), TORCH))


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


def main(
    report: Report,
    home: Path,
    *,
    data: Annotated[Path | None, "Multi30k's raw files (default: multi30k in $TRANSDUCE_DATA)"] = None,
    peers: Annotated[Sequence[str], NAMES] = NAMES,
    only: Annotated[Sequence[str], PARTS] = PARTS,
    families: Sequence[Family] = tuple(FAMILIES),
    rounds: int = 3,
    seconds: Annotated[float, "of each block of training, after its start"] = 15,
    prediction_threads: int = 1,
    sentences: Annotated[int, "in batches of 64"] = 300,
    single: Annotated[int, "one after the other"] = 30,
    run: Annotated[Path | None, "of multi30k-de-en-transformer with post-norm; none: trained in HOME/run"] = None,
    minutes: Annotated[float, "to train HOME/run"] = 4,
    steps: Annotated[int, "updates before the loss is compared"] = 150,
    seeds: Sequence[int] = (1, 2, 3),
    torch: Annotated[str, "the requirement for the peers' PyTorch"] = TORCH,
) -> None:
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    everyone = toolkits(home, torch)
    found, failed, versions = installed({name: everyone[name] for name in peers})
    recipe, changes = RECIPES["transformer"]
    shared = Setting(str(data or multi30k()), str(home / "work"), report.threads)
    setting = replace(shared, recipe=recipe, changes=tuple(changes.items()))
    measured_run = (run or home / "run") if "prediction" in only else None
    written = Data(home / "data", setting, measured_run)
    if measured_run is not None and run is None and not (measured_run / "config.toml").exists():
        trained(measured_run, written, minutes)
    write(written)
    report.tell(*titled("Peers on one machine, in turn"), f"{'; '.join(versions)}.", "")
    report.tell(f"Medians of {rounds} rounds, {seconds:g} seconds of training each.")
    task = Task(written, report.threads, seconds)
    if "training" in only:
        for family in families:
            measured = training(found, family, task, rounds)
            failed |= {f"{name}, {family}": reason for name, reason in measured.failed.items()}
            report.tell(*training_lines(FAMILIES[family], measured, shares(measured, family, task)))
    if measured_run is not None:
        write_exports(written)
        columns = [Column(beam, batch, count) for batch, count in ((64, sentences), (1, single)) for beam in (1, 5)]
        measured = prediction(found, columns, Task(written, prediction_threads, seconds), rounds)
        failed |= measured.failed
        report.tell(*prediction_lines(measured))
    if "losses" in only:
        report.tell(*loss_lines(losses(setting, ["float32", "bfloat16"], steps, seeds), steps, seeds))
    report.tell(*failure_lines(failed))
