"""Layers and heads have the names that people use."""

from __future__ import annotations

from transduce.wings.looking.reports.head_names import layer_names


def test_layers_count_from_one_and_name_their_part_if_two_have_one_number() -> None:
    cross = ["decoder.layers.0.memory.heads", "decoder.layers.11.memory.heads"]
    assert list(layer_names(cross).values()) == ["layer 1", "layer 12"]
    both = layer_names(["encoder.layers.0.mixer.heads", "decoder.layers.0.mixer.heads", "decoder.attention"])
    assert list(both.values()) == [
        "layer 1 (encoder mixer.heads)",
        "layer 1 (decoder mixer.heads)",
        "attention",
    ]
    two = layer_names(["decoder.decoder.wiring.attention", "decoder.attention"])
    assert list(two.values()) == ["attention (decoder.decoder.wiring.attention)", "attention (decoder.attention)"]
