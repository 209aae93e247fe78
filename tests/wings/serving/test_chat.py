"""Conversations: histories, the speeches of plays, `transduce chat`, and the rank of the true reply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_cli import Call, told

import transduce
from transduce.core.errors import UserError
from transduce.core.types import Example
from transduce.data.corpora import DataError
from transduce.training.request import TrainingRequest
from transduce.wings.combining.reranking.loglinear import LogLinear, Own
from transduce.wings.combining.reranking.ranks import ranks
from transduce.wings.language.dialogue import Conversation, history
from transduce.wings.recipes.origins.dialogues import SelfDialogues
from transduce.wings.recipes.origins.plays import Plays, dialogues

TINY = {
    "model.encoder.embedding_width": 8,
    "model.encoder.width": 8,
    "model.decoder.embedding_width": 8,
    "model.decoder.width": 8,
    "data.units.source.text.type": "characters",
    "data.units.target": "characters",
    "training.steps": 2,
    "search.max_length": 5,
    "data.lines.max_source_length": 40,
}
SHORT = "--set", "search.type=greedy", "--set", "search.max_length=5"


def test_a_source_has_labels_and_the_last_turns() -> None:
    assert history(["a", "b  c|d\n", "e"], 2) == "b c/d | e"
    conversation = Conversation(2, ("HAMLET",)).with_turn("one").with_turn("two").with_turn("three")
    assert conversation.source == "HAMLET\ttwo | three"
    assert conversation.turns == ("one", "two", "three")


def test_speeches_in_a_row_are_a_dialogue() -> None:
    lines = ["Exeunt", "HAMLET I am here. O!", "KING CLAUDIUS A word.", "Ghost Mark me.", "IAGO I'll go.", "HAMLET"]
    assert [*dialogues(lines)] == [[("HAMLET", "I am here. O!"), ("KING CLAUDIUS", "A word.")], [("IAGO", "I'll go.")]]


def test_plays_are_replies_of_named_speakers(tmp_path: Path) -> None:
    speeches = ["ANNA one two three", "BERT four", "ANNA five", *(f"BERT {n}" for n in range(57))]
    plays = "\n".join([*speeches, "Exeunt"] * 20)
    (tmp_path / "plays.txt").write_text(plays)
    found = Plays(str(tmp_path / "plays.txt"), turns=2, words=2).prepare(tmp_path)
    rows = {
        split: [*map(json.loads, Path(str(files.path)).read_text().splitlines())]
        for split, files in vars(found).items()
    }
    assert rows["train"][:2] == [
        {"speaker": "BERT", "source": "two three", "target": "four"},
        {"speaker": "ANNA", "source": "two three | four", "target": "five"},
    ]
    # 60 speeches make parts of 50 and 10, and the first of a part is no reply. Two other splits have 2 of 40 parts
    # each.
    assert [len(each) for each in rows.values()] == [49 * 20 + 9 * 16, 9 * 2, 9 * 2]
    (tmp_path / "few.txt").write_text("\n".join(speeches))
    with pytest.raises(DataError, match="has 2 dialogues"):
        Plays(str(tmp_path / "few.txt")).prepare(tmp_path / "few")
    with pytest.raises(DataError, match="no plays to read"):
        Plays().prepare(tmp_path / "none")


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of replies that is trained for a few updates. Its only topic is music."""
    folder = tmp_path_factory.mktemp("chat")
    for split in ("train", "valid", "test"):
        rows = [f"music\td\t{n}\tsay {n}\tanswer {n}" for n in range(30)]
        (folder / f"{split}.tsv").write_text("\n".join(rows))
    settings = {"data.origin.folder": str(folder), "data.origin.checked": False, "data.origin.turns": 2, **TINY}
    return transduce.api.train_run(TrainingRequest("replies", folder / "run", settings), device="cpu", progress=False)


def test_each_line_is_answered_with_its_history(call: Call, chatting: Path) -> None:
    greedy = "--device=cpu", *SHORT, "--label", "music"
    _, out, err = call("chat", chatting, *greedy, stdin=b"hi\n\n/history\n/what\nyou\n/reset\nhi\n/history\n")
    first, *shown, second, third, last, again = out.splitlines()
    assert shown == ["hi", first]
    model = transduce.load(chatting, device="cpu").changed(SHORT[1::2])
    assert [first, second] == [model("music\thi"), model(f"music\t{first} | you")]
    assert (third, last, again) == (first, "hi", first)
    assert "/what is no command" in err


def test_the_oldest_turns_are_left_out_of_a_source_that_is_too_long(call: Call, chatting: Path) -> None:
    """The longest source has 40 tokens: the label, 38 characters and the end."""
    model = transduce.load(chatting, device="cpu").changed(SHORT[1::2])
    greedy = "--device=cpu", *SHORT, "--label", "music"
    first = model("music\thi")
    for room, kept in ((38, f"{first} | "), (39, "")):
        turn = "x" * (room - len(first) - len(" | "))
        _, out, err = call("chat", chatting, *greedy, stdin=f"hi\n{turn}\n".encode())
        assert out.splitlines() == [first, model(f"music\t{kept}{turn}")]
        assert "is cut to" not in err


def test_a_conversation_can_choose_among_replies(call: Call, chatting: Path) -> None:
    sampled = "--device=cpu", "--set", "search.type=sampling", "--label", "music", "--nbest", "4"
    _, out, _ = call("chat", chatting, *sampled, "--own", "0", "--length", "-1", stdin=b"hi\n")
    samples = transduce.load(chatting, device="cpu").changed({"search.type": "sampling"}, 4)
    (outputs,) = samples.predict(["music\thi"])
    lengths = {output.text: len(output.tokens) for output in outputs}
    assert len(set(lengths.values())) > 1
    assert lengths[out.rstrip("\n")] == min(lengths.values())


def test_chat_refuses_a_run_without_a_history(call: Call, chatting: Path, trained: Path) -> None:
    for run, options, message in [
        (trained, [], "have no history"),
        (chatting, [], "have 1 labels before the text, and --label is given 0 times; known: music"),
        (chatting, ["--label", "musik"], 'did you mean "music"?'),
        (chatting, ["--label", "music", "--candidates", "a.tsv"], "a conversation has none"),
    ]:
        assert message in told(call("chat", run, "--device=cpu", *options, stdin=b"hi\n"))


class _ByText:
    """Orders outputs by a table of scores."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores

    def __call__(self, pairs: list[tuple[str, object]]) -> list[float]:
        return [self.scores[output.text] for _, output in pairs]  # type: ignore[attr-defined]


def test_the_rank_of_the_true_target_is_counted(chatting: Path) -> None:
    model = transduce.load(chatting, device="cpu")
    examples = [Example(f"music\t{n}", (f"answer {n}",)) for n in range(4)]
    scores = {"answer 0": 3.0, "answer 1": 2.0, "answer 2": 2.0, "answer 3": 1.0}
    found = ranks(model, examples, LogLinear(((_ByText(scores), 1.0),)), others=3)  # type: ignore[arg-type]
    assert [*found.ranks] == [1, 3, 3, 4]  # equal scores count against the true target
    assert (found.first(), found.first(3), found.choices) == (0.25, 0.75, 4)
    assert found.mean_reciprocal == pytest.approx((1 + 1 / 3 + 1 / 3 + 1 / 4) / 4)
    with pytest.raises(UserError, match="have 4 different targets, so 1 to 3 others"):
        ranks(model, examples, LogLinear(((Own(), 1.0),)), others=4)


def test_rank_of_a_split(call: Call, chatting: Path) -> None:
    found = json.loads(call("rank", chatting, "--device=cpu", "--examples", "20", "--json")[1])
    assert (found["examples"], found["choices"], found["chance"]) == (20, 10, 0.1)
    assert 0 <= found["first"] <= found["first_three"] <= 1
    assert "first of 10 for" in call("rank", chatting, "--device=cpu", "--length", "0.5")[1]
    assert "--others sets their number" in told(call("rank", chatting, "--nbest", "4"))


def test_self_dialogues_are_checked_and_have_a_history(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        rows = ["pop\ta\t0\tone\ttwo", "pop\ta\t1\ttwo\tthree", "pop\tb\t0\tfour\tfive"]
        (tmp_path / f"{split}.tsv").write_text("\n".join(rows))
    found = SelfDialogues(2, str(tmp_path), checked=False).prepare(tmp_path / "made")
    assert found.test is not None
    lines = [json.loads(line) for line in Path(str(found.test.path)).read_text().splitlines()]
    assert [line["source"] for line in lines] == ["one", "one | two", "four"]  # another dialogue begins anew
    assert lines[1] == {"topic": "pop", "source": "one | two", "target": "three"}
    with pytest.raises(DataError, match="is not the file expected"):
        SelfDialogues(2, str(tmp_path)).prepare(tmp_path / "checked")
    with pytest.raises(DataError, match="at least 1 turn"):
        SelfDialogues(0)
