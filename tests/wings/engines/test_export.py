"""Exports: an engine gives the outputs that PyTorch gives, or the export is refused."""

from __future__ import annotations

import builtins
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from families import ALIGNERS, CHAINS, COUNTED, FAMILIES, NUMBERS, PARALLEL, SIGNALS, build, facts, sources
from selection import mostly_slow
from transduce import api
from transduce.core import config, recipes
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.protocols import Model
from transduce.core.types import Example, Padded
from transduce.metrics.base import metric
from transduce.runs.manifest import MANIFEST, Manifest
from transduce.runs.run import Run
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.ranking import Wu
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.engines import light
from transduce.wings.engines.ctranslate2 import CTranslate2Model, open_ctranslate2
from transduce.wings.engines.export import onnx
from transduce.wings.engines.export.checked_export import export_run
from transduce.wings.engines.export.ctranslate2 import write_ctranslate2
from transduce.wings.engines.export.onnx import write_onnx
from transduce.wings.engines.export.parity import Parity, check, compare_quality
from transduce.wings.engines.export.quantisation import integers, quantise
from transduce.wings.engines.light import options_of
from transduce.wings.engines.onnx import open_onnx
from transduce.wings.engines.translation import Options
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Viterbi

EVERY = {**FAMILIES, **SIGNALS, **COUNTED, **PARALLEL, **CHAINS, **NUMBERS, **ALIGNERS}
EXPORTED = [
    "luong, ssru, residual",
    "transformer, rotary, gated, rms",
    "lstm, no attention",
    "bahdanau, additive",
    "luong, coverage, fed",
    "convs2s",
    "pointer over transformer",
    "transformer, pre-norm",
    "language model, gru, no attention",
    "pyramidal of stacked features",
    "instant, transformer, tied",
    "tagger, lstm",
    "tagger, convs2s",
    "classifier, gru, last state",
    "classifier, siamese",
    "crf, lstm",
    "ctc, lstm, no attention",
    "ctc, transformer, no attention",
    "ctc and attention",
    "ctc over a pyramid of features",
    "conformer of sound",
    "recurrent of columns",
    "transformer of a map, convolutional attention",
    "recurrent of clips",
]
"""Families that together have each kind of state, and each protocol that an engine follows."""
DEEP = ("luong, ssru, residual", "transformer, pre-norm", "convs2s", "pyramidal of stacked features")
"""Those that keep all their layers, whose states an engine must not mix up. PyTorch takes seconds for a layer."""
SEARCHES: dict[str, list[Any]] = {
    "autoregressive": [Greedy(max_length=8), Beam(size=3, nbest=2, max_length=8)],
    "ctc": (ctc := [Greedy(max_length=8), Beam(size=3, nbest=2, max_length=8), BestPath(), PrefixBeam(size=3)]),
    "joint": ctc,
    "chain": [Viterbi()],
    "labels": [LabelSearch()],
    "instant": [LengthBeam(size=2)],
}


@pytest.fixture(scope="module", autouse=True)
def operators_are_read_once() -> Iterator[None]:
    """Spares each graph the second in which PyTorch registers all operators of ONNX again."""
    registration = pytest.importorskip("torch.onnx._internal.exporter._registration", reason="another PyTorch")
    with pytest.MonkeyPatch.context() as patch:
        read = cache(registration.ONNXRegistry.from_torchlib)
        patch.setattr(registration.ONNXRegistry, "from_torchlib", staticmethod(read))
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture
def graphs_are_written_once(family: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies the graphs of a family that another test has written. PyTorch takes seconds for each."""

    def write(graph: Any, path: Path, own: Callable[[Any, Path], None] = onnx._write) -> None:
        copy = kept / f"{family}, {path.name}"
        if not copy.exists():
            own(graph, copy)
        shutil.copy(copy, path)

    monkeypatch.setattr(onnx, "_write", write)


def shallow(table: Any) -> Any:
    """Settings of a model with one layer in each stack."""
    if isinstance(table, dict):
        return {key: 1 if key == "layers" else shallow(value) for key, value in table.items()}
    return [shallow(each) for each in table] if isinstance(table, list) else table


@pytest.mark.usefixtures("graphs_are_written_once")
@pytest.mark.parametrize("family", mostly_slow(EXPORTED, fast=[]))
def test_an_exported_model_finds_and_scores_what_pytorch_does(family: str, tmp_path: Path) -> None:
    model: Any = build(EVERY[family] if family in DEEP else shallow(EVERY[family]), dtype=torch.float32)
    notes = write_onnx(model, sources([11, 3, 4, 7, 5], width=11), tmp_path)
    exported: Any = open_onnx(tmp_path, Manifest("onnx", "float32", "", "", notes))
    source = sources([5, 17, 2, 4])  # another shape than the example's; one source is longer
    for search in SEARCHES[notes["model"]]:
        ours, theirs = search(model, source), search(exported, source)
        assert [[h.tokens for h in each] for each in ours] == [[h.tokens for h in each] for each in theirs]
        target = Padded.of([each[0].tokens for each in ours])
        for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("product", ["MatMul", "Gemm", "small", "scaled"])
def test_products_of_integers_keep_rows_apart(product: str, tmp_path: Path) -> None:
    """A row's result is bit for bit the same beside a row of large numbers. One scale for the whole tensor would change
    it.
    """
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    generator = np.random.default_rng(0)
    K, N = (3, 5) if product == "small" else (24, 40)
    weight_KN, bias_N = (generator.normal(size=size).astype(np.float32) for size in ((K, N), N))
    weight_KN[:, 1] = 0
    inputs = ["x", "w"] if product in ("MatMul", "small") else ["x", "w", "b"]
    options = {"Gemm": {"transB": 1}, "scaled": {"transB": 1, "alpha": 2.0}}.get(product, {})
    node = onnx.helper.make_node("Gemm" if options else "MatMul", inputs, ["y"], **options)
    held = {"w": weight_KN.T.copy() if options else weight_KN, "b": bias_N}
    float32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", float32, ["M", K])],
        [onnx.helper.make_tensor_value_info("y", float32, ["M", N])],
        [onnx.numpy_helper.from_array(held[name], name) for name in inputs[1:]],
    )
    path = tmp_path / "g.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), str(path))
    assert quantise(path) == (product in ("MatMul", "Gemm"))
    run = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run
    x_MK = generator.normal(size=(6, K)).astype(np.float32)
    x_MK[3] = 0
    expected_MN = (2 if product == "scaled" else 1) * (x_MK @ weight_KN) + (bias_N if "b" in inputs else 0)
    x_MK[5] *= 1000
    (y_MN,) = run(None, {"x": x_MK})
    alone_MN = np.concatenate([run(None, {"x": x_MK[[row]]})[0] for row in range(5)])
    assert quantise(path) == 0  # nothing is left to quantise
    if product in ("MatMul", "Gemm"):
        assert np.array_equal(y_MN[:5], alone_MN)
    assert y_MN[:5] == pytest.approx(expected_MN[:5], abs=0.15)
    assert y_MN[3] == pytest.approx(expected_MN[3])


def test_integers_are_within_half_a_scale() -> None:
    matrix_KN = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32) * [1, 10, 100, 0, 1e-5, 1, 1]
    values_KN, scale_N = integers(matrix_KN.astype(np.float32))
    assert np.abs(values_KN.astype(float)).max() == 127
    assert (np.abs(values_KN * scale_N - matrix_KN) <= scale_N * 0.5001).all()


@pytest.mark.slow
@pytest.mark.usefixtures("graphs_are_written_once")
@pytest.mark.parametrize("family", ["luong, ssru, residual", "transformer, rotary, gated, rms", "crf, lstm"])
def test_int8_is_near_pytorch(family: str, tmp_path: Path) -> None:
    model: Any = build(EVERY[family] if family in DEEP else shallow(EVERY[family]), dtype=torch.float32)
    notes = write_onnx(model, sources([11, 3, 4, 7, 5], width=11), tmp_path, "int8")
    assert sum(each["quantised"] for each in notes.values() if isinstance(each, dict)) > 0
    exported: Any = open_onnx(tmp_path, Manifest("onnx", "int8", "", "", notes))
    source = sources([5, 9, 2, 4])
    for search in SEARCHES[notes["model"]]:
        target = Padded.of([each[0].tokens for each in search(model, source)])
        for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
            assert one.log_prob != two.log_prob
            assert np.abs(np.subtract(one.token_log_probs, two.token_log_probs)).mean() < 0.5


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("n-grams", "ngram model cannot be exported to ONNX: it looks its counts up"),
        ("kalman filter", "writes numbers"),
        ("ibm model 1", "aligns two sentences and writes nothing"),
    ],
)
def test_a_model_without_a_graph_is_refused_with_the_reason(family: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason):
        write_onnx(build(EVERY[family], dtype=torch.float32), sources([11, 3, 4, 7, 5], width=11), tmp_path)


@pytest.mark.parametrize(
    "family",
    mostly_slow(
        [
            "transformer, pre-norm",
            "transformer, post-norm, tied",
            "transformer, learned positions",
            "transformer, no positions",
        ],
        fast=["transformer, pre-norm", "transformer, learned positions"],
    ),
)
def test_ctranslate2_finds_and_scores_what_pytorch_does(family: str, tmp_path: Path) -> None:
    model: Any = build(EVERY[family], dtype=torch.float32)
    with torch.no_grad():
        model.decoder.projection.bias[:2] = -30.0  # searches forbid padding here, and no trained model writes it
    table = config.resolve(EVERY[family], Model, facts(EVERY[family]), "model")
    write_ctranslate2(model, table, tmp_path)
    exported = open_ctranslate2(tmp_path, Manifest("ctranslate2", "float32", "", ""))
    source, search = sources([5, 9, 2, 4]), Greedy(max_length=8)
    for shortest in (Greedy(max_length=1), Greedy(max_length=2)):
        found, expected = exported.search(shortest, source), shortest(model, source)
        assert [h.tokens for (h,) in found] == [h.tokens for (h,) in expected]
    with pytest.raises(UserError, match="do not fit max_length = 2"):
        exported.search(Greedy(max_length=2), source, Padded.of([[4, 5]] * 4))
    ours, theirs = search(model, source), exported.search(search, source)
    assert [h.tokens for (h,) in ours] == [h.tokens for (h,) in theirs]
    assert [h.log_prob for (h,) in ours] == pytest.approx([h.log_prob for (h,) in theirs], abs=1e-4)
    target = Padded.of([h.tokens for (h,) in ours])
    for one, two in zip(search.force(model, source, target), exported.force(source, target), strict=True):
        assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)
    found = exported.search(Beam(size=3, nbest=2, max_length=8), source)
    assert [len(each) for each in found] == [2] * 4
    best = [each[0] for each in found]
    forced = search.force(model, source, Padded.of([h.tokens for h in best]))
    assert [h.log_prob for h in best] == pytest.approx([h.log_prob for h in forced], abs=1e-4)  # the score law


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("convs2s", "model.encoder.type = 'convs2s'"),
        ("transformer, rotary, gated, rms", "model.encoder.norm.kind = 'rms'"),
        ("transformer, t5 and alibi", "model.encoder.mixer"),
        ("tagger, lstm", "model.type = 'tagger'"),
    ],
)
def test_ctranslate2_refuses_other_models_by_their_setting(family: str, setting: str, tmp_path: Path) -> None:
    table = config.resolve(EVERY[family], Model, facts(EVERY[family]), "model")
    with pytest.raises(UserError, match=setting):
        write_ctranslate2(None, table, tmp_path)


@pytest.mark.parametrize("search", [LabelSearch(), Beam(ranking=Wu())])
def test_ctranslate2_refuses_other_searches(search: Any) -> None:
    with pytest.raises(UserError, match="--engine onnx or torch for others"):
        CTranslate2Model(None).search(search, sources([3, 2]))


def test_a_transformer_runs_in_ctranslate2(
    tiny: dict[str, Any], tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    stack = {"type": "transformer", "width": 8, "layers": 1, "heads": 2, "feedforward": 16, "positions": "sinusoidal"}
    model = {"type": "encoder-decoder", "encoder": stack, "decoder": stack}
    others = {key: value for key, value in tiny.items() if not key.startswith("model.")}
    table = config.change(recipes.read("reverse"), others) | {"model": model}
    (tmp_path / "run.toml").write_text(config.write(table), encoding="utf-8")
    run = tmp_path / "run"
    api.train(tmp_path / "run.toml", run, device="cpu", progress=False)
    greedy = ["search.type=greedy", "search.max_length=6"]
    for precision in ("float32", "int8"):
        status, out, err = call("export", run, "--to", "ctranslate2", "--precision", precision)
        assert status == 0, err
        assert "outputs are equal" in out
        assert ("exact " in out and "against float32" in out) == (precision == "int8")
        if precision == "int8":  # the float32 score is still the run's own: quantising did not change the model
            own = transduce.load(run, settings=greedy).evaluate(Run.open(run).examples("valid"), [metric("exact")])
            manifest = Manifest.read(run / "exports" / "ctranslate2")
            assert manifest.parity["scores"]["exact"][0] == pytest.approx(own.scores["exact"])
        lines = ["a b", "c a b", "d"]
        found = transduce.load(run, engine="ctranslate2", settings=greedy)(lines)
        if precision == "float32":
            assert found == transduce.load(run, settings=greedy)(lines)
    with pytest.raises(UserError, match="precision 'int4'"):
        export_run(run, "ctranslate2", precision="int4")
    folder = run / "exports" / "ctranslate2"
    for arguments in (("predict", folder, "--stream"), ("inspect", folder, "a b")):
        status, _, err = call(*arguments, stdin=b"a b")
        assert (status, "searches by itself" in err) == (2, True), err
    lines = ["a b", "", "c a b", "a b c d a b c d"]
    for options in ((), ("--beam", "3", "--nbest", "2", "--format", "jsonl")):
        given = "\n".join(lines).encode()
        expected = call("predict", folder, *options, "--window", "9", stdin=given)  # with PyTorch
        assert expected[0] == 0, expected
        assert without_torch(["predict", str(folder), *options], given) == expected[1]
    one = transduce.load(folder)
    assert light.load(folder)(lines) == one(lines)
    assert light.load(folder)("c a b") == one("c a b")
    long = "a " * 2000
    assert light.load(folder)(long) == one(long)


def without_torch(arguments: list[str], given: bytes) -> str:
    """The output of a command in a process that cannot import PyTorch."""
    program = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Missing())
from transduce.cli.app import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program, *arguments], input=given, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({"type": "greedy", "max_length": 9}, Options(max_length=9)),
        ({"type": "beam", "size": 4, "nbest": 2, "max_length": 7, "ranking": {"type": "average"}}, Options(4, 2, 7, 1)),
        ({"type": "beam", "size": 4, "nbest": 1, "max_length": 7, "ranking": "none", "allocation": {"type": "top-k"}},
         Options(4, 1, 7, 0)),
        ({"type": "beam", "size": 4, "nbest": 1, "max_length": 7, "ranking": "wu"}, "search.ranking = 'wu'"),
        ({"type": "greedy", "max_length": 9, "filters": ["no-repeats"]}, "search.type = 'greedy'"),
        ({"type": "sample", "max_length": 9}, "search.type = 'sample'"),
    ],
)  # fmt: skip
def test_a_search_is_read_from_its_table(search: dict[str, Any], expected: Any) -> None:
    if isinstance(expected, Options):
        assert options_of(search) == expected
    else:
        with pytest.raises(UserError, match=expected):
            options_of(search)


def test_an_export_that_differs_is_refused() -> None:
    check(Parity(sources=3, equal=2, ties=1, largest=1e-4), "onnx")
    for wrong in (Parity(3, 2, 0, 1e-4), Parity(3, 3, 0, 0.1)):
        with pytest.raises(UserError, match="does not compute what PyTorch does"):
            check(wrong, "onnx")


def test_a_run_is_exported_used_and_refused_when_it_does_not_fit(
    own_run: Path, tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    """An export takes seconds, so this test makes one and checks everything that can be done with it."""
    with pytest.raises(UserError, match="has no export for onnx: make it with `transduce export"):
        transduce.load(own_run, engine="onnx")
    status, out, err = call("export", own_run)
    assert status == 0, err
    assert "outputs are equal" in out
    folder = own_run / "exports" / "onnx"
    lines = ["a b", "c a b", "d"]
    expected = transduce.load(own_run)(lines)
    assert transduce.load(own_run, engine="onnx")(lines) == expected
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    assert transduce.load(moved)(lines) == expected  # the export does not need the run
    status, out, err = call("predict", moved, "--engine", "onnx", stdin="\n".join(lines).encode())
    assert (status, out.splitlines()) == (0, expected), err
    for arguments, message in (
        ({"engine": "torch"}, "is an export for onnx"),
        ({"engine": "tensor"}, "engine 'tensor'"),
        ({"precision": "bfloat16"}, "is set when a run is exported"),
        ({"device": "cuda"}, "runs on the cpu"),
    ):
        with pytest.raises(UserError, match=message):
            transduce.load(moved, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="is no export, so it is not replaced"):
        export_run(own_run, out=own_run)
    moved.rename(folder)
    record = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(record | {"weights": "0"}))
    with pytest.raises(UserError, match="has other weights than when it was exported"):
        transduce.load(own_run, engine="onnx")
    with (folder / "step.onnx").open("ab") as file:
        file.write(b"!")
    with pytest.raises(UserError, match=r"step.onnx is damaged"):
        transduce.load(folder)
    (folder / "step.onnx").unlink()
    with pytest.raises(UserError, match=r"step.onnx is missing"):
        transduce.load(folder)
    for wrong in ("{", "[]", json.dumps(record | {"engine": "?"}), json.dumps(record | {"files": 3})):
        (folder / MANIFEST).write_text(wrong)
        with pytest.raises(UserError, match="damaged"):
            Manifest.read(folder)
        with pytest.raises(UserError, match=r"damaged|for \?"):
            transduce.load(folder, engine="onnx")


def test_quality_compares_scores_and_texts(trained: Path) -> None:
    ours = transduce.load(trained)
    examples = [Example("a b", ("b a",)), Example("c", ("c",))]
    metrics = [metric("exact")]
    found = compare_quality(ours, ours, examples, metrics)
    assert (found.sources, found.equal) == (2, 2)
    assert found.scores["exact"][0] == found.scores["exact"][1]
    found = compare_quality(ours, ours, [*examples, Example("d")], metrics)
    assert (found.equal, found.scores) == (3, {})  # no reference, so no score


@pytest.mark.parametrize("package", ["onnxscript", "onnxruntime"])
def test_a_missing_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == package:
            raise ImportError(name=name)
        return imported(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=rf"needs {package}.*pip install 'transduce\[onnx\]'"):
        write_onnx(None, sources([3, 2]), tmp_path)
