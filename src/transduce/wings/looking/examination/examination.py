"""The examination of a model: what is odd in its outputs for the sources of a corpus, and for changed sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import median

from transduce.answers.answer import with_warnings
from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.stages import Stage
from transduce.core.types import Example
from transduce.wings.looking.examination.changes import JOINED, PROBES, Probe, joined
from transduce.wings.looking.examination.findings import Case, Examination, Finding, found
from transduce.wings.looking.examination.occupations import OCCUPATIONS, check_language, gender, sentences
from transduce.wings.looking.examination.outputs import neglect, output_findings
from transduce.wings.looking.examination.said import Said, words

ONE_ANSWER = 3  # outputs for junk that are equal


@dataclass(frozen=True)
class Examiner:
    """Examines models. The changes of sources depend on ``seed`` and on the sources alone, so two models get the same.

    ``language``: de, fr, es or it, to count the gender of translated ``occupations`` (English words); None leaves that
    out. ``batch_size``: sources searched at a time. Raises UserError for another language.
    """

    seed: int = 1
    language: str | None = None
    occupations: Sequence[str] = OCCUPATIONS
    batch_size: int = 64

    def __post_init__(self) -> None:
        if self.language is not None:
            check_language(self.language)

    def __call__(self, name: str, transducer: Transducer, examples: Sequence[Example]) -> Examination:
        """Everything found about the transducer with this ``name``. Raises UserError without examples, or for a
        language model, which has no sources.
        """
        if not examples:
            raise UserError("there are no examples: give a file with at least one line")
        if not transducer.conditional:
            raise UserError(f"{name} is a language model and has no sources, so there is nothing to change in them")
        said = _with_lengths(self._answers(transducer, [each.source for each in examples], examples))
        findings, left_out = output_findings(said), dict[str, str]()
        parts: list[tuple[str, Callable[[], list[Finding]]]] = [("neglect", partial(self._neglect, transducer, said))]
        if transducer.source_tokenizer.signal:
            left_out["changed sources"] = "the sources are signals"
        else:
            parts += [(probe.name, partial(self._changed, transducer, said, probe)) for probe in PROBES]
            parts += [
                ("very long", partial(self._long, transducer, said)),
                ("nothing", partial(self._nothing, transducer)),
            ]
        if self.language is not None:
            parts.append(("gender", partial(self._gender, transducer, self.language)))
        for part, make in parts:
            try:
                with Stage(part):
                    findings += make()
            except UserError as error:
                left_out[part] = str(error)
        left_out |= {finding.name: "no source and output here can show it" for finding in findings if not finding.of}
        return Examination(name, len(examples), [finding for finding in findings if finding.of], left_out)

    def _answers(self, transducer: Transducer, sources: Sequence[str], examples: Sequence[Example] = ()) -> list[Said]:
        """The model's best output for each source, numbered from 1."""
        answers = with_warnings(transducer.answer([Request(each) for each in sources], batch_size=self.batch_size))
        references = [example.references for example in examples] or [()] * len(sources)
        return [
            Said(number, answer.request.source, answer.best, given, truncated=answer.truncated is not None)
            for number, (answer, given) in enumerate(zip(answers, references, strict=True), 1)
        ]

    def _changed(self, transducer: Transducer, said: Sequence[Said], probe: Probe) -> list[Finding]:
        random = Random(f"{self.seed} {probe.name}")
        pairs = [(each, probe.change(each.source, random)) for each in said]
        changed = [(before, source) for before, source in pairs if source is not None]
        after = self._answers(transducer, [source for _, source in changed])
        judged = [
            (Case(before.number, each.source, each.text, before.text), probe.odd(before, each))
            for (before, _), each in zip(changed, after, strict=True)
        ]
        made = [found(probe.name, probe.meaning, judged)]
        if probe.name == "junk":
            made.append(_one_answer([case for case, _ in judged]))
        return made

    def _neglect(self, transducer: Transducer, said: Sequence[Said]) -> list[Finding]:
        return [neglect(transducer, said, self.batch_size)]

    def _long(self, transducer: Transducer, said: Sequence[Said]) -> list[Finding]:
        """Very long sources: an output is a case if it has less than half of the words of the outputs for the parts. A
        source that the model did not read to its end does not count.
        """
        long = self._answers(transducer, joined([each.source for each in said]))
        judged: list[tuple[Case, bool | None]] = []
        for place, each in enumerate(long):
            parts = said[place * JOINED : (place + 1) * JOINED]
            expected = sum(len(part.text.split()) for part in parts)
            odd = None if each.truncated else len(each.text.split()) < expected / 2
            judged.append((Case(parts[0].number, each.source, each.text), odd))
        return [found("very long", "eight sources in one: less than half of the words of eight outputs", judged)]

    def _nothing(self, transducer: Transducer) -> list[Finding]:
        judged = [
            (Case(each.number, each.source, each.text), bool(each.text.strip()))
            for each in self._answers(transducer, ["", " "])
        ]
        return [found("nothing", "an empty source: an output that is not empty", judged)]

    def _gender(self, transducer: Transducer, language: str) -> list[Finding]:
        return gender(self._answers(transducer, sentences(self.occupations)), language)


def _with_lengths(said: Sequence[Said]) -> list[Said]:
    """The same with the expected numbers of words: the mean of the references, if there are any. Otherwise the source's
    words, times the median ratio of outputs to sources.
    """
    ratios = [len(words(each.text)) / len(words(each.source)) for each in said if words(each.source) and each.text]
    ratio = median(ratios) if ratios else None

    def expected(each: Said) -> float | None:
        if each.references:
            return sum(len(words(text)) for text in each.references) / len(each.references)
        return None if ratio is None else ratio * len(words(each.source))

    return [replace(each, expected=expected(each)) for each in said]


def _one_answer(cases: Sequence[Case]) -> Finding:
    """Counts the outputs for junk that at least three different junk sources share."""
    times: dict[str, set[str]] = {}
    for case in cases:
        times.setdefault(case.output, set()).add(case.source)
    judged = [(case, bool(case.output.strip()) and len(times[case.output]) >= ONE_ANSWER) for case in cases]
    return found("one answer", "random letters: an output that three different junk sources share", judged)
