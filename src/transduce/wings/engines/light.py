"""Predicts with a CTranslate2 export, without PyTorch: where it is not installed, or to save the time of its import.

from transduce.wings.engines.light import load
load("runs/translation/exports/ctranslate2")("Guten Morgen.")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from transduce.answers.answer import Answer, Output, Truncation, with_warnings
from transduce.answers.batches import sorted_batches, window_size
from transduce.answers.cuts import cut_at
from transduce.answers.empty_sources import is_empty
from transduce.answers.problems import HOPELESS, in_windows, settled
from transduce.answers.request import Request
from transduce.compute.threads import check_number
from transduce.core import config
from transduce.core.errors import RequestError, UserError
from transduce.core.files import is_engine_file
from transduce.core.types import EOS, Hypothesis
from transduce.data.corpora import LineError
from transduce.data.tokenizers.base import Sourced, Tokenizer, cut
from transduce.data.tokenizers.storage import load as load_tokenizer
from transduce.data.unknown import unknown_in
from transduce.runs.manifest import MANIFEST, Manifest
from transduce.wings.engines.engine_files import EngineModel
from transduce.wings.engines.engine_files import opened as open_engine
from transduce.wings.engines.transformers import kind
from transduce.wings.engines.translation import PENALTIES, Options, Rows, Translator, open_translator

CONFIG, TOKENIZERS = "config.toml", "tokenizers"
SOURCE_LENGTH = 1000  # the default of data.lines.max_source_length


@dataclass(frozen=True)
class LightTransducer:
    """A CTranslate2 export that can be called: ``transducer("Guten Morgen.")`` returns a text, and a list gives a list.

    It searches as the export's run does: greedily or with a beam. It has no prefixes, constraints and alignments; for
    these, ``transduce.load`` opens the same folder with PyTorch. ``settings`` are the run's. Sources longer than
    ``max_source_length`` tokens (EOS included) are cut.
    """

    translator: Translator
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    options: Options
    settings: config.Table
    max_source_length: int = SOURCE_LENGTH
    leads = False

    def resized(self, size: int | None = None, nbest: int | None = None) -> LightTransducer:
        """The same model with another beam size or number of outputs. None keeps the number if the other allows it.
        Raises UserError if more outputs than the size are asked for.
        """
        if size is not None and nbest is not None and nbest > size:
            raise UserError(f"nbest = {nbest}, size = {size}: a beam of n has room for 1 to n hypotheses")
        outputs = nbest or min(self.options.nbest, size or self.options.nbest)
        return replace(self, options=replace(self.options, size=size or max(self.options.size, outputs), nbest=outputs))

    @overload
    def __call__(self, source: str) -> str: ...

    @overload
    def __call__(self, source: list[str] | tuple[str, ...]) -> list[str]: ...

    def __call__(self, source: str | list[str] | tuple[str, ...]) -> str | list[str]:
        """The best output for one source, or for each source of a list."""
        given = [source] if isinstance(source, str) else source
        texts = [answer.best.text for answer in with_warnings(self.answer(map(Request, given)))]
        return texts[0] if isinstance(source, str) else texts

    def answer(self, requests: Iterable[Request], batch_size: int = 64, tolerant: bool = False) -> Iterator[Answer]:
        """Yields an answer to each request, in order, from its source alone. It reads up to 64 batches ahead; if
        ``batch_size`` is 1, it answers each request before it reads the next. A source that cannot be read, and
        ``tolerant``, are as in ``Pipeline.answer``.
        """

        def answered(requests: Sequence[Request], first: int) -> list[Answer]:
            given = [request.source for request in requests]
            rows, truncated = self._read(given, first)
            found = self._found(given, rows, batch_size)
            return [self._answer(*each) for each in zip(requests, rows, truncated, found, strict=True)]

        size = window_size(batch_size)
        return settled(in_windows(requests, size, answered), tolerant, HOPELESS if size > 1 else 1)

    def _answer(
        self, request: Request, row: Sequence[int], shortened: Truncation | None, hypotheses: Sequence[Hypothesis]
    ) -> Answer:
        outputs = [self._output(each, request.source) for each in hypotheses]
        return Answer(request, outputs, shortened, unknown=unknown_in(self.source_tokenizer, row, request.source))

    def _found(self, sources: Sequence[str], rows: Rows, batch_size: int) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first. An empty source has the empty output alone."""
        keeps = self.settings.get("data", {}).get("lines", {}).get("empty") == "keep"
        full, found = [], list[list[Hypothesis]]([] for _ in rows)
        for place, source in enumerate(sources):
            if keeps or not is_empty(source, self.source_tokenizer):
                full.append(place)
            else:
                found[place] = self.translator.force([rows[place]], [[EOS]])
        some = sorted_batches([(len(rows[place]), rows[place]) for place in full], batch_size, self._search)
        for place, hypotheses in zip(full, some, strict=True):
            found[place] = hypotheses
        return found

    def _read(self, sources: Sequence[str], first: int) -> tuple[list[list[int]], list[Truncation | None]]:
        try:
            rows = self.source_tokenizer.encode(sources)
        except LineError as error:  # the tokenizer knows the line and not its number
            raise RequestError(f"input {first + list(sources).index(error.line)}: {error}") from error
        limit = self.max_source_length
        truncated = [Truncation(len(row), limit) if len(row) > limit else None for row in rows]
        return [cut(row, limit, self.source_tokenizer) if len(row) > limit else row for row in rows], truncated

    def _search(self, batches: Iterable[Rows]) -> Iterator[list[list[Hypothesis]]]:
        return (self.translator.search(batch, self.options) for batch in batches)

    def _output(self, found: Hypothesis, source: str) -> Output:
        ids = tuple(found.tokens)
        names = tuple(self.target_tokenizer.tokens(ids))
        text = self.target_tokenizer.decode(ids)
        if isinstance(self.target_tokenizer, Sourced):
            text = self.target_tokenizer.with_source(text, source)
        cut = cut_at(found, self.options.max_length)
        return Output(text, names, found.log_prob, found.score, found.token_log_probs, ids=ids, cut_at=cut)


def fits(folder: Path) -> bool:
    """True if the folder's export.json names CTranslate2. Reads no other file."""
    return Manifest.read(folder, checked=False).engine == "ctranslate2"


def load(folder: str | Path, threads: int = 0) -> LightTransducer:
    """The CTranslate2 export in ``folder``, with its tokenizers and its run's search. 0 ``threads`` leave their number
    to CTranslate2.

    Raises FileNotFoundError if the folder is no export. Raises UserError if a file is damaged, if the export is for
    another engine, or if CTranslate2 does not have the search. Raises MissingPackageError if CTranslate2 is not
    installed.
    """
    if threads:
        check_number("threads", threads)
    place = Path(folder).expanduser()
    manifest = Manifest.read(place)
    if manifest.engine != "ctranslate2":
        raise UserError(f"{place / MANIFEST} is of an export for {manifest.engine}, which needs transduce.load")
    settings = config.read(place / CONFIG)
    source, target = (load_tokenizer(place / TOKENIZERS / f"{side}.json") for side in ("source", "target"))
    limit = settings["data"].get("lines", {}).get("max_source_length", SOURCE_LENGTH)
    translator = open_translator(place, manifest.precision, threads)
    return LightTransducer(translator, source, target, options_of(settings.get("search", {})), settings, limit)


def options_of(search: config.Table) -> Options:
    """The options in a run's table ``search``, which has all defaults. Raises UserError for a search that CTranslate2
    does not have.
    """
    own, ranking, allocation = (kind(search.get(key)) for key in ("type", "ranking", "allocation"))
    if own not in ("greedy", "beam") or search.get("filters") or allocation not in (None, "top-k"):
        raise UserError(
            f"search.type = {own!r}: CTranslate2 has greedy and beam search without filters and constraints; use the "
            "run itself for others"
        )
    if own == "greedy":
        return Options(max_length=search["max_length"], unknown=search.get("unknown", False))
    if ranking not in PENALTIES:
        raise UserError(
            f"search.ranking = {ranking!r}: CTranslate2 ranks by {' or '.join(PENALTIES)}; use the run for others"
        )
    unknown = search.get("unknown", False)
    return Options(search["size"], search["nbest"], search["max_length"], PENALTIES[ranking], unknown)


def opened(folder: Path, threads: int, size: int | None) -> LightTransducer | EngineModel | None:
    """The CTranslate2 export in ``folder``, as ``load`` opens it, or the file of an engine, with a beam of ``size``;
    None for another export.
    """
    if is_engine_file(folder):
        return open_engine(folder, threads, size)
    if not fits(folder):
        return None
    found = load(folder, threads)
    return found if size is None else found.resized(size)
