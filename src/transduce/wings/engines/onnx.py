"""Exported ONNX graphs as models that follow this package's protocols, so that its own searches run them.

B sources, K hypotheses of each, N = B * K rows, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.chain import Trellis
from transduce.core.config import Table
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.types import Emission, Padded
from transduce.models.mixtures import Fusion
from transduce.runs.manifest import Manifest
from transduce.wings.ctc.prefixes import Prefixes

Leaf = tree.Shared[Tensor] | tree.Buffer | Tensor


class Session:
    """One graph, which onnxruntime runs on the CPU with this many ``threads``. A call takes tensors in the order of the
    graph's inputs, and returns the graph's outputs as tensors. Raises MissingPackageError if onnxruntime is not
    installed, and UserError for a file that is no graph, or a graph that does not fit its export.json.
    """

    def __init__(self, path: Path, threads: int) -> None:
        runtime = _onnxruntime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.x64quantprecision", "1")  # no overflow where there is no VNNI
        self._path = path
        try:
            self._run = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common class
            raise UserError(f"{path} is no graph that onnxruntime reads: {_line(error)}; export again") from error
        self._inputs = [each.name for each in self._run.get_inputs()]

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        if len(tensors) != len(self._inputs):
            raise UserError(
                f"{self._path} has {len(self._inputs)} inputs, and its export.json says {len(tensors)}: the files do "
                "not belong together; export the run again"
            )
        feeds = {name: tensor.numpy() for name, tensor in zip(self._inputs, tensors, strict=True)}
        try:
            return [torch.from_numpy(array) for array in self._run.run(None, feeds)]
        except Exception as error:
            raise UserError(f"{self._path}: onnxruntime cannot run this graph: {_line(error)}; export again") from error


def _line(error: Exception) -> str:
    """An error's text in one line, shortened."""
    return " ".join(str(error).split())[:200]


class OnnxModel(nn.Module):
    """The base of exported models: their graphs by name, and what export.json says of each."""

    def __init__(self, sessions: Mapping[str, Session], graphs: Table) -> None:
        super().__init__()
        self.sessions = sessions
        self.graphs = graphs

    def of_source(self, graph: str, source: Padded) -> list[Tensor]:
        """The outputs, in order, of the graph with the name ``graph``, whose inputs are the values and the lengths of a
        source.
        """
        return self.sessions[graph]([source.values.contiguous(), source.lengths])


class OnnxAutoregressive(OnnxModel):
    """``Autoregressive`` by the graphs "start" and "step". ``extend`` returns the logits of the next token after each
    position, and ``readout`` only selects ``candidates`` from them.

    The state is a tuple of leaves. Each is ``Shared``, a ``Buffer`` or a tensor, as export.json says.
    """

    def start(self, source: Padded) -> tuple[Leaf, ...]:
        return tuple(map(_marked, self.graphs["step"]["kinds"], self.of_source("start", source)))

    def extend(self, tokens_NT: Tensor, state: tuple[Leaf, ...]) -> tuple[Tensor, tuple[Leaf, ...]]:
        every = []
        for token_N in tokens_NT.unbind(1):
            logits_NV, state = self._step(token_N, state)
            every.append(logits_NV)
        return every[0][:, None] if len(every) == 1 else torch.stack(every, 1), state

    def _step(self, token_N: Tensor, state: tuple[Leaf, ...]) -> tuple[Tensor, tuple[Leaf, ...]]:
        graph = self.graphs["step"]
        N = token_N.shape[0]
        B = next((leaf.value.shape[0] for leaf in state if isinstance(leaf, tree.Shared)), N)
        state = tuple(_with_room(leaf) for leaf in state)
        tensors = [token_N.view(B, -1)]
        for leaf in state:
            if isinstance(leaf, tree.Shared):
                tensors.append(leaf.value)
            else:
                own = leaf.values if isinstance(leaf, tree.Buffer) else leaf
                tensors.append(torch.unflatten(own, 0, (B, N // B)))
        logits_BKV, *changed = self.sessions["step"](tensors)
        after = list(state)
        for place, leaf in zip(graph["changing"], changed, strict=True):
            own = leaf.flatten(0, 1)
            before = state[place]
            after[place] = tree.Buffer(own, before.reserved) if isinstance(before, tree.Buffer) else own
        return logits_BKV.flatten(0, 1), tuple(after)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


def _marked(kind: str, leaf: Tensor) -> Leaf:
    return tree.Shared(leaf) if kind == "shared" else tree.Buffer(leaf) if kind == "buffer" else leaf


def _with_room(leaf: Leaf) -> Leaf:
    """The leaf. A buffer that no search has reserved gets room for one more position, as ``Buffer.write`` gives it;
    everything else does not change.
    """
    if not isinstance(leaf, tree.Buffer) or leaf.reserved:
        return leaf
    return tree.Buffer(nn.functional.pad(leaf.values, (0, 0, 0, 1)))


class OnnxCTC(OnnxModel):
    """CTC by the graph "frames": ``Framewise``, and ``Autoregressive`` by the sums over alignments of each prefix
    (``ctc.prefixes``), which PyTorch computes.
    """

    def frames(self, source: Padded) -> Padded:
        return Padded(*self.of_source("frames", source))

    def start(self, source: Padded) -> Prefixes:
        return Prefixes.start(self.frames(source))

    def extend(self, tokens_NT: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        return state.extend(tokens_NT)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


class OnnxJoint(OnnxModel):
    """A decoder and CTC over the same source: ``Framewise`` by the graph "frames", and ``Autoregressive`` by the
    weighted sum of the log-probabilities of both. The weights are a note of the graph "frames". Each of the two graphs
    "start" and "frames" has the encoder.
    """

    def __init__(self, sessions: Mapping[str, Session], graphs: Table) -> None:
        super().__init__(sessions, graphs)
        parts = [OnnxAutoregressive(sessions, graphs), OnnxCTC(sessions, graphs)]
        self.mixture = Fusion(parts, graphs["frames"]["weights"], renormalise=False)

    def frames(self, source: Padded) -> Padded:
        return Padded(*self.of_source("frames", source))

    def start(self, source: Padded) -> tuple[object, ...]:
        return self.mixture.start(source)

    def extend(self, tokens_NT: Tensor, state: tuple[object, ...]) -> tuple[object, tuple[object, ...]]:
        return self.mixture.extend(tokens_NT, state)

    def readout(self, output: tuple[object, ...], candidates: Tensor | None = None) -> Tensor:
        return self.mixture.readout(output, candidates)


class OnnxChain(OnnxModel):
    """``Chain`` by the graph "trellis"."""

    def trellis(self, source: Padded) -> Trellis:
        return Trellis(*self.of_source("trellis", source))


class OnnxLabels(OnnxModel):
    """``Parallel`` for models whose output length is given by the source: the graph "emit" gives the logits and the
    lengths. ``emit`` raises UserError for other lengths.
    """

    def start(self, source: Padded) -> Padded:
        return Padded(*self.of_source("emit", source))

    def emit(self, state: Padded, lengths: Tensor | None = None) -> Emission:
        if lengths is not None and not torch.equal(lengths, state.lengths):
            row = int((lengths != state.lengths).nonzero()[0])
            raise UserError(
                f"a target of {int(lengths[row])} labels, and its source takes {int(state.lengths[row])}: give one for "
                "each"
            )
        longest = max(1, int(state.lengths.max()))
        return Emission(state.values[:, :longest], state.lengths)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


class OnnxInstant(OnnxModel):
    """``Parallel`` with a choice of length, by the graphs "start" and "write". ``emit`` raises UserError for an output
    that is longer than the model writes.
    """

    def start(self, source: Padded) -> tuple[Tensor, ...]:
        return tuple(self.of_source("start", source))

    def emit(self, state: tuple[Tensor, ...], lengths: Tensor | None = None) -> Emission:
        length_log_probs = state[-1]
        lengths = length_log_probs.argmax(-1) if lengths is None else lengths
        longest, most = int(lengths.max()), length_log_probs.shape[1] - 1
        if longest > most:
            raise UserError(f"an output of {longest} tokens: this model writes at most {most}")
        places_T = torch.zeros(max(1, longest), dtype=torch.long)
        (logits_NTV,) = self.sessions["write"]([places_T, lengths, *state])
        return Emission(logits_NTV, lengths, length_log_probs)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output.clone() if candidates is None else output.index_select(-1, candidates)


CLASSES: dict[str, type[OnnxModel]] = {
    "autoregressive": OnnxAutoregressive,
    "ctc": OnnxCTC,
    "joint": OnnxJoint,
    "chain": OnnxChain,
    "labels": OnnxLabels,
    "instant": OnnxInstant,
}


def open_onnx(folder: Path, manifest: Manifest) -> OnnxModel:
    """The model of the export in ``folder``: all its graphs, one session each. Raises MissingPackageError if
    onnxruntime is not installed.
    """
    files = sorted(path for path in folder.glob("*.onnx"))
    sessions = {path.stem: Session(path, torch.get_num_threads()) for path in files}
    return CLASSES[manifest.graphs["model"]](sessions, manifest.graphs).eval()


def _onnxruntime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "an export for onnx needs onnxruntime, which is not installed: pip install 'transduce[onnx]'"
        ) from error
    library: ModuleType = onnxruntime
    return library
