"""What the wing alignment adds to test_cli.py."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from test_cli import Call, answers  # noqa: F401

import transduce
from transduce.core.types import UNK
from transduce.runs.checkpoints import save_weights_alone


def test_alignments_follow_each_output(trained: Path, answers: list[transduce.Output], call: Call) -> None:
    status, out, _ = call("predict", trained, "--alignments", "--device=cpu", stdin=b"abc\n\n")
    line, empty = out.splitlines()
    text, links = line.split(" ||| ")
    assert (status, text) == (0, answers[0].text)
    assert [link.partition("-")[2] for link in links.split()] == [str(place) for place in range(len(text))]
    assert {int(link.partition("-")[0]) for link in links.split()} <= {0, 1, 2}
    assert empty == f"{answers[1].text} ||| "
    asked = ["predict", trained, "--alignments", "--device=cpu", "--batch-size=1", "--format"]
    record = json.loads(call(*asked, "jsonl", stdin=b"abc\n")[1])
    assert " ".join(f"{source}-{target}" for source, target in record["alignment"]) == links
    assert call(*asked, "tsv", stdin=b"abc\n")[1].split("\t")[2:] == [text, f"{links}\n"]


def test_unknowns_are_replaced_by_the_source(own_run: Path, tmp_path: Path, call: Call) -> None:
    model = transduce.load(own_run, device="cpu")
    with torch.no_grad():
        for parameter in model.model.decoder.projection.parameters():
            parameter.zero_()
        model.model.decoder.projection.bias[UNK] = 9.0  # it writes only <unk>
    save_weights_alone(own_run / "checkpoints" / "best", model.model, {})
    asked = ["predict", own_run, "--device=cpu"]
    assert "<unk>" not in call(*asked, stdin=b"a\n")[1]
    assert call(*asked, "--set=search.unknown=true", stdin=b"a\n")[1].startswith("<unk><unk>")
    replaced = call(*asked, "--replace-unk", stdin=b"a\n")[1].strip()
    assert set(replaced) == {"a"}
    (tmp_path / "words.tsv").write_text("a\tœ\n", encoding="utf-8")
    known = call(*asked, "--replace-unk", f"--dictionary={tmp_path / 'words.tsv'}", stdin=b"a\n")[1].strip()
    assert known == replaced.replace("a", "œ")
