"""How often the next word of a text is among a language model's completions, and how much typing they save.

    python benchmarks/completion.py runs/ptb-ngram test.txt --lines 200

Prints the accuracy at 1, 5 and 10 at every word of the first lines of a file, words that the model does not know
included. ``keystrokes saved`` is the share of keystrokes that a user saves with a list of ``--shown`` words. The user
types letters until the list has the word, and needs one more keystroke to choose it. A word that the list never has
needs all its letters and a space. The time is for one request of 10 words, one request after another, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import torch

import transduce
from transduce.answers.completion import Completer
from transduce.data import corpora
from transduce.search.completion import NextWords

BATCH = 64
REQUESTS = 300


def keystrokes(completer: Completer, prefixes: list[str], words: list[str]) -> int:
    """The keystrokes that these words cost with completions, after these prefixes."""
    typed, waiting = sum(len(word) + 1 for word in words), list(range(len(words)))
    for length in range(max(map(len, words))):
        waiting = [place for place in waiting if len(words[place]) > length]
        still = []
        for first in range(0, len(waiting), BATCH):
            some = waiting[first : first + BATCH]
            lists = completer([prefixes[place] for place in some], [words[place][:length] for place in some])
            for place, shown in zip(some, lists, strict=True):
                if words[place] in [word.text for word in shown]:
                    typed -= len(words[place]) - length
                else:
                    still.append(place)
        waiting = still
    return typed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--shown", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transducer = transduce.load(arguments.run, device="cpu")
    texts = [line.decode().split() for line in islice(corpora.lines(arguments.text), arguments.lines)]
    prefixes = [" ".join(text[:place]) for text in texts for place in range(len(text))]
    words = [word for text in texts for word in text]
    ten = Completer(transducer, NextWords(10))
    lists = [[word.text for word in found] for _, found in ten.in_batches(prefixes, batch_size=BATCH)]
    print(f"{len(words)} words of {len(texts)} lines")
    for k in (1, 5, 10):
        right = sum(word in found[:k] for word, found in zip(words, lists, strict=True))
        print(f"accuracy at {k}: {100 * right / len(words):.2f} %")
    typed = keystrokes(Completer(transducer, NextWords(arguments.shown)), prefixes, words)
    print(f"keystrokes saved: {100 * (1 - typed / sum(len(word) + 1 for word in words)):.2f} %")
    seconds = []
    for prefix in prefixes[:REQUESTS]:
        began = time.perf_counter()
        ten([prefix])
        seconds.append(time.perf_counter() - began)
    print(f"milliseconds a request: median {1000 * statistics.median(seconds):.1f}, most {1000 * max(seconds):.1f}")


if __name__ == "__main__":
    main()
