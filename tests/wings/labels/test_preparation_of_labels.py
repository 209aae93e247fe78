"""What the wing labels adds to test_preparation.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_preparation import cache, data  # noqa: F401

from transduce.data.corpora import DataError
from transduce.data.preparation import prepare
from transduce.data.settings import Units
from transduce.data.tokenizers.text import Characters, Symbols
from transduce.wings.labels.spelled import Spelled
from transduce.wings.language.gap_tokenizer import Gaps


def test_a_changed_list_of_words_is_read_again(data, cache, tmp_path):
    file = tmp_path / "words"
    unit = Spelled(Characters(), Symbols(always_in=file))
    listed = []
    for text in ("one", "one two"):
        file.write_text(text.replace(" ", "\n"))
        listed.append(prepare(replace(data, units=replace(data.units, source=unit)), cache).facts.source_words)
    assert listed[1] == listed[0] + 1


@pytest.mark.parametrize(
    ("units", "told"),
    [
        (
            Units(source=Symbols(minimum_count=9), target=Characters()),
            "data.units.source.minimum_count = 9: the 3 lines have 3 different tokens of the source, and all are rarer",
        ),
        (
            Units(source=Characters(), target=Characters(minimum_count=4)),
            "data.units.target.minimum_count = 4: the 3 lines have 4 different tokens of the target",
        ),
        (Units(joint=Symbols(minimum_count=9)), "data.units.joint.minimum_count = 9: the 6 lines have 6 different"),
        (Units(source=Gaps(Symbols(minimum_count=9)), target=Symbols()), "data.units.source.text.minimum_count = 9"),
    ],
)
def test_a_vocabulary_that_a_setting_empties_is_refused(data, cache, units, told):
    with pytest.raises(DataError, match=f"^{told.replace('.', chr(92) + '.')}"):
        prepare(replace(data, units=units), cache)
