"""The sizes that all toolkits share, or come as close to as they can."""

from __future__ import annotations

TOKENS = 2048  # max(source, target) * sentences of a batch
RATE, BETA, CLIP, SMOOTHING, DROPOUT, WARMUP = 1e-3, 0.98, 1.0, 0.1, 0.1, 400
WIDTH, LAYERS, HEADS, HIDDEN = 256, 3, 4, 1024  # of the Transformer
RECURRENT, EMBEDDING = 512, 256  # a bi-LSTM of 2 x 256, an LSTM of 512 with attention and input feeding
LONGEST = 60  # tokens of an output
REPORT = 10  # updates between two reports of the speed
FOREVER = 1_000_000  # updates; the process is stopped when it has reported enough
