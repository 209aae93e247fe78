"""Linear classifiers and taggers in the engine: the features of texts that they never saw are PyTorch's, too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_engine_file import needs_engine

import transduce_engine
from families import paired
from transduce.core import config
from transduce.core.protocols import Model
from transduce.core.types import Facts, Padded
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.engines.export.engine import tokenizer_notes
from transduce.wings.engines.native.content import model_content
from transduce.wings.labels.spelled import Spelled
from transduce.wings.labels.tokenizer import Labels

pytestmark = needs_engine

TEXTS = ["The dog barks", "the dogs bark", "a cat naps", "Dogs", "dog a dog barks", "naps the cat ?", "x"] * 2
UNSEEN = ["the dog", "A Cats' naps, napping", "zebra", "dog dog dog dog", "?", "barks the bark naps naps a", "x x"]
KNOWN = Symbols(lowercase=True, minimum_count=2)
UNITS: dict[str, Any] = {
    "shapes and known words": Spelled(Characters(), words=KNOWN, shapes=True).learn(TEXTS),
    "letters alone": Spelled(Characters()).learn(TEXTS),
}
TABLES: dict[str, config.Table] = {
    "classifier": {"type": "linear-classifier", "words": (1, 3), "pieces": (1, 4), "apart": 2},
    "classifier, unknown n-grams": {"type": "linear-classifier", "pieces": (2, 3), "unknown": True},
    "tagger": {"type": "linear-tagger", "minimum_count": 1},
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", TABLES)
def test_unseen_texts_have_the_probabilities_of_pytorch(name: str, unit: str) -> None:
    source, target = UNITS[unit], Labels().learn(["one", "two", "three"])
    known = Facts(len(source) - source.words, len(target), source_words=source.words)
    model: Any = config.build(TABLES[name], Model, known, "model")
    labels = [[4 + len(word) % 3 for word in text.split()] for text in TEXTS]
    rows = zip(source.encode(TEXTS), labels, strict=True)
    counts = model.counts(paired([(row, [*(own if name == "tagger" else own[:1]), 2]) for row, own in rows]))
    for _ in range(3):
        counts.reestimate()
    texts = {
        "source": json.dumps(tokenizer_notes(source, "source")),
        "target": json.dumps(tokenizer_notes(target, "target")),
        "search": json.dumps({"type": "labels", "nbest": 1}),
        "limits": json.dumps({"max_source_length": 100, "keeps_empty": False}),
        "settings": "{}",
    }
    settings = config.resolve(TABLES[name], Model, known, "model")
    engine = transduce_engine.load(model_content(model, settings, "float32", texts))
    for text, answer in zip(UNSEEN, engine.answer(UNSEEN), strict=True):
        state = model.start(Padded.of([list(source.encode([text])[0])]))
        log_probs = model.readout(model.emit(state).output).log_softmax(-1).view(-1, len(target))
        best, ids = log_probs[:, 4:].max(-1)
        assert list(answer.best.ids[:-1]) == (ids + 4).tolist()
        assert answer.best.token_log_probs[:-1] == pytest.approx(best.tolist(), abs=1e-5)
    assert len({answer.best.log_prob for answer in engine.answer(UNSEEN)}) > 3
