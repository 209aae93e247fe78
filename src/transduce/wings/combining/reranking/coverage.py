"""How much attention an output pays to each part of its source. T target tokens, S columns of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.answers.answer import Answer, Output
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.wings.alignment.attention_weights import AttentionChoice
from transduce.wings.alignment.readings import readings

LEAST = 1e-10  # stands for no attention at all: its logarithm must be finite


@dataclass(frozen=True)
class Coverage:
    """A feature: how completely an output's attention covers its source, cp(x, y) = sum over s of log min(1, sum over t
    of a_ts) (Wu et al. 2016, eq. 14, without its weight beta).

    a_ts is the attention of the transducer's model to source position s as it writes token t of y, teacher-forced once.
    It is averaged over heads, and over all attentions to the source unless ``attention`` names one. The feature is 0 if
    every position of the source got at least the attention of one target token, otherwise negative. Raises UserError if
    the model has no attention to the source.
    """

    transducer: Transducer
    batch_size: int = 64
    attention: str | None = None

    def __call__(self, pairs: Sequence[tuple[str, Output]]) -> list[float]:
        answers = [Answer(Request(source), [output]) for source, output in pairs]
        found = readings(self.transducer, answers, choice=AttentionChoice(self.attention), batch_size=self.batch_size)
        return [float(reading.tokens.weights_TS.sum(0).clamp(LEAST, 1.0).log().sum()) for (reading,) in found]
