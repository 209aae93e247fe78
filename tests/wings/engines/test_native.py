"""``--engine native``: the package's own pipeline over the engine's searches. It finds and scores what PyTorch does, or
says in one line what it does not have.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_engine_file import needs_engine
from test_export import EVERY

import transduce
import transduce_engine
from families import build, facts, sources
from transduce import api
from transduce.answers.request import Request
from transduce.core import config, recipes
from transduce.core.errors import MissingPackageError, RequestError, UserError
from transduce.core.protocols import Model
from transduce.core.types import Padded
from transduce.runs.identity import identity
from transduce.runs.manifest import Manifest
from transduce.search.beam import Beam
from transduce.search.constraints.phrases import Constraints
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.sampling import Sampling
from transduce.wings.ctc.search.best_path import BestPath
from transduce.wings.ctc.search.prefix_beam import PrefixBeam
from transduce.wings.engines.export.checked_export import export_run
from transduce.wings.engines.export.native import write_native
from transduce.wings.engines.native.conversion.weights import quantised
from transduce.wings.engines.native.model import native_model, open_native
from transduce.wings.labels.search import LabelSearch
from transduce.wings.labels.viterbi import Posterior, Viterbi

pytestmark = needs_engine

SEARCHES: dict[str, list[Any]] = {
    "luong, gru, scaled dot, fed": [Greedy(max_length=9), Beam(3, 2, 9), Sampling(size=2, seed=5, max_length=9)],
    "ctc, lstm, no attention": [BestPath(), PrefixBeam(3, 2)],
    "tagger, lstm": [LabelSearch(), LabelSearch(nbest=2)],
    "two chains": [Viterbi(nbest=3), Posterior()],
    "instant, transformer, tied": [LengthBeam(), LengthBeam(3, 2)],
    "language model, transformer, no attention": [Greedy(max_length=9), Beam(3, 2, 9)],
}


def model_and_native(name: str, precision: str = "float32") -> tuple[Any, Any]:
    table = EVERY[name]
    model = build(table, dtype=torch.float32)
    return model, native_model(model, config.resolve(table, Model, facts(table), "model"), precision)


def agree(ours: Any, theirs: Any, within: float) -> None:
    """Asserts that hypotheses have the same tokens and, within a difference, the same numbers."""
    assert [one.tokens for one in ours] == [two.tokens for two in theirs]
    for one, two in zip(ours, theirs, strict=True):
        assert one.score == pytest.approx(two.score, abs=within)
        assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=within)


@pytest.mark.parametrize("name", SEARCHES)
def test_it_finds_and_scores_what_pytorch_does(name: str) -> None:
    model, native = model_and_native(name)
    source = Padded.of([[2]] * 4) if name.startswith("language model") else sources([5, 9, 2, 4])
    for search in SEARCHES[name]:
        ours, theirs = search(model, source), native.search(search, source)
        for one, two in zip(ours, theirs, strict=True):
            agree(one, two, 5e-5)
        target = Padded.of([each[-1].tokens for each in ours])
        ours, theirs = search.force(model, source, target), native.force(source, target)
        agree(ours, theirs, 5e-5)
        assert [each.right for each in ours] == [each.right for each in theirs]


@pytest.mark.parametrize("name", ["bahdanau, additive", "transformer, pre-norm", "ctc, lstm, no attention"])
def test_int8_is_near_pytorch(name: str) -> None:
    model, native = model_and_native(name, "int8")
    source, target = sources([5, 9, 2, 4]), Padded.of([[5, 6, 2], [7, 2], [2], [8, 2]])
    search: Any = BestPath() if name.startswith("ctc") else Greedy()
    for one, two in zip(search.force(model, source, target), native.force(source, target), strict=True):
        assert one.log_prob != two.log_prob
        assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=0.5)


@pytest.mark.parametrize("inputs", [1, 7, 256])
def test_no_sum_of_two_products_is_too_large_for_16_bits(inputs: int) -> None:
    """Of neighbouring weights and activations of 0 to 255, which AVX2 adds without a check."""
    weight_OI = torch.randn(300, inputs) * torch.rand(300, 1)
    weight_OI[0] = 0
    weight_OI[1] = 3.0
    integers_OI, scale_O = quantised(weight_OI)
    sizes_OI = torch.nn.functional.pad(integers_OI.int().abs(), (0, inputs % 2))
    assert (sizes_OI[:, ::2] + sizes_OI[:, 1::2]).max() <= 128
    assert integers_OI.abs().max() == 127 or inputs > 7
    torch.testing.assert_close(integers_OI * scale_O[:, None], weight_OI, rtol=0, atol=0.501 * scale_O.max().item())


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("transformer, lambda", "model.encoder.mixer = 'lambda': the native engine runs "),
        ("bahdanau, mut1, residual", "model.encoder.cell = 'mut1': the native engine runs 'lstm' or 'gru' or"),
        ("luong, layer norm, fed", "model.encoder.cell = 'lstm-layer-norm'"),
        ("bahdanau, location", "model.decoder.wiring.attention = 'location'"),
        ("context, no attention", "model.decoder.wiring = 'context'"),
        ("transformer of patches", "model.encoder.embedding = 'patches'"),
        ("language model, mixed, no attention", "model.decoder.mixer = 'recurrent'"),
        ("classifier, transformer, attention", "model.pooling = 'attention'"),
        ("pointer over recurrent", "model.decoder.type = 'pointer'"),
        ("instant, lstm to dense", "model.decoder.type = 'dense': the native engine runs 'transformer' here"),
        ("hmm", "model.type = 'hmm'"),
    ],
)
def test_it_refuses_other_models_by_their_setting(family: str, setting: str, tmp_path: Path) -> None:
    table = config.resolve(EVERY[family], Model, facts(EVERY[family]), "model")
    with pytest.raises(UserError, match=rf"{re.escape(setting)}.*; predict with --engine torch"):
        write_native(None, table, tmp_path)


def test_it_names_the_model_of_a_mixture_that_it_refuses() -> None:
    table: config.Table = {"type": "ensemble", "models": [EVERY["luong, general"], EVERY["pointer over recurrent"]]}
    with pytest.raises(UserError, match=r"model\.models\[1\]\.decoder\.type = 'pointer': the native engine runs"):
        native_model(None, config.resolve(table, Model, facts(table), "model"))


def test_a_mixture_without_counts_is_the_trained_model_alone() -> None:
    table: config.Table = {"type": "with-counts", "model": EVERY["luong, dot"], "counted": {"type": "joint-ngram"}}
    uncounted: Any = config.build(table, Model, facts(table), "model").eval()
    native = native_model(uncounted, config.resolve(table, Model, facts(table), "model"))
    source, search = sources([5, 9, 2, 4]), Greedy(max_length=8)
    expected = search(uncounted.models[0], source)
    assert [each[0].tokens for each in native.search(search, source)] == [each[0].tokens for each in expected]


def test_it_computes_with_the_threads_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    monkeypatch.setattr(transduce_engine.library.library(), "transduce_set_threads", counts.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model_and_native("luong, dot")
    assert counts == [2]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (
            Exact(),
            "search.type = 'exact': the native engine has greedy and beam and sampling for the model encoder-dec",
        ),
        (Beam(observer=print), "search.observer = "),  # type: ignore[arg-type]
        (LabelSearch(), "search.type = 'labels': "),
    ],
)
def test_it_refuses_other_searches(search: Any, message: str) -> None:
    _, native = model_and_native("luong, dot")
    with pytest.raises(UserError, match=rf"^{re.escape(message)}.*; predict with --engine torch$"):
        native.search(search, sources([3]))


def test_a_prefix_needs_a_search_that_writes_token_by_token() -> None:
    _, native = model_and_native("tagger, lstm")
    with pytest.raises(
        UserError, match=r"^search\.type = 'labels': it does not write token by token, so no output can"
    ):
        native.search(LabelSearch(), sources([3]), Padded.of([[5]]))


def test_an_error_names_no_place_in_a_batch() -> None:
    _, native = model_and_native("transformer, learned positions")
    with pytest.raises(UserError, match=r"^a text of \d+ tokens: the model has positions for \d+$"):
        native.search(Greedy(), Padded.of([[4] * 5000 + [2]]))
    with pytest.raises(UserError, match=r"^id 999 is outside a vocabulary of 9$"):
        native.search(Greedy(), Padded.of([[999, 2]]))


# ---------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer that was hardly trained."""
    folder = tmp_path_factory.mktemp("native")
    stack = {"type": "transformer", "width": 8, "layers": 1, "heads": 2, "feedforward": 16, "positions": "sinusoidal"}
    model = {"type": "encoder-decoder", "encoder": stack, "decoder": stack}
    others = {key: value for key, value in tiny.items() if not key.startswith("model.")}
    table = config.change(recipes.read("reverse"), others) | {"model": model}
    (folder / "run.toml").write_text(config.write(table), encoding="utf-8")
    api.train(folder / "run.toml", folder / "run", device="cpu", progress=False)
    return folder / "run"


LINES = ["a b", "c a b", "d", ""]


def test_a_run_is_exported_and_predicts(run: Path, tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    assert transduce.load(run, engine="native")(LINES) == transduce.load(run)(LINES)  # without an export
    without = transduce.load(run, precision="int8")
    for precision in ("float32", "int8"):
        status, out, err = call("export", run, "--to", "native", "--precision", precision)
        assert status == 0, err
        assert "outputs are equal" in out
        assert ("against float32" in out) == (precision == "int8")
        found = transduce.load(run, engine="native")
        if precision == "float32":
            assert found(LINES) == transduce.load(run)(LINES)
    assert found(LINES) == without(LINES)
    assert identity(run, engine="native", precision="int8") == identity(run) != identity(run, engine="native")
    status, out, err = call(
        "predict", run, "--precision", "int8", stdin=b"".join(f"{line}\n".encode() for line in LINES)
    )
    assert (status, out.splitlines()) == (0, without(LINES)), err
    folder = run / "exports" / "native"
    status, out, err = call("predict", folder, stdin=b"".join(f"{line}\n".encode() for line in LINES))
    assert (status, out.splitlines()) == (0, found(LINES)), err
    status, _, err = call("predict", folder / "model.engine", stdin=b"a b\n")
    assert (status, err.count("\n")) == (2, 1)
    assert "is a part of an export to native and has no tokenizers: name the folder of the export" in err
    with pytest.raises(transduce_engine.EngineError, match="name the folder of the export"):
        transduce_engine.load(folder / "model.engine").answer(["a b"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"has no model\.engine: an earlier version of transduce made it; export the"):
        open_native(tmp_path / "empty", Manifest("native", "float32", "", ""))


def test_several_runs_are_mixed_and_an_export_is_not(run: Path, tmp_path: Path) -> None:
    both = f"{run}+{run}"
    native = transduce.load(both, engine="native", fusion=(0.3, 0.7))
    assert native(LINES) == transduce.load(both, fusion=(0.3, 0.7))(LINES)
    assert json.loads(native.model.engine.note("model"))["model"] == "fusion"  # type: ignore[union-attr, operator]
    folder, _ = export_run(run, "native", tmp_path / "export", sources=LINES)
    with pytest.raises(UserError, match="its engine searches by itself, so it cannot be mixed; name runs, and no exp"):
        transduce.load(f"{folder}+{run}")


def test_requests_are_answered_as_with_pytorch_or_refused(run: Path) -> None:
    ours, native = transduce.load(run), transduce.load(run, engine="native")
    requests = [
        Request("ab", nbest=3),
        Request("ba", prefix="c"),
        Request("abc", target="ab"),
        Request(""),
        Request("abcb", constraints=Constraints(forbidden=["ab", "c"])),
        Request("abc", prefix="c", constraints=Constraints(forbidden=["b"]), nbest=2),
    ]
    for one, two in zip(ours.answer(requests), native.answer(requests), strict=True):
        assert [each.text for each in one.outputs] == [each.text for each in two.outputs]
        assert one.best.log_prob == pytest.approx(two.best.log_prob, abs=1e-4)
        assert one.best.right == two.best.right
    required = [Request("ab", constraints=Constraints(required=["ca"], forbidden=["cb"])), Request("ab")]
    (one, free), (two, other) = (list(each.answer(required, Beam(6))) for each in (ours, native))
    assert [each.text for each in one.outputs] == [each.text for each in two.outputs]
    assert "ca" in two.best.text
    assert free.best.text == other.best.text
    with pytest.raises(RequestError, match="searches by itself and gives whole outputs: leave --stream"):
        list(native.stream("ab"))
    with pytest.raises(RequestError, match=r"search\.type = 'exact': the native engine has greedy"):
        native.changed({"search.type": "exact"})("ab")


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


def test_a_missing_library_is_named(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise transduce_engine.MissingLibraryError("the engine was not built, because no C++ compiler was found")

    monkeypatch.setattr(transduce_engine.engine, "library", missing)
    with pytest.raises(MissingPackageError, match=r"the engine was not built, because no C\+\+ compiler was found"):
        transduce.load(trained, engine="native")
