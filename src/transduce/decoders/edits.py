"""A decoder that reads the source from left to right and writes by edits: hard monotonic attention, summed exactly.

B sources, K hypotheses of each, N = B * K rows; S source positions, T target positions, H hidden features, V target
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transduce import tree
from transduce.errors import UserError
from transduce.modules.dropout import Dropout
from transduce.modules.embedding import Readout, TokenEmbedding
from transduce.modules.linear import projection
from transduce.modules.recurrent import Stack
from transduce.protocols import Bridge, Cell
from transduce.tree import Shared
from transduce.types import EOS, PAD, Factory, Memory, MemoryWidths, real_mask

NEVER = -1e4  # the logarithm of a probability that is 0: finite, so that differences and gradients are defined


@dataclass(frozen=True)
class EditSource:
    """The source as the edits see it: the projected states [B, S, H], their ``lengths`` [B] (EOS counts), and
    ``copy_BS``, the target id that a copy of each position writes. It is PAD where nothing can be copied.
    """

    states_BSH: Tensor
    lengths_B: Tensor
    copy_BS: Tensor


@dataclass(frozen=True)
class EditState:
    """The state of ``EditDecoder``. ``cells`` is the state of the recurrent cells.

    Two tensors are joint log-probabilities of the pointer's position s and of the next token, given the tokens so far:
    ``written_NSV`` that v is inserted at s, ``copied_NS`` that the token at s is copied. Before the first token they
    are placeholders: after it, which is BOS, the pointer is at position 0.
    """

    cells: Any
    written_NSV: Tensor
    copied_NS: Tensor
    source: Shared[EditSource]


class EditDecoder(nn.Module):
    """Writes by edits, with a pointer that only moves forward, and sums over all ways to write the same tokens.

    The pointer starts at the first source position. An edit copies the source token at the pointer and advances it by
    one, deletes this token (only advances), or inserts a token (writes it, and stays). An insertion and a deletion
    together substitute. The last position is the source's EOS, which cannot be deleted. Only there the decoder can
    write EOS, which ends the output.

    The features of position s after the tokens y_<t are h = tanh(U m_s + W d_t + b), where m_s is the memory's state
    and d_t the cells' output. One softmax gives p(delete), p(copy) and p(insert v), the actions of Makarov and
    Clematide 2018. The probability of a token is the sum over all pointer positions, p(y_t = v | y_<t, x) = sum_s
    a_t(s) p(v | s, t). The forward recursion over t gives a_t exactly, as in Wu and Cotterell 2019, "Exact hard
    monotonic attention", and in Graves 2012, whose transducer has no copy. So the decoder is autoregressive, and a loss
    of its outputs trains it by exact dynamic programming.

    ``copies`` has for each source id the target id of the same text, or PAD; the data give it. If all are PAD, if it is
    empty, or if ``copy`` is False, nothing is copied. ``cell``, ``bridge``, ``layers`` and the widths are as in the
    decoder ``recurrent``, and ``hidden`` is H. A teacher-forced batch needs about B * T * S * (H + V) numbers, so this
    suits words more than long texts. Raises UserError without a source, and at the start of a batch if something can be
    copied and the encoder does not leave one state for each source id.
    """

    copies: Tensor

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        cell: Factory[Cell[Any]],
        bridge: Factory[Bridge],
        copies: Sequence[int],
        copy: bool = True,
        embedding_width: int = 64,
        width: int = 128,
        layers: int = 1,
        hidden: int = 128,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if not memory.states:
            raise UserError("edits read a source, and there is none: a language model needs another decoder")
        self.embedding = TokenEmbedding(target_vocabulary, embedding_width, scaled=False)
        self.dropout = Dropout(dropout)
        self.stack = Stack(cell, embedding_width, width, layers, dropout)
        template = self.stack.start(1, self.embedding.weight)
        self.bridge = bridge(
            summary_widths=memory.summary, state_widths=tuple(leaf.shape[-1] for leaf in tree.leaves(template))
        )
        self.width = target_vocabulary
        self.read = projection(memory.states, hidden)
        self.remember = projection(width, hidden, bias=False)
        self.projection = Readout(hidden, target_vocabulary)
        self.moves = projection(hidden, 2)  # advance, copy
        self.register_buffer("copies", torch.tensor(copies if copy else (), dtype=torch.long), False)

    def start(self, memory: Memory) -> EditState:
        states_BSD = memory.states.values
        empty = self.stack.start(states_BSD.shape[0], states_BSD)
        source = EditSource(self.read(states_BSD), memory.states.lengths, self._copied(memory))
        at_BS = torch.full_like(source.states_BSH[..., 0], NEVER)
        at_BS[:, 0] = 0.0
        written_BSV = at_BS[..., None].expand(-1, -1, self.width).contiguous()  # whatever is read first: it is BOS
        copied_BS = torch.full_like(at_BS, NEVER)
        cells = tree.fill(empty, self.bridge(tree.leaves(memory.summary)))
        return EditState(cells, written_BSV, copied_BS, Shared(source))

    def extend(self, tokens_NT: Tensor, state: EditState) -> tuple[Tensor, EditState]:
        source = state.source.value
        d_NTW, cells = self.stack.unroll(self.dropout(self.embedding(tokens_NT)), state.cells)
        delete_NTS, copy_NTS, insert_NTSV = self._actions(d_NTW, source)
        N, T, S = copy_NTS.shape
        # the log-probability to move from position 0 to s by deletions: the sum of those before s
        moved_NTS = delete_NTS.cumsum(-1) - delete_NTS
        real_NS = _per_row(real_mask(source.lengths_B, S), N)
        is_copy_NTS = tokens_NT[:, :, None] == _per_row(source.copy_BS, N)[:, None]
        column_NTS1 = tokens_NT[..., None, None].expand(N, T, S, 1)
        inserted_NTS = insert_NTSV[:, :-1].gather(-1, column_NTS1[:, 1:])[..., 0]
        written_NS, copied_NS = state.written_NSV.gather(-1, column_NTS1[:, 0])[..., 0], state.copied_NS
        places = []
        for t in range(T):
            at_NS = _after(written_NS, copied_NS.masked_fill(~is_copy_NTS[:, t], NEVER), real_NS)
            moved_NS = moved_NTS[:, t]
            at_NS = (moved_NS + (at_NS - moved_NS).logcumsumexp(-1)).masked_fill(~real_NS, NEVER)
            places.append(at_NS)
            copied_NS = at_NS + copy_NTS[:, t]
            if t + 1 < T:
                written_NS = at_NS + inserted_NTS[:, t]
        at_NTS = torch.stack(places, 1)
        written_NTSV = at_NTS[..., None] + insert_NTSV
        log_p_NTV = self._with_copies(written_NTSV, at_NTS + copy_NTS, source).logsumexp(2)
        return log_p_NTV, EditState(cells, written_NTSV[:, -1], copied_NS, state.source)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        """log p(v | tokens so far, source) [..., V] of all tokens, or [..., C] of the ``candidates``: a new tensor."""
        return output.clone() if candidates is None else output.index_select(-1, candidates)

    def _actions(self, d_NTW: Tensor, source: EditSource) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities of deleting and of copying the token at each position, [N, T, S] each, and of inserting
        each token there, [N, T, S, V]. At each position before the last they are one softmax. The deletion at the last
        position and after it, which is impossible, has 0 instead of its log-probability, so that sums of deletions
        ignore it.
        """
        N, S = len(d_NTW), source.states_BSH.shape[1]
        states_N1SH = _per_row(source.states_BSH, N)[:, None]
        h_NTSH = torch.tanh(states_N1SH + self.remember(self.dropout(d_NTW))[:, :, None])
        last_NS = torch.arange(S, device=d_NTW.device) >= _per_row(source.lengths_B - 1, N)[:, None]
        last_N1S1 = last_NS[:, None, :, None]
        uncopied_N1S1 = _per_row(source.copy_BS == PAD, N)[:, None, :, None]
        delete_NTS1, copy_NTS1 = self.moves(h_NTSH).split(1, -1)
        ends_V = torch.arange(self.width, device=d_NTW.device) == EOS
        insert_NTSV = self.projection(h_NTSH).masked_fill(ends_V & ~last_N1S1, NEVER)
        delete_NTS1 = delete_NTS1.masked_fill(last_N1S1, NEVER)
        copy_NTS1 = copy_NTS1.masked_fill(uncopied_N1S1, NEVER)
        log_p_NTSA = torch.cat([insert_NTSV, delete_NTS1, copy_NTS1], -1).log_softmax(-1)
        return log_p_NTSA[..., -2].masked_fill(last_NS[:, None], 0.0), log_p_NTSA[..., -1], log_p_NTSA[..., :-2]

    def _with_copies(self, written_NTSV: Tensor, copied_NTS: Tensor, source: EditSource) -> Tensor:
        """The joint log-probability [N, T, S, V] that the pointer is at s and that the next token is v, inserted or
        copied.
        """
        if not len(self.copies):
            return written_NTSV
        copy_N1S1 = _per_row(source.copy_BS, len(copied_NTS))[:, None, :, None]
        index_NTS1 = copy_N1S1.expand(*copied_NTS.shape, 1)
        own_NTS1 = written_NTSV.gather(-1, index_NTS1)
        gain_NTS1 = torch.logaddexp(copied_NTS[..., None] - own_NTS1, torch.zeros_like(own_NTS1))
        return written_NTSV.scatter_add(-1, index_NTS1, gain_NTS1.masked_fill(copy_N1S1 == PAD, 0.0))

    def _copied(self, memory: Memory) -> Tensor:
        """[B, S]: the target id that a copy of each source position writes, or PAD. All are PAD without ``copies``.
        Raises UserError if there are ``copies`` and the memory does not have one state for each source id.
        """
        B, S = memory.states.values.shape[:2]
        if not len(self.copies):
            return torch.zeros(B, S, dtype=torch.long, device=memory.states.values.device)
        id_BS = memory.source.values
        if id_BS.shape != (B, S):
            raise UserError(
                f"the encoder leaves {(B, S)} states [rows, positions] for a source of {tuple(id_BS.shape)}: to copy, "
                "edits need an encoder with one state for each token it reads; set model.decoder.copy=false"
            )
        copied_BS: Tensor = self.copies[id_BS]
        return copied_BS


def _after(written_NS: Tensor, copied_NS: Tensor, real_NS: Tensor) -> Tensor:
    """log p(pointer is at s | tokens so far) [N, S], right after a token and before any deletion that follows it.

    ``written_NS`` and ``copied_NS`` are the joint log-probabilities of this token and of the position where it was
    inserted or copied. An insertion leaves the pointer where it is; a copy moves it to the next position.
    """
    advanced_NS = nn.functional.pad(copied_NS[:, :-1], (1, 0), value=NEVER)
    return torch.logaddexp(written_NS, advanced_NS).masked_fill(~real_NS, NEVER).log_softmax(-1)


def _per_row(x_B: Tensor, N: int) -> Tensor:
    """[N, ...]: each source's row of [B, ...], repeated for its N / B hypotheses, which are adjacent. The tensor itself
    if N is B.
    """
    B = len(x_B)
    return x_B if B == N else x_B.repeat_interleave(N // B, 0)
