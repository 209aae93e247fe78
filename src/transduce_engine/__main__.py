"""``transduce-engine [FILE] < lines``: the model's best output for each line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

from transduce_engine import ENGLISH
from transduce_engine.engine import Answer, Engine, Output, load
from transduce_engine.library import EngineError, MissingLibraryError

FORMATS = ("text", "tsv", "jsonl")
GENERATION = ("samples", "length", "temperature", "top_k", "top_p", "seed")
WINDOW = 512  # batches whose lines are sorted by length


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser("transduce-engine", description="Write the model's best output for each line.")
    told = "a file of `transduce export RUN --to engine --out FILE` [default: the pronunciation of English words]"
    found.add_argument("file", nargs="?", default=ENGLISH, help=told)
    found.add_argument("--beam", type=int, default=0, help="the size of the beam [default: the run's]")
    found.add_argument("--nbest", type=int, default=0, help="outputs for each line [default: the run's]")
    found.add_argument(
        "--forbid",
        action="append",
        default=[],
        metavar="PHRASE",
        help="a phrase that no output may contain; repeat it for several",
    )
    found.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="PHRASE",
        help="a phrase that each output must contain; repeat it for several",
    )
    found.add_argument("--batch-size", type=int, default=8, help="lines that are searched together [default: 8]")
    found.add_argument("--threads", type=int, default=1, help="threads that share large products [default: 1]")
    found.add_argument("--format", choices=FORMATS, default="text", help="tsv: source, score, text [default: text]")
    found.add_argument("--generate", action="store_true", help="go on with each line, by a language model")
    found.add_argument("--samples", type=int, help="of --generate: texts for each line [default: 1]")
    found.add_argument("--length", type=int, help="of --generate: most tokens [default: 100]")
    found.add_argument("--temperature", type=float, help="of --generate [default: 1]")
    found.add_argument("--top-k", type=int, help="of --generate: draw among so many probable tokens [default: all]")
    found.add_argument("--top-p", type=float, help="of --generate: draw among tokens so probable [default: all]")
    found.add_argument("--seed", type=int, help="of --generate [default: 1]")
    found.add_argument("--card", action="store_true", help="print what the file says about its model, and end")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        for name in ("beam", "nbest", "batch_size"):
            if (value := getattr(options, name)) < 0 or (name == "batch_size" and value < 1):
                raise EngineError(f"--{name.replace('_', '-')} {value}: 1 or more was expected")
        engine = load(options.file, options.threads)
        if options.card:
            print(engine.note("card"))
            return 0
        return answer_lines(engine, options)
    except (EngineError, MissingLibraryError, OSError) as error:
        print(f"transduce-engine: {error}", file=sys.stderr)
        return 2


def answer_lines(engine: Engine, options: argparse.Namespace) -> int:
    lines = read_lines()
    size = 1 if sys.stdin.isatty() else options.batch_size * WINDOW
    number = 0
    while some := list(islice(lines, size)):
        for line, answer in zip(some, answered(engine, some, options), strict=True):
            number += 1
            for message in answer.warnings(number):
                print(f"transduce-engine: {message}", file=sys.stderr)
            for text in written(line, answer, options.format):
                print(text)
        sys.stdout.flush()
    return 0


def answered(engine: Engine, lines: list[str], options: argparse.Namespace) -> list[Answer]:
    """An answer to each line. A language model scores it, or goes on with it. Raises EngineError for an option that is
    for another model.
    """
    how = {name: getattr(options, name) for name in GENERATION if getattr(options, name) is not None}
    if how and not options.generate:
        raise EngineError(f"--{next(iter(how)).replace('_', '-')} is an option of --generate, which was not given")
    if (engine.generates or options.generate) and (options.beam or options.nbest):
        raise EngineError("--beam and --nbest are for models with sources, and this is a language model")
    if (engine.generates or options.generate) and (options.forbid or options.require):
        raise EngineError("--forbid and --require are for models with sources, and this is a language model")
    if options.generate:
        return [Answer(tuple(engine.generate(line, **how)), 1, 1, 0) for line in lines]
    if engine.generates:
        return engine.score(lines, options.batch_size)
    return engine.answer(lines, options.beam, options.nbest, options.batch_size, options.require, options.forbid)


def read_lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise EngineError(f"input {number} is not UTF-8: byte {error.start + 1} is wrong") from error


def written(line: str, answer: Answer, form: str) -> Iterator[str]:
    for output in answer.outputs:
        if form == "text":
            yield one_line(output.text)
        elif form == "tsv":
            yield f"{one_line(line)}\t{output.score:.4f}\t{one_line(output.text)}"
        else:
            yield json.dumps({"source": line, **record(output)}, ensure_ascii=False)


def record(output: Output) -> dict[str, object]:
    return {
        "text": output.text,
        "score": output.score,
        "log_prob": output.log_prob,
        "token_log_probs": output.token_log_probs,
    }


def one_line(text: str) -> str:
    return " ".join(text.split("\t")).replace("\n", " ").replace("\r", " ")


def run() -> None:
    """The command ``transduce-engine``."""
    try:
        code = main()
    except BrokenPipeError:  # the reader of the output has ended
        sys.stderr.close()
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    run()
