"""A model from one file that answers texts, recordings or pictures."""

from __future__ import annotations

import ctypes
import json
import mmap
import unicodedata
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_char, c_uint64
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from transduce_engine.library import Answers, EngineError, Options, Sampling, WantedRows, library, told, whole
from transduce_engine.phrases import Lexicon
from transduce_engine.signals import (
    Described,
    Picture,
    Recording,
    Signal,
    Source,
    Steps,
    read_picture,
    read_recording,
)

if TYPE_CHECKING:
    import tokenizers

EOS = 2
UNK = 3
HIDDEN = (0, 1, EOS)  # padding, the beginning and the end are no text
Ids = Sequence[int]
Description = dict[str, Any]  # a note that is a table of JSON
Memory = ctypes.Array[c_char] | None
SIGNALS = (Recording, Picture, Steps)
SPACE = "▁"  # in entries of a vocabulary


@dataclass(frozen=True)
class Output:
    """One output: its text, the ids of its tokens (with the end) and their log-probabilities. ``log_prob`` is their
    sum, and ``score`` is what the search ranked by. ``cut`` is the number of tokens at which the search ended the
    output; 0 if the model ended it.

    An output that was given and scored also has ``best_log_probs``, the log-probability of the model's first choice at
    each token, and ``right``, whether the token is that choice. Both leave out an end that is no choice of the model.
    """

    text: str
    ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float
    cut: int = 0
    best_log_probs: tuple[float, ...] = ()
    right: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The outputs for one source, best first. The source has ``source_tokens`` tokens, of which the model read the
    first ``read_tokens``; ``unknown`` of these are not in its vocabulary. ``broken`` is True if no output that fits the
    phrases was found; then the best one does not.
    """

    outputs: tuple[Output, ...]
    source_tokens: int
    read_tokens: int
    unknown: int
    broken: bool = False

    @property
    def best(self) -> Output:
        return self.outputs[0]

    def warnings(self, number: int) -> list[str]:
        """What a person should know about the answer. The source is named by its ``number``."""
        found = []
        if self.read_tokens < self.source_tokens:
            found.append(f"input {number} has {self.source_tokens} tokens and is cut to {self.read_tokens}")
        if self.unknown:
            found.append(f"input {number}: {self.unknown} of {self.read_tokens - 1} tokens are unknown to the model")
        if self.best.cut:
            found.append(f"input {number}: the output is cut at {self.best.cut} tokens: the model had not ended it")
        if self.broken:
            found.append(f"input {number}: no output that fits the phrases was found; a larger beam may find one")
        return found


@dataclass(frozen=True)
class Wanted:
    """What is wanted of the outputs of each source: a row for each source, or no rows.

    ``prefixes`` are the ids that outputs begin with, without an end. ``listed`` are the ids among which the search
    goes, in order: the special ones and those of the prefix must be there, and an empty row stands for all ids.
    ``forbidden`` and ``required`` are phrases that outputs must not contain, or must contain: the ``numbers`` of an
    ``Automaton``, or an empty row. ``borders`` are those of the ``Lexicon``.
    """

    prefixes: Sequence[Ids] = ()
    listed: Sequence[Ids] = ()
    forbidden: Sequence[Sequence[int]] = ()
    required: Sequence[Sequence[int]] = ()
    borders: bytes | None = None

    def described(self, count: int) -> WantedRows:
        """The rows of ``count`` sources for the library. Raises EngineError for another number of rows."""
        kept: list[Memory] = []
        for name in ("prefixes", "listed", "forbidden", "required"):
            rows = getattr(self, name)
            if rows and len(rows) != count:
                raise EngineError(f"{name} has {len(rows)} rows for {count} sources: one for each was expected")
            kept += _rows(rows) if rows else (None, None)
        kept.append(_address(bytearray(self.borders or b"")))
        found = WantedRows(*(None if memory is None else ctypes.addressof(memory) for memory in kept))
        found.kept = kept  # its fields are addresses alone
        return found


class Engine:
    """A model that can be called: ``engine("knowledge")`` returns a text, and a list gives a list. Several threads may
    use it at once.
    """

    def __init__(self, file: Path | bytes | bytearray) -> None:
        """``file`` is a path, or the bytes of a file. Raises EngineError for another file, OSError for one that cannot
        be read, and MissingLibraryError if the library was not built.
        """
        self._functions = library()
        self._engine = _opened(file) if isinstance(file, bytes | bytearray) else _opened_file(file)
        weakref.finalize(self, self._functions.transduce_engine_close, self._engine)
        source, target = self.description("source"), self.description("target")
        self.signal = dict(source["record"]["signal"]) if source["unit"] == "signal" else None
        self.reads_text = source["unit"] not in ("library", "signal")
        self.generates = source["unit"] == "nothing"
        self._size = target.get("size", 0)
        reads = _library_tokenizer(source)
        writes = reads if source == target else _library_tokenizer(target)  # each takes megabytes
        self._encode = None if reads is None else _subwords(reads)
        self._encode_target = None if writes is None else _subwords(writes)
        self._decode = None if writes is None else _decoder(writes)

    def note(self, name: str) -> str:
        """A text of the file, such as "card" or "settings"; empty if it has none of this name."""
        size = c_uint64()
        found = self._functions.transduce_engine_note(self._engine, name.encode(), size)
        return ctypes.string_at(found, size.value).decode() if found else ""

    def description(self, name: str) -> Description:
        """A note that is JSON: "model", "source" and "target" (the tokenizers), "search", "limits", "settings". Raises
        EngineError if it is none.
        """
        try:
            found: Description = json.loads(self.note(name))
        except (ValueError, RecursionError) as error:
            raise EngineError(f"its {name} is no JSON: {error}") from None
        return found

    @overload
    def __call__(self, source: Source) -> str: ...

    @overload
    def __call__(self, source: list[Source]) -> list[str]: ...

    def __call__(self, source: Source | list[Source]) -> str | list[str]:
        """The best output for one source, or for each source of a list."""
        texts = [answer.best.text for answer in self.answer(source if isinstance(source, list) else [source])]
        return texts if isinstance(source, list) else texts[0]

    def answer(
        self,
        sources: Iterable[Source],
        beam: int = 0,
        nbest: int = 0,
        batch: int = 0,
        required: Sequence[str | Sequence[str]] = (),
        forbidden: Sequence[str] = (),
    ) -> list[Answer]:
        """An answer to each source: a text, or for a model of recordings or pictures the path of a file, a
        ``Recording`` or ``Picture``, or a buffer with its samples (at the model's own rate) or its pixels.

        ``beam`` and ``nbest`` replace the size and the number of outputs of the run's own search; 0 keeps them.
        ``batch`` sources are searched together. Each output has all ``required`` phrases (or one of a list of
        alternatives), and none of the ``forbidden`` ones; if no output is found that does, the best one is returned,
        which does not. Raises EngineError for a source that cannot be read, for a beam that is smaller than ``nbest``,
        for phrases if the model does not write token by token, for one text in place of a list of phrases, and for a
        required one that it cannot write.
        """
        for name, phrases in (("required", required), ("forbidden", forbidden)):
            if isinstance(phrases, str):  # its letters would be phrases
                raise EngineError(f"{name} = {phrases!r}: a list of phrases was expected")
        if required or forbidden:
            alternatives = [(each,) if isinstance(each, str) else tuple(each) for each in required]
            return self._phrased(_texts(sources), alternatives, forbidden, beam, nbest, batch)
        if self.signal is not None:
            return self.search_signals(list(sources), beam=beam, nbest=nbest, batch=batch)
        texts = _texts(sources)
        if self._encode is not None:
            return self._answer_subwords(texts, beam, nbest, batch)
        return self._found(
            "answer", *_joined(_utf8(texts)), len(texts), Options(*whole(beam=beam, nbest=nbest, batch=batch))
        )

    def answer_ids(self, rows: Sequence[Ids], beam: int = 0, nbest: int = 0, batch: int = 0) -> list[Answer]:
        """The same for rows of ids, which end with the end (2)."""
        return self._found("answer_ids", *_rows(rows), len(rows), Options(*whole(beam=beam, nbest=nbest, batch=batch)))

    def search_ids(
        self,
        rows: Sequence[Ids],
        search: str = "",
        wanted: Wanted | None = None,
        beam: int = 0,
        nbest: int = 0,
        batch: int = 0,
    ) -> list[Answer]:
        """The same with what is ``wanted`` of outputs, and perhaps by another ``search`` than the file's: a run's table
        ``search`` with all defaults, as JSON, whose size and number of outputs count then. Raises EngineError for a
        search that the engine does not have, and for something wanted that does not fit.
        """
        own = search.encode() or None
        given = None if wanted is None else wanted.described(len(rows))
        how = Options(*whole(beam=beam, nbest=nbest, batch=batch))
        return self._found("search_ids", own, len(own or b""), *_rows(rows), given, len(rows), how)

    def score_ids(self, rows: Sequence[Ids], targets: Sequence[Ids], batch: int = 0) -> list[Answer]:
        """The given outputs with the model's log-probabilities of their tokens. Rows and outputs end with the end."""
        if len(rows) != len(targets):
            raise EngineError(f"{len(targets)} outputs for {len(rows)} sources: one for each was expected")
        return self._found("score_ids", *_rows(rows), *_rows(targets), len(rows), Options(0, 0, *whole(batch=batch)))

    def search_signals(
        self,
        sources: Sequence[Source],
        search: str = "",
        wanted: Wanted | None = None,
        beam: int = 0,
        nbest: int = 0,
        batch: int = 0,
    ) -> list[Answer]:
        """An answer to each signal, by the file's search or by another one, as for ``search_ids``."""
        own = search.encode() or None
        given = None if wanted is None else wanted.described(len(sources))
        how = Options(*whole(beam=beam, nbest=nbest, batch=batch))
        some = self._signals(sources)
        return self._found("search_signals", own, len(own or b""), _table(some), given, len(some), how)

    def score_signals(self, sources: Sequence[Source], targets: Sequence[Ids], batch: int = 0) -> list[Answer]:
        """Given outputs of signals, as ``score_ids`` scores them."""
        if len(sources) != len(targets):
            raise EngineError(f"{len(targets)} outputs for {len(sources)} sources: one for each was expected")
        some = self._signals(sources)
        return self._found(
            "score_signals", _table(some), *_rows(targets), len(some), Options(0, 0, *whole(batch=batch))
        )

    def _signals(self, sources: Sequence[Source]) -> list[Described]:
        found = []
        for number, source in enumerate(sources, 1):
            try:
                found.append(self._signal(source).described())
            except EngineError as error:
                raise EngineError(f"input {number}: {error}") from None
        return found

    def _signal(self, source: Source) -> Signal:
        if isinstance(source, SIGNALS):
            return source
        if self.signal is None:
            raise EngineError("its sources are no recordings or pictures")
        sound = self.signal["type"] == "sound"
        if isinstance(source, str | Path):
            return read_recording(Path(source)) if sound else read_picture(Path(source))
        return Recording(source, self.signal["rate"]) if sound else Picture(source)

    def score(self, texts: Iterable[str], batch: int = 0) -> list[Answer]:
        """The texts with a language model's log-probabilities of their tokens, each text alone. Raises EngineError for
        a model with sources.
        """
        if not self.generates:
            raise EngineError(
                "this model has sources: score_ids scores given outputs, and a language model scores texts"
            )
        targets = self.target_ids(list(texts))
        found = self.score_ids([[EOS]] * len(targets), targets, batch)
        return [
            Answer(each.outputs, len(ids), len(ids), ids.count(UNK)) for each, ids in zip(found, targets, strict=True)
        ]

    def generate(
        self,
        prompt: str = "",
        samples: int = 1,
        length: int = 100,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 0.0,
        seed: int = 1,
    ) -> list[Output]:
        """Samples of a language model: texts of one line that go on with the prompt, in the order in which they are
        drawn, of at most ``length`` more tokens each. ``ids`` and log-probabilities are of what follows the prompt.

        Each token is drawn from the distribution with logits divided by ``temperature``, of the ``top_k`` most probable
        tokens, and of the most probable ones that have the probability ``top_p`` together; 0 stands for all. The same
        ``seed`` gives the same samples. Raises EngineError for a model with sources, for a prompt of several lines, and
        for a number that is not allowed.
        """
        if not self.generates:
            raise EngineError("this model has sources: a language model was expected")
        if "\n" in prompt:
            raise EngineError(f"prompt = {prompt[:60]!r}: one line was expected")
        (row,) = self.target_ids([prompt])
        ids = array("q", row[:-1])
        numbers = whole(samples=samples, length=length, top_k=top_k, seed=seed)
        how = Sampling(*numbers, temperature, top_p)
        (answer,) = self._found("generate_ids", _address(ids), len(ids), how)
        if self._decode is None:
            return list(answer.outputs)
        return [replace(each, text=self._decode([*ids, *each.ids])) for each in answer.outputs]

    def source_ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of each source, with the end. Raises EngineError for a model without sources."""
        if self._encode is not None and not self.generates:
            return [tuple(self._encode(text)) for text in texts]
        return [answer.best.ids for answer in self._found("encode_sources", *_joined(_utf8(texts)), len(texts))]

    def target_ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of each output, with the end."""
        if self._encode_target is not None:
            return [tuple(self._encode_target(text)) for text in texts]
        return [answer.best.ids for answer in self._found("encode", *_joined(_utf8(texts)), len(texts))]

    def decode(self, ids: Ids) -> str:
        """The text of an output's ids. Raises EngineError for an id that is outside the vocabulary."""
        if wrong := [each for each in ids if not 0 <= each < self._size]:
            raise EngineError(f"id {wrong[0]} is outside a vocabulary of {self._size}")
        if self._decode is not None:
            return self._decode(ids)
        (answer,) = self._found("decode", *_rows([[*ids, EOS]]), 1)
        return answer.best.text

    def _answer_subwords(self, texts: list[str], beam: int, nbest: int, batch: int) -> list[Answer]:
        assert self._encode is not None
        rows = [self._encode(text) for text in texts]
        blank = [not (self.description("limits")["keeps_empty"] or text.strip()) for text in texts]
        full = [row for row, nothing in zip(rows, blank, strict=True) if not nothing]
        answers = iter(self.answer_ids(full, beam, nbest, batch))
        empty = [row for row, nothing in zip(rows, blank, strict=True) if nothing]
        nothing_to_read = iter(self.score_ids(empty, [[EOS]] * len(empty), batch))
        return [next(nothing_to_read if nothing else answers) for nothing in blank]

    @cached_property
    def lexicon(self) -> Lexicon:
        """How phrases are spelled in the tokens of outputs."""
        return Lexicon(_Spelling(self))

    def _phrased(
        self, texts: list[str], required: list[tuple[str, ...]], forbidden: Sequence[str], *how: int
    ) -> list[Answer]:
        lexicon = self.lexicon
        automata = lexicon.automata(*lexicon.spelled(required, forbidden))
        rows = [[automaton] * len(texts) for automaton in automata]
        wanted = Wanted(required=rows[0], forbidden=rows[1], borders=lexicon.borders())
        found = self.search_ids(self.source_ids(texts), "", wanted, *how)
        return [_fitting(answer, lexicon, required, forbidden) for answer in found]

    def running(self, beam: int = 0, nbest: int = 0) -> Running:
        """A search that sources enter and leave between its steps. ``beam`` and ``nbest`` are as for ``answer``. Raises
        EngineError for a model that does not write token by token.
        """
        return Running(self, Options(*whole(beam=beam, nbest=nbest), 0))

    def _found(self, name: str, *arguments: object) -> list[Answer]:
        function = getattr(self._functions, f"transduce_engine_{name}")
        found = told(function, self._engine, *arguments)
        try:
            return self._read(found.contents, scored=name.startswith("score_"))
        finally:
            self._functions.transduce_engine_free(found)

    def _read(self, found: Answers, scored: bool) -> list[Answer]:
        if not found.sources:  # as after most steps of a search that sources leave
            return []
        text_ends, token_ends = [0, *found.text_ends[: found.outputs]], [0, *found.token_ends[: found.outputs]]
        texts = ctypes.string_at(found.texts, text_ends[-1])
        tokens, log_probs = found.tokens[: token_ends[-1]], found.token_log_probs[: token_ends[-1]]
        choices = found.choices[: token_ends[-1]] if scored else []
        choice_log_probs = found.choice_log_probs[: token_ends[-1]] if scored else []
        outputs = []
        for i in range(found.outputs):
            ids = tuple(tokens[token_ends[i] : token_ends[i + 1]])
            text = texts[text_ends[i] : text_ends[i + 1]].decode() if self._decode is None else self._decode(ids)
            own = tuple(log_probs[token_ends[i] : token_ends[i + 1]])
            outputs.append(Output(text, ids, own, found.log_prob[i], found.score[i], found.cut[i]))
            if scored:
                first = choices[token_ends[i] : token_ends[i + 1]]
                best = choice_log_probs[token_ends[i] : token_ends[i + 1]]
                outputs[-1] = replace(
                    outputs[-1],
                    best_log_probs=tuple(each for each, choice in zip(best, first, strict=True) if choice >= 0),
                    right=tuple(choice == each for choice, each in zip(first, ids, strict=True) if choice >= 0),
                )
        ends = [0, *found.output_ends[: found.sources]]
        return [
            Answer(tuple(outputs[first:last]), found.source_tokens[b], found.read_tokens[b], found.unknown[b])
            for b, (first, last) in enumerate(pairwise(ends))
        ]


class Running:
    """A search that sources enter and leave between its steps: ``Engine.running`` makes it. A source has the answer
    that it has alone. One thread at a time may use it.
    """

    def __init__(self, engine: Engine, options: Options) -> None:
        self._engine, self._functions = engine, library()
        self._running = told(self._functions.transduce_engine_begin, engine._engine, options)
        weakref.finalize(self, self._functions.transduce_engine_end, self._running)

    def enter(self, keys: Sequence[int], rows: Sequence[Ids], wanted: Wanted | None = None) -> None:
        """Adds sources, rows of ids with the end, which start with the next step. Each has a key that no other source
        in the search has. Raises EngineError for a row or something wanted that does not fit; then none enters.
        """
        given = None if wanted is None else wanted.described(len(rows))
        named = _address(array("q", keys))
        told(self._functions.transduce_engine_enter, self._running, named, *_rows(rows), given, len(rows))

    def step(self) -> list[tuple[int, Answer]]:
        """A step of all sources. Returns the keys and the answers of those that have ended, which leave. An answer
        without outputs is of a source for which the model's numbers are not finite. After an EngineError it cannot go
        on.
        """
        ended = self.advance()
        return list(zip(ended.keys, ended.answers, strict=True))

    def advance(self, ended: int = 1, most: int = 1) -> Ended:
        """The same for a thread that should go on at once, because another one may ask for the answers. It does a step,
        and others until ``ended`` sources have ended, at most ``most`` steps in all.
        """
        numbers = whole(ended=ended, most=most)
        return Ended(self._engine, told(self._functions.transduce_engine_step, self._running, *numbers))

    def drop(self, keys: Sequence[int]) -> None:
        """The sources with these keys leave without an answer."""
        self._functions.transduce_engine_drop(self._running, _address(array("q", keys)), len(keys))


class Ended:
    """The sources that have ended in a step, by their ``keys``. Their ``answers``, in the same order, are made when
    they are asked for.
    """

    def __init__(self, engine: Engine, found: ctypes._Pointer[Answers]) -> None:
        self._engine, self._found = engine, found
        self.keys: list[int] = found.contents.keys[: found.contents.sources]
        weakref.finalize(self, engine._functions.transduce_engine_free, found)

    @cached_property
    def answers(self) -> list[Answer]:
        return self._engine._read(self._found.contents, scored=False)


def load(file: str | Path | bytes, threads: int = 1) -> Engine:
    """The model of a file, or of its bytes. ``threads`` share large products, in all of the process.

    Raises FileNotFoundError if there is no such file, EngineError for another file, and MissingLibraryError if the
    library was not built.
    """
    if threads < 1:
        raise EngineError(f"threads = {threads}: 1 or more was expected")
    library().transduce_set_threads(min(threads, 8))
    if isinstance(file, bytes):
        return Engine(file)
    path = Path(file).expanduser()
    if path.is_dir():
        raise EngineError(f"{path} is a folder: name a file of `transduce export RUN --to engine --out FILE`")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: name a file of `transduce export RUN --to engine --out FILE`")
    try:
        return Engine(path)
    except EngineError as error:
        raise EngineError(f"{path}: {error}") from None


def _opened(content: bytes | bytearray | mmap.mmap) -> Any:
    """The library's model of a file's bytes."""
    with memoryview(content) as view:
        size = view.nbytes
        writable = content if not view.readonly else bytearray(view)
    memory = (c_char * size).from_buffer(writable) if size else None
    wrong = ""
    try:
        return told(library().transduce_engine_open, memory, size)
    except EngineError as error:
        wrong = str(error)
    finally:
        del memory  # nothing may refer to a file's memory when the file is closed, and an error would
    raise EngineError(wrong)


def _opened_file(path: Path) -> Any:
    """The same for a path. The file's memory is free when it returns."""
    with path.open("rb") as opened:
        if not path.stat().st_size:
            raise EngineError("it is no file of an engine: it is empty")
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as content:
            return _opened(content)


# ---------------------------------------------------------------- phrases


class _Spelling:
    """The target's tokenizer, as a lexicon needs it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._described = engine, engine.description("target")

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The text that each id adds to an output."""
        record = self._described["record"]
        vocabulary = record["model"]["vocab"]
        if isinstance(vocabulary, dict):
            entries = sorted(vocabulary, key=vocabulary.__getitem__)
        else:
            entries = [piece for piece, _ in vocabulary]
        spoken = entries[UNK:]
        if record["decoder"] is None:  # symbols: there is a space between them
            spoken = [f" {entry}" for entry in spoken]
        elif "Prepend" in json.dumps(record["normalizer"]):  # a space comes before the first word
            spoken = [entry.replace(SPACE, " ") for entry in spoken]
        return ("",) * UNK + tuple(spoken)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(ids) for ids in self._engine.target_ids(texts)]

    def normalize(self, text: str) -> str:
        form = self._described["form"]
        normal = text if form == "none" else unicodedata.normalize(form, text)
        return normal.lower() if self._described["lowercase"] else normal


def _fitting(answer: Answer, lexicon: Lexicon, required: Sequence[Sequence[str]], forbidden: Sequence[str]) -> Answer:
    """The answer with the outputs that have the required phrases and no forbidden one; with the best if none has."""

    def fits(output: Output) -> bool:
        has = [any(lexicon.written(phrase, output.ids) for phrase in some) for some in required]
        return all(has) and not any(lexicon.written(phrase, output.ids) for phrase in forbidden)

    right = tuple(filter(fits, answer.outputs))
    return replace(answer, outputs=right or answer.outputs[:1], broken=not right)


# ---------------------------------------------------------------- rows and texts


def _rows(rows: Sequence[Ids]) -> tuple[Memory, Memory]:
    """The rows one after the other in memory, and their ends."""
    ends, every = array("q"), array("q")
    for row in rows:
        every.extend(row)
        ends.append(len(every))
    return _address(every), _address(ends)


def _table(signals: Sequence[Described]) -> ctypes.Array[Described]:
    return (Described * len(signals))(*signals)


def _joined(texts: Sequence[bytes]) -> tuple[Memory, Memory]:
    ends, end = array("q"), 0
    for text in texts:
        end += len(text)
        ends.append(end)
    return _address(bytearray(b"".join(texts))), _address(ends)


def _address(memory: array[int] | bytearray) -> Memory:
    """The memory for the library. The result keeps it."""
    with memoryview(memory) as view:
        size = view.nbytes
    return (c_char * size).from_buffer(memory) if size else None


def _texts(sources: Iterable[Source]) -> list[str]:
    found = list[str]()
    for number, source in enumerate(sources, 1):
        if not isinstance(source, str):
            raise EngineError(f"input {number}: {type(source).__name__} is no text")
        found.append(source)
    return found


def _utf8(texts: Sequence[str]) -> list[bytes]:
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        number = next(n for n, text in enumerate(texts, 1) if not _is_whole(text))
        raise EngineError(f"input {number}: half of a surrogate pair; write both halves, or leave it out") from error


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _subwords(tokenizer: tokenizers.Tokenizer) -> Callable[[str], list[int]]:
    """How a tokenizer of the library ``tokenizers`` makes ids, with the end."""

    def ids(text: str) -> list[int]:
        try:
            return [*tokenizer.encode(text, add_special_tokens=False).ids, EOS]
        except Exception as error:  # the library raises bare Exception
            raise EngineError(f"{text[:60]!r} cannot be read: {error}") from error

    return ids


def _decoder(tokenizer: tokenizers.Tokenizer) -> Callable[[Ids], str]:
    return lambda ids: str(tokenizer.decode([i for i in ids if i not in HIDDEN], skip_special_tokens=False))


def _library_tokenizer(described: Description) -> tokenizers.Tokenizer | None:
    """None if the engine itself reads such tokens."""
    if described["unit"] != "library":
        return None
    try:
        import tokenizers
    except ImportError as error:
        raise EngineError(
            "its subwords need the package tokenizers, which is not installed: pip install tokenizers"
        ) from error
    try:
        found = tokenizers.Tokenizer.from_str(json.dumps(described["record"]))
    except Exception as error:  # the library raises bare Exception
        raise EngineError(f"its tokenizer cannot be read: {error}") from error
    found.encode_special_tokens = True  # "</s>" in a text is text
    return found
