"""Our own engine: every variant of the library computes the same, a row does not depend on its company, and an export
writes what PyTorch writes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transduce
from continuously import search_continuously
from families import FAMILIES, build, facts, sources
from libraries import BUILT, needs_library, usable
from selection import mostly_slow
from transduce import api
from transduce.compute import library
from transduce.core import config, recipes
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.protocols import Model
from transduce.core.types import Padded
from transduce.runs.identity import identity
from transduce.runs.manifest import Manifest
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.wings.engines.export.native import write_native
from transduce.wings.engines.native.matrices import Matrix, Readout, quantised
from transduce.wings.engines.native.opening import open_native, read_model

TRANSFORMERS = ["transformer, pre-norm", "transformer, post-norm, tied", "transformer, learned positions"]


def opened(table: config.Table, folder: Path, precision: str) -> tuple[Any, Any]:
    """A small random model, and its export."""
    model, notes = written(table, folder, precision)
    return model, open_native(folder, Manifest("native", precision, "", "", notes))


def written(table: config.Table, folder: Path, precision: str) -> tuple[Any, dict[str, Any]]:
    """A small random model, and the notes of its export, whose weights are in ``folder``."""
    model = build(table, dtype=torch.float32)
    return model, write_native(model, config.resolve(table, Model, facts(table), "model"), folder, precision)


def wide(activation: str = "relu", norm: str = "post") -> config.Table:
    """A Transformer whose matrices have more than one panel of outputs."""
    stack = {
        "type": "transformer",
        "width": 36,
        "layers": 2,
        "heads": 3,
        "positions": "sinusoidal",
        "norm": norm,
        "feedforward": {"type": "plain", "hidden": 70, "activation": activation},
    }
    return {"type": "encoder-decoder", "encoder": stack, "decoder": stack}


@needs_library
def test_a_library_of_another_version_is_told() -> None:
    functions = ctypes.CDLL(str(BUILT["_portable"]))
    with pytest.raises(MissingPackageError, match=r"not of this version .*transduce_later.*build_ext --inplace"):
        library.declare(functions, {"later": []})


@needs_library
def test_a_library_with_other_structures_or_of_another_interface_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Larger(ctypes.Structure):
        _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("later", ctypes.c_int32))

    with pytest.raises(MissingPackageError, match=r"its Norm has 16 bytes, and 24 were expected"):
        library.declare(library.library(), {}, structures={"Norm": Larger})
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    with pytest.raises(MissingPackageError, match=r"it has interface \d+, and \d+ was expected"):
        library.open_library(BUILT["_portable"])


@needs_library
def test_memory_that_the_system_does_not_give_is_an_error_of_python() -> None:
    with pytest.raises(MemoryError, match="smaller batches"):
        library.library().transduce_pack_floats(None, None, 2**22, 2**31 - 1)


@pytest.fixture
def three_threads() -> Iterator[None]:
    library.library().transduce_set_threads(3)
    yield
    library.library().transduce_set_threads(1)


def product(functions: Any, matrix: Matrix, x_MI: torch.Tensor) -> torch.Tensor:
    """x W', in memory that was full of NaN before."""
    y_MO = torch.full((len(x_MI), matrix.outputs), float("nan"))
    functions.transduce_multiply(matrix.handle, x_MI.data_ptr(), y_MO.data_ptr(), len(x_MI), 0)
    return y_MO


@needs_library
@pytest.mark.parametrize(("outputs", "rows"), [(1000, 1), (1000, 7), (200, 300), (64, 500)])
def test_threads_share_a_product_and_change_no_number(three_threads: None, outputs: int, rows: int) -> None:
    functions, generator = library.library(), torch.Generator().manual_seed(rows)
    weight_OI, x_MI = torch.randn(outputs, 300, generator=generator), torch.randn(rows, 300, generator=generator)
    for matrix in (Matrix(functions, *quantised(weight_OI), None), Matrix(functions, weight_OI, None, None)):
        functions.transduce_set_threads(1)
        alone_MO = product(functions, matrix, x_MI)
        functions.transduce_set_threads(3)
        for _ in range(50):
            assert torch.equal(product(functions, matrix, x_MI), alone_MO)


@needs_library
@pytest.mark.parametrize("scaled", [True, False])
def test_a_shortlist_has_the_logits_that_all_words_have(scaled: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    weight_VW, bias_V = torch.randn(300, 40, generator=generator), torch.randn(300, generator=generator)
    weight_VW, scale_V = quantised(weight_VW) if scaled else (weight_VW, None)
    readout = Readout(library.library(), weight_VW, scale_V, bias_V)
    features_NW = torch.randn(5, 40, generator=generator)
    every_NV = readout.logits(features_NW, None)
    for words_C in (torch.tensor([0, 2, 299]), torch.tensor([7, 3]), torch.arange(70)):
        for _ in range(2):  # packed, then kept
            assert torch.equal(readout.logits(features_NW, words_C), every_NV[:, words_C])


@needs_library
def test_two_callers_at_a_time_get_their_own_products(three_threads: None) -> None:
    functions, generator = library.library(), torch.Generator().manual_seed(1)
    matrix = Matrix(functions, *quantised(torch.randn(1000, 300, generator=generator)), None)
    sources = [torch.randn(rows, 300, generator=generator) for rows in (1, 40)]
    expected = [product(functions, matrix, x_MI) for x_MI in sources]

    def repeat(caller: int) -> bool:
        return all(torch.equal(product(functions, matrix, sources[caller]), expected[caller]) for _ in range(200))

    with ThreadPoolExecutor(2) as callers:
        assert all(callers.map(repeat, range(2)))


@needs_library
def test_an_export_computes_with_the_threads_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, notes = written(wide(), tmp_path, "int8")
    counts: list[int] = []
    monkeypatch.setattr(library.library(), "transduce_set_threads", counts.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    open_native(tmp_path, Manifest("native", "int8", "", "", notes))
    assert counts == [2]


@needs_library
@pytest.mark.parametrize(("outputs", "inputs"), [(130, 37), (64, 8), (3, 1)])
def test_every_variant_finds_the_same_integer_sums(outputs: int, inputs: int) -> None:
    generator = torch.Generator().manual_seed(inputs)
    weight_OI, scale_O = quantised(torch.randn(outputs, inputs, generator=generator))
    x_MI = torch.randn(13, inputs, generator=generator) * torch.logspace(-3, 3, 13)[:, None]
    x_MI[4] = 0
    largest_M1 = x_MI.abs().amax(1, keepdim=True)
    integers_MI = (x_MI * (127 / largest_M1).nan_to_num(0, 0, 0)).round()
    sums_MO = integers_MI.double() @ weight_OI.double().t()
    expected_MO = sums_MO.float() * ((largest_M1 / 127) * scale_O)
    for functions in usable():
        matrix = Matrix(functions, weight_OI, scale_O, None)
        assert torch.equal(matrix(x_MI), expected_MO)
        assert torch.equal(torch.cat([matrix(x_1I) for x_1I in x_MI.split(1)]), expected_MO)
        bias_O = torch.arange(outputs).float()
        assert torch.allclose(Matrix(functions, weight_OI, scale_O, bias_O)(x_MI), expected_MO + bias_O)


@needs_library
def test_float32_products_are_pytorchs() -> None:
    weight_OI, bias_O, x_MI = torch.randn(70, 33), torch.randn(70), torch.randn(2, 7, 33)
    for functions in usable():
        y = Matrix(functions, weight_OI, None, bias_O)(x_MI)
        assert torch.allclose(y, x_MI @ weight_OI.t() + bias_O, atol=1e-5)


@needs_library
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_it_finds_and_scores_what_pytorch_does(activation: str, norm: str, tmp_path: Path) -> None:
    model, exported = opened(wide(activation, norm), tmp_path, "float32")
    source = sources([5, 9, 2, 4])
    for search in (Greedy(max_length=20), Beam(size=3, nbest=2, max_length=20)):
        ours, theirs = search(model, source), search(exported, source)
        assert [[h.tokens for h in each] for each in ours] == [[h.tokens for h in each] for each in theirs]
        target = Padded.of([each[0].tokens for each in ours])
        for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)
    prefix = Padded.of([[4, 5], [6], [5, 5, 4], []])
    found, expected = (Beam(size=2, max_length=9)(each, source, prefix) for each in (exported, model))
    assert [each[0].tokens for each in found] == [each[0].tokens for each in expected]


@needs_library
@pytest.mark.parametrize("family", mostly_slow(TRANSFORMERS, fast=TRANSFORMERS[2:]))
def test_int8_is_near_pytorch(family: str, tmp_path: Path) -> None:
    model, exported = opened(FAMILIES[family], tmp_path, "int8")
    source, search = sources([5, 9, 2, 4]), Greedy(max_length=8)
    target = Padded.of([each[0].tokens for each in search(model, source)])
    for one, two in zip(search.force(model, source, target), search.force(exported, source, target), strict=True):
        assert one.log_prob != two.log_prob
        assert np.abs(np.subtract(one.token_log_probs, two.token_log_probs)).max() < 0.2


@needs_library
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_sentence_has_the_same_output_in_every_company(precision: str, tmp_path: Path) -> None:
    """The outputs of a sentence are bit for bit the same in every batch. A batch has more rows than a block and mixes
    sentences at different time steps. Hypotheses move in the beam. All variants find the same outputs in int8.
    """
    _, notes = written(wide(), tmp_path, precision)
    exported, *others = (read_model(functions, tmp_path, notes) for functions in usable())
    lengths = [3, 11, 5, 1, 8, 2, 14, 6, 4, 9, 7] * 2
    rows = [row[:length].tolist() for row, length in zip(sources(lengths).values, lengths, strict=True)]
    for search in (Greedy(max_length=15), Beam(size=5, nbest=3, max_length=15)):
        alone = [search(exported, Padded.of([row]))[0] for row in rows]
        assert search(exported, Padded.of(rows)) == alone
        for model in [exported] if precision == "float32" else [exported, *others]:
            staggered = dict(search_continuously(search, model, rows, 4, lambda some: (Padded.of(some), None)))
            assert [staggered[row] for row in range(len(rows))] == alone


@needs_library
@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("transformer, lambda", "model.encoder.mixer = 'lambda'"),
    ],
)
def test_it_refuses_other_models_by_their_setting(family: str, setting: str, tmp_path: Path) -> None:
    from test_export import EVERY

    table = config.resolve(EVERY[family], Model, facts(EVERY[family]), "model")
    with pytest.raises(UserError, match=setting):
        write_native(None, table, tmp_path)


@needs_library
def test_it_refuses_ids_and_positions_that_it_has_not(tmp_path: Path) -> None:
    _, exported = opened(FAMILIES["transformer, learned positions"], tmp_path, "int8")
    with pytest.raises(UserError, match="id 999 is outside an embedding"):
        exported.start(Padded.of([[4, 999]]))
    state = exported.start(Padded.of([[4, 5]]))
    with pytest.raises(UserError, match="id -1 is outside an embedding"):
        exported.extend(torch.tensor([[-1]]), state)
    limit = exported.decoder.table.embedding.most_positions
    with pytest.raises(UserError, match=f"the export has positions 0 to {limit - 1} only"):
        exported.extend(torch.full((1, limit + 1), 4), state)
    with pytest.raises(UserError, match=f"a text of {limit + 1} tokens or more"):
        exported.start(Padded.of([[4] * (limit + 1)]))


def test_a_missing_library_is_named() -> None:
    with pytest.raises(MissingPackageError, match=r"no C\+\+ compiler was found.*--engine onnx or torch"):
        library.choose({})


@needs_library
def test_the_processor_chooses_the_variant(tmp_path: Path) -> None:
    best = library.open_library(BUILT["_portable"]).transduce_processor()
    assert library.choose(BUILT).name.startswith(library.VARIANTS[best]) or library.VARIANTS[best] not in BUILT
    assert library.choose({"_portable": BUILT["_portable"]}) == BUILT["_portable"]


@needs_library
def test_a_run_is_exported_and_predicts(
    tiny: dict[str, Any], tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    stack = {"type": "transformer", "width": 8, "layers": 1, "heads": 2, "feedforward": 16, "positions": "sinusoidal"}
    model = {"type": "encoder-decoder", "encoder": stack, "decoder": stack}
    others = {key: value for key, value in tiny.items() if not key.startswith("model.")}
    table = config.change(recipes.read("reverse"), others) | {"model": model}
    (tmp_path / "run.toml").write_text(config.write(table), encoding="utf-8")
    run, lines = tmp_path / "run", ["a b", "c a b", "d"]
    api.train(tmp_path / "run.toml", run, device="cpu", progress=False)
    assert transduce.load(run, engine="native")(lines) == transduce.load(run)(lines)  # without an export
    without = transduce.load(run, precision="int8")
    for precision in ("float32", "int8"):
        status, out, err = call("export", run, "--to", "native", "--precision", precision)
        assert status == 0, err
        assert "outputs are equal" in out
        assert ("against float32" in out) == (precision == "int8")
        found = transduce.load(run, engine="native")
        if precision == "float32":
            assert found(lines) == transduce.load(run)(lines)
    assert found(lines) == without(lines)
    assert identity(run, engine="native", precision="int8") == identity(run) != identity(run, engine="native")
    status, out, err = call("predict", run, "--precision", "int8", stdin="\n".join(lines).encode())
    assert (status, out.splitlines()) == (0, without(lines)), err
    status, out, err = call("predict", run / "exports" / "native", stdin="\n".join(lines).encode())
    assert (status, out.splitlines()) == (0, found(lines)), err
    streamed = "".join(replace(found, search=Greedy(max_length=6)).stream("c a b"))
    assert streamed == replace(found, search=Greedy(max_length=6))("c a b")


@needs_library
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "native", "device": "cuda"}, "the native engine runs on the cpu; leave --device out"),
        ({"engine": "native", "precision": "bfloat16"}, "the native engine has float32 and int8"),
        ({"engine": "torch", "precision": "int8"}, "for the native engine, and not for 'torch'"),
        ({"engine": "onnx", "precision": "int8"}, "`transduce export RUN --to onnx --precision int8`"),
    ],
)
def test_a_run_is_refused_for_an_engine_that_cannot_run_it_so(
    trained: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        transduce.load(trained, **options)
