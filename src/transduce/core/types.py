"""Values that models, searches, objectives and metrics pass to each other. The package protocols has the contracts.

Names end with their shape. B: rows (sentences). K: hypotheses per sentence. N: rows of any kind. S: source positions.
T: target positions. D: features. V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:  # tokenizers and the exports for CTranslate2 need these values where PyTorch is not installed
    import torch
    from torch import Tensor

T_co = TypeVar("T_co", covariant=True)

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""The special tokens, at the same ids in every vocabulary; CTC's blank is PAD."""


class Factory(Protocol[T_co]):
    """A constructor with some arguments already given. For example, a stack of N layers needs N cells, so it receives a
    factory of cells.

    A parameter annotated ``Factory[T]`` receives a configuration's table as a partial constructor. The holder calls it
    with the arguments that only the holder knows (widths, parameters).
    """

    def __call__(self, *args: Any, **kwargs: Any) -> T_co: ...


def real_mask(lengths_B: Tensor, size: int) -> Tensor:
    """[B, size], True at real positions: the first ``lengths_B`` of each row."""
    import torch

    return torch.arange(size, device=lengths_B.device) < lengths_B[:, None]


def widened(dtype: torch.dtype) -> torch.dtype:
    """float32 for a type of fewer bits, otherwise the type itself. Positions, sums and log-probabilities need more than
    16 bits.
    """
    import torch

    return torch.promote_types(dtype, torch.float32)


@dataclass(frozen=True)
class Padded:
    """Rows of unequal length in one tensor: values [B, S] (ids or numbers) or [B, S, D] (features), lengths [B].

    The first ``lengths`` positions of a row are real. Values past them have no meaning.
    """

    values: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sized], dtype: torch.dtype | None = None) -> Padded:
        """Pads rows at their end with PAD (0) to one batch on the CPU. A row has ids or numbers [S], or steps [S, D].

        If ``dtype`` is None, the type follows from the rows.
        """
        import torch
        from torch.nn.utils.rnn import pad_sequence

        if len(rows) == 1 and isinstance(rows[0], list):  # a request that came alone: nothing to pad
            return cls(torch.tensor(rows, dtype=dtype), torch.tensor([len(rows[0])]))
        values = pad_sequence([torch.as_tensor(row, dtype=dtype) for row in rows], batch_first=True, padding_value=PAD)
        return cls(values, torch.tensor([len(row) for row in rows]))

    @property
    def mask(self) -> Tensor:
        """[B, S], True at real positions."""
        return real_mask(self.lengths, self.values.shape[1])

    def to(self, device: torch.device) -> Padded:
        return Padded(self.values.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class Memory:
    """An encoder's result, which a decoder starts from and attends to.

    ``states`` [B, S, D] are the keys of attention. ``values`` [B, S, D], if given, are its values (Gehring et al.
    2017); otherwise ``states`` are both. ``summary`` is a tree of [B, D'] tensors for a decoder's first state, for
    example the last h and c of each layer, or an average. ``source`` is the input itself, for copying.
    """

    states: Padded
    summary: object
    source: Padded
    values: Tensor | None = None

    @property
    def read_BSD(self) -> Tensor:
        """The values that attention averages: ``values`` if given, otherwise the ``states``."""
        return self.states.values if self.values is None else self.values


@dataclass(frozen=True)
class Emission:
    """All positions of an output at once. ``output`` has features [B, T, ...]; the first ``lengths`` [B] are real.

    Lengths do not count EOS. ``length_log_probs`` [B, L] are log p(n | x) for n = 0 to L - 1. They are None if the
    length follows from the source.
    """

    output: object
    lengths: Tensor
    length_log_probs: Tensor | None = None

    @property
    def mask(self) -> Tensor:
        """[B, T], True at real positions."""
        from transduce.core import tree

        return real_mask(self.lengths, tree.leaves(self.output)[0].shape[1])

    @property
    def end_log_probs(self) -> Tensor:
        """[B]: the log-probability of each row's length; 0 if the length follows from the source."""
        if self.length_log_probs is None:
            import torch

            return torch.zeros(self.lengths.shape, device=self.lengths.device)
        return self.length_log_probs.gather(1, self.lengths[:, None])[:, 0]


@dataclass(frozen=True)
class MemoryWidths:
    """The widths of a memory: the last axis of its ``states`` and the last axes of its ``summary``'s leaves."""

    states: int
    summary: tuple[int, ...]


@dataclass(frozen=True)
class Hypothesis:
    """One output: its ``tokens`` including EOS, their log-probabilities, and the ``score`` that the search ranks by.

    ``log_prob`` is the sum of ``token_log_probs`` (natural logarithm). If a model emits all tokens at once, the
    log-probability of EOS is the log-probability of the length, or 0 if the length follows from the source.
    ``Search.force`` also gives ``best_log_probs``, the log-probability of the model's first choice at each position,
    and ``right``, whether the given token is that choice. The first choice is the one token that the search would
    write, also if several are equally probable. Both leave out an end that follows from the source.

    A ``Regressor``'s tokens are numbers. Numbers that ``Search.force`` scored have log-densities. Numbers that the
    model forecast have ``log_prob`` and ``score`` 0. If the model is a ``Density``, they also have ``deviations``: the
    standard deviation of each number. All are in scaled units.
    """

    tokens: tuple[Any, ...]  # ids, or numbers
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...] = ()
    best_log_probs: tuple[float, ...] = ()
    right: tuple[bool, ...] = ()
    deviations: tuple[float, ...] = ()


@dataclass(frozen=True)
class Forecasts:
    """Normal distributions of numbers: their ``mean`` and their standard ``deviation``, [B, T, C] each."""

    mean: Tensor
    deviation: Tensor


@dataclass(frozen=True)
class PhraseOptions:
    """The translations of all source phrases of B sources: O options, sorted by row, start and end.

    Option o translates the source tokens from ``start_O`` to ``end_O`` (exclusive) of row ``row_O`` by the first
    ``length_O`` (at least 1) of the target ids ``tokens_OP``. ``links_OP`` has for each target id the source token that
    it comes from, counted from the option's first; -1 for none. ``features_OF`` are the option's own features.
    ``orientation_O6`` are log-probabilities of monotone, swap and discontinuous: three for the option's own place after
    the phrase before it, then three for the place of the phrase after it. ``lengths_B`` are the lengths of the sources
    without EOS. Each token of a source is an option of its own, so each source has a translation.
    """

    row_O: Tensor
    start_O: Tensor
    end_O: Tensor
    tokens_OP: Tensor
    length_O: Tensor
    links_OP: Tensor
    features_OF: Tensor
    orientation_O6: Tensor
    lengths_B: Tensor


@dataclass(frozen=True)
class Step:
    """One phrase of a derivation. ``source`` and ``target`` are its spans of tokens (start, exclusive end), and
    ``features`` are the features that the step adds.

    ``links`` has for each target token the source token that it comes from, -1 for none. The last step writes EOS; its
    source span is empty. ``outside`` is the weighted log-probability by a language model of the search, which is no
    feature of the model.
    """

    source: tuple[int, int]
    target: tuple[int, int]
    features: tuple[float, ...]
    links: tuple[int, ...] = ()
    outside: float = 0.0


@dataclass(frozen=True)
class Derivation:
    """One output of a model that is ``Deriving``: its ``tokens`` including EOS, and the ``steps`` that wrote them.

    ``features`` are summed over the steps. ``score`` is the weighted sum of the features, plus the sum of the steps'
    ``outside``. It is no log-probability of the output: several derivations may write the same tokens, and scores are
    not normalised. So a derivation has no ``log_prob``.
    """

    tokens: tuple[int, ...]
    score: float
    features: tuple[float, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Chunk:
    """Says that the targets of a batch are parts of a longer text, each with its own text before it.

    ``history`` [B, C], C >= 1, are the tokens before the target that the model reads; BOS stands before the beginning
    of the text. If ``carried`` is True, the state after this batch is for the next one. If ``continues`` is True, the
    batch begins with the state that was carried to it, and otherwise with the model's first state.
    """

    history: Tensor
    carried: bool = False
    continues: bool = False


@dataclass(frozen=True)
class Batch:
    """Encoded pairs. ``source`` and ``target`` (ids or numbers) both end with EOS, and their lengths count it.

    ``ids`` [B] are the row numbers of the examples in their corpus. If ``chunk`` is given, the targets are parts of a
    longer text. They may then have EOS at any place, and need not end with it; ``ids`` are the rows' numbers from 0.
    """

    source: Padded
    target: Padded
    ids: Tensor
    chunk: Chunk | None = None

    def to(self, device: torch.device) -> Batch:
        chunk = self.chunk and replace(self.chunk, history=self.chunk.history.to(device))
        return Batch(self.source.to(device), self.target.to(device), self.ids, chunk)


@dataclass(frozen=True)
class Loss:
    """Sums, not means: the training loop divides once, after accumulation and after all ranks.

    ``total`` is differentiated. ``count`` is the number of target tokens. ``parts`` are reported per token, for example
    ``nll``: the cross-entropy without smoothing. ``tallies`` are reported as sums, for example the pairs ``skipped``.
    """

    total: Tensor
    count: int
    parts: dict[str, Tensor] = field(default_factory=dict)
    tallies: dict[str, int] = field(default_factory=dict)

    @property
    def plain(self) -> Tensor:
        """``parts["nll"]`` if the objective reports it, otherwise ``total``: a sum, without gradient.

        Unlike the total, ``nll`` does not depend on options such as smoothing.
        """
        return self.parts.get("nll", self.total).detach()


@dataclass(frozen=True)
class Facts:
    """Facts that only the data knows. Constructors receive them by parameter name.

    The vocabulary of a numeric side is its number of channels. ``source_words`` counts words with an embedding of their
    own beside the embeddings of their pieces. Their ids follow the ids of the vocabulary. The last ``source_shapes``
    ids of the source vocabulary stand for shapes of words. ``copies`` has for each source id the target id of the same
    text, or PAD. It is empty if one side is not text. ``target_entries`` are the pieces of text of all target ids. It
    is empty if the target is not text, or has ids that are no pieces, such as labels. ``placeholders`` are the target
    ids that stand for the next word of the source, such as XX of the unit "tree-brackets".
    """

    source_vocabulary: int
    target_vocabulary: int
    source_factors: int = 1  # ids of each source token
    source_words: int = 0
    source_shapes: int = 0
    copies: tuple[int, ...] = ()
    target_entries: tuple[str, ...] = ()
    placeholders: tuple[int, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The facts that are numbers, by name: all but the tuples."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}


@dataclass(frozen=True)
class Example:
    """A raw source and all its reference targets (empty if unknown). ``corpus`` names the corpus that it comes from, if
    its split has several.
    """

    source: str
    references: tuple[str, ...] = ()
    corpus: str = ""


@dataclass(frozen=True)
class Prediction:
    """A raw output and its log-probability (natural logarithm), which is None if the model gives outputs none.

    The fields ``forced_...`` describe the first reference. They are None unless the caller asked for them. ``text`` is
    empty if only the reference was requested. ``deviations`` has the standard deviation of each number of a forecast,
    in the order and the units of ``text``. It is empty if the model gives none.
    """

    text: str
    log_prob: float | None = 0.0
    forced_log_prob: float | None = None  # of the first reference, teacher-forced
    forced_length: int | None = None  # number of its tokens; includes EOS if the model chooses where to end
    forced_right: int | None = None  # number of these tokens that are the model's first choice
    deviations: tuple[float, ...] = ()
    forced_context: str = ""  # the text before the line that the model read (``TextContext.signature``); empty for none
    forced_end: bool = True  # whether these tokens include EOS: False for a tagger or a classifier
    cut: bool = False  # whether the search ended the output, and not the model
