"""A decoder that reads the source from left to right and writes by edits: hard monotonic attention, summed exactly.

B sources, K hypotheses of each, N = B * K rows; S source positions, T target positions, H hidden features, V target
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Bridge, Cell, S
from transduce.core.tree import Shared
from transduce.core.types import EOS, PAD, Factory, Memory, MemoryWidths, real_mask, widened
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.layers.modules.linear import linear, projection
from transduce.layers.modules.recurrent import Stack, State

NEVER = -1e4  # the logit of an action that is impossible: finite, so that differences and gradients are defined
LEAST = 1e-30  # a probability below which a token counts as impossible: its logarithm and its gradient are finite


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

    Two tensors are joint probabilities of the pointer's position s and of the next token, given the tokens so far:
    ``written_NSV`` that v is inserted at s, ``copied_NS`` that the token at s is copied. Before the first token they
    are placeholders: after it, which is BOS, the pointer is at position 0.
    """

    cells: State
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
        cell: Factory[Cell[S]],
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
        copied_BS = torch.zeros_like(source.states_BSH[..., 0], dtype=widened(states_BSD.dtype))
        written_BSV = copied_BS.new_zeros(*copied_BS.shape, self.width)
        written_BSV[:, 0] = 1.0  # the first token that is read is BOS
        cells = tree.fill(empty, self.bridge(tree.leaves(memory.summary)))
        return EditState(cells, written_BSV, copied_BS, Shared(source))

    def extend(self, tokens_NT: Tensor, state: EditState) -> tuple[Tensor, EditState]:
        source = state.source.value
        d_NTW, cells = self.stack.unroll(self.dropout(self.embedding(tokens_NT)), state.cells)
        p_NTSA = self._actions(d_NTW, source)
        with torch.autocast(p_NTSA.device.type, enabled=False):
            insert_NTSV, copy_NTS = p_NTSA[..., : self.width], p_NTSA[..., -1]
            at_NTS = self._places(tokens_NT, p_NTSA, state)
            p_NTV = (at_NTS[..., None, :] @ insert_NTSV).squeeze(-2)
            copied_NTS = at_NTS * copy_NTS
            copy_NTS = _per_row(source.copy_BS, len(tokens_NT))[:, None].expand_as(copied_NTS)
            log_p_NTV = p_NTV.scatter_add(-1, copy_NTS, copied_NTS).clamp(min=LEAST).log()
        written_NSV = at_NTS[:, -1, :, None] * insert_NTSV[:, -1]
        return log_p_NTV, EditState(cells, written_NSV, copied_NTS[:, -1], state.source)

    def _places(self, tokens_NT: Tensor, p_NTSA: Tensor, state: EditState) -> Tensor:
        """[N, T, S]: the probability that the pointer passes position s after the tokens y_<t, of which the last is
        ``tokens_NT[:, t]``: the forward recursion.
        """
        (N, T, S, _), source = p_NTSA.shape, state.source.value
        real_NS = _per_row(real_mask(source.lengths_B, S), N)
        is_copy_NTS = tokens_NT[:, :, None] == _per_row(source.copy_BS, N)[:, None]
        token_NTS1 = tokens_NT[..., None, None].expand(N, T, S, 1)
        inserted_NTS = p_NTSA[:, :-1].gather(-1, token_NTS1[:, 1:])[..., 0]
        copied_NTS = p_NTSA[:, :-1, :, -1] * is_copy_NTS[:, 1:]
        reach_NTSS = _reach(p_NTSA[..., -2], real_NS)
        at_NS = state.written_NSV.gather(-1, token_NTS1[:, 0])[..., 0]
        at_NS = at_NS + _advanced(state.copied_NS * is_copy_NTS[:, 0])
        places = []
        for t in range(T):
            if t:
                at_NS = at_NS * inserted_NTS[:, t - 1] + _advanced(at_NS * copied_NTS[:, t - 1])
            at_NS = at_NS + LEAST * real_NS  # even after tokens that are impossible
            at_NS = ((at_NS / at_NS.sum(-1, keepdim=True))[..., None] * reach_NTSS[:, t]).sum(1)
            places.append(at_NS)
        return torch.stack(places, 1)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        """log p(v | tokens so far, source) [..., V] of all tokens, or [..., C] of the ``candidates``: a new tensor."""
        return output.clone() if candidates is None else output.index_select(-1, candidates)

    def _actions(self, d_NTW: Tensor, source: EditSource) -> Tensor:
        """[N, T, S, V + 2]: the probabilities to insert each token at each position, to delete the token there, and to
        copy it. Positions after the source's end have values without a meaning.
        """
        N, S = len(d_NTW), source.states_BSH.shape[1]
        h_NTSH = torch.tanh(_per_row(source.states_BSH, N)[:, None] + self.remember(self.dropout(d_NTW))[:, :, None])
        weight_AH = torch.cat([self.projection.weight, self.moves.weight])
        logits_NTSA = linear(h_NTSH, weight_AH, torch.cat([self.projection.bias, self.moves.bias]))
        last_BS = torch.arange(S, device=d_NTW.device) >= source.lengths_B[:, None] - 1
        excluded_BSA = logits_NTSA.new_zeros(*last_BS.shape, self.width + 2)
        excluded_BSA[..., EOS].masked_fill_(~last_BS, NEVER)
        excluded_BSA[..., -2].masked_fill_(last_BS, NEVER)
        excluded_BSA[..., -1].masked_fill_(source.copy_BS == PAD, NEVER)
        return (logits_NTSA + _per_row(excluded_BSA, N)[:, None]).softmax(-1, widened(logits_NTSA.dtype))

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
        return self.copies[id_BS]


def _reach(delete_NTS: Tensor, real_NS: Tensor) -> Tensor:
    """[N, T, S, S]: the probability that a pointer at the first position reaches the second one by deletions alone. It
    is 0 for positions before the first one and after the source's end.
    """
    moved_NTS = delete_NTS.clamp(min=LEAST).log()
    moved_NTS = moved_NTS.cumsum(-1) - moved_NTS
    S = real_NS.shape[1]
    possible_NSS = real_NS.new_ones(S, S).triu() & real_NS[:, None]
    log_p_NTSS = (moved_NTS[:, :, None] - moved_NTS[..., None]).masked_fill(~possible_NSS[:, None], NEVER)
    return log_p_NTSS.exp()


def _advanced(p_NS: Tensor) -> Tensor:
    """Moves each position's probability to the next position."""
    return nn.functional.pad(p_NS[:, :-1], (1, 0))


def _per_row(x_B: Tensor, N: int) -> Tensor:
    """[N, ...]: each source's row of [B, ...], repeated for its N / B hypotheses, which are adjacent. The tensor itself
    if N is B.
    """
    B = len(x_B)
    return x_B if B == N else x_B.repeat_interleave(N // B, 0)
