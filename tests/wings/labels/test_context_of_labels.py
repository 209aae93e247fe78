"""What the wing labels adds to test_context.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from families import FACTS, generator, labelled, recurrent, sources, targets
from transduce.core import config, tree
from transduce.core.protocols import Model
from transduce.core.types import Facts, Padded
from transduce.layers.encoders.bag import BagEncoder
from transduce.wings.labels.encoders.labels import LabelledEncoder, LabelsEncoder


def test_labels_stand_beside_what_the_text_says() -> None:
    text = BagEncoder(FACTS.source_vocabulary, 6)
    encoder = LabelledEncoder(FACTS.source_vocabulary, text, labels=2, label_width=3).double().eval()
    source = sources([5, 3, 4])
    found = encoder(source)
    for row, length in enumerate(source.lengths.tolist()):
        alone = text(Padded(source.values[row : row + 1, 2:length], torch.tensor([length - 2])))
        labels = torch.cat([encoder.label_embedding.weight[i] for i in source.values[row, :2]])
        assert_close(found.summary[1][row], labels)
        assert_close(found.summary[0][0][row], alone.summary[0][0])
        assert_close(found.states.values[row, : length - 2], alone.states.values[0])
        assert found.source.values[row, : length - 2].equal(source.values[row, 2:length])  # pointers copy these
    assert found.states.lengths.tolist() == found.source.lengths.tolist() == [3, 1, 2]
    assert tuple(leaf.shape[-1] for leaf in tree.leaves(found.summary)) == encoder.summary_widths == (6, 6)
    assert encoder.width == 6


def test_labels_alone_are_all_there_is() -> None:
    encoder = LabelsEncoder(FACTS.source_vocabulary, labels=2, width=3).double().eval()
    source = sources([3, 5, 3])
    found = encoder(source)
    assert_close(found.states.values, encoder.embedding.weight[source.values[:, :2]])
    assert_close(found.summary[0], found.states.values.reshape(3, 6))
    assert found.states.lengths.tolist() == [2, 2, 2]
    assert encoder.summary_widths == (6,)


@pytest.mark.parametrize("lengths", [[5, 2, 4], [2]])
def test_a_source_without_its_labels_is_refused(lengths: list[int]) -> None:
    text = BagEncoder(FACTS.source_vocabulary, 6)
    for encoder in (LabelledEncoder(FACTS.source_vocabulary, text, labels=2), LabelsEncoder(11, labels=2)):
        with pytest.raises(
            ValueError, match=r'a source of 2 tokens.*labels = 2: set data\.units\.source to "labelled"'
        ):
            encoder(sources(lengths))


def test_the_encoder_is_swapped_by_configuration_only() -> None:
    """The decoder's table is the same for every encoder. Only the encoder decides what the context contains."""
    transformer = {"type": "transformer", "positions": "none", "width": 6, "heads": 2, "layers": 1, "feedforward": 8}
    text = recurrent("plain")["encoder"]
    for encoder in (text, {"type": "bag", "width": 6}, transformer, "labels", labelled(text), labelled("bag")):
        table = generator(encoder)
        model: Any = config.build(table, Model, FACTS, "model")
        output, _ = model.extend(targets(3, 4), model.start(sources([5, 2, 4])))
        assert model.readout(output).shape == (3, 4, FACTS.target_vocabulary)
        assert table["decoder"] == generator("bag")["decoder"]


def test_tied_tables_are_the_texts() -> None:
    table = generator(labelled({"type": "bag", "width": 10}), "plain", deep_output=True) | {"tie": "all"}
    table["decoder"] = table["decoder"] | {"embedding_width": 10}
    model: Any = config.build(table, Model, Facts(9, 9), "model")
    assert model.encoder.text.embedding.weight is model.decoder.embedding.weight
    assert model.encoder.label_embedding.weight is not model.decoder.embedding.weight
