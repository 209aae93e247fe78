"""Documents on the command line and from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from test_cli import Call

import transduce
from transduce.answers.request import Request
from transduce.core.errors import DataError, UserError
from transduce.wings.documents.glossary import Glossary
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.limits import Limits

PAGE = "<p>ab <b>c</b> ba</p>\n<p>12</p>\n<p>aab</p>\n"


def test_predict_translates_a_document(
    trained: Path, tmp_path: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    page, out = tmp_path / "a.html", tmp_path / "b.html"
    page.write_text(PAGE, encoding="utf-8")
    status, text, _ = call("predict", trained, page, "--device=cpu", f"--out={out}")
    written = out.read_text(encoding="utf-8")
    line = call("predict", trained, "--device=cpu", stdin=b"aab\n")[1].strip()
    assert (status, text) == (0, "")
    assert "2 units translated" in caplog.text
    assert written.endswith(f"<p>12</p>\n<p>{line}</p>\n")
    assert written.count("<b>") == written.count("</b>") == 1
    model = transduce.load(trained, device="cpu")
    counts = transduce.translate_document(model, page, tmp_path / "c.html")
    assert (tmp_path / "c.html").read_text(encoding="utf-8") == written
    assert (counts.translated, counts.kept) == (2, 0)


def test_placeholders_of_a_document_are_kept_without_an_option(trained: Path, tmp_path: Path, call: Call) -> None:
    catalogue, out = tmp_path / "a.po", tmp_path / "b.po"
    catalogue.write_text('msgid "ab %d ba {n}"\nmsgstr ""\n\nmsgid "aab"\nmsgstr "x"\n', encoding="utf-8")
    status, _, err = call("predict", trained, catalogue, "--device=cpu", f"--out={out}")
    written = out.read_text(encoding="utf-8").splitlines()[1]
    assert status == 0, err
    assert (written.count("%d"), written.count("{n}")) == (1, 1)


def test_markup_that_no_model_can_place_stands_after_the_text(
    trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("nothing aligns")

    monkeypatch.setattr("transduce.wings.alignment.extras.check_extras", refuse)
    (tmp_path / "a.html").write_text("<p>ab <b>c</b> ba</p>", encoding="utf-8")
    counts = transduce.translate_document(
        transduce.load(trained, device="cpu"), tmp_path / "a.html", tmp_path / "b.html"
    )
    assert "written after the text, and placeholders may be lost: nothing aligns" in caplog.text
    assert (tmp_path / "b.html").read_text(encoding="utf-8").endswith("<b></b></p>")
    assert "1 with their markup after the text" in str(counts)


def test_sentences_and_columns(trained: Path, tmp_path: Path, call: Call) -> None:
    table, out = tmp_path / "a.tsv", tmp_path / "b.tsv"
    table.write_text("n\ttext\n1\tThis is one. That is two.\n", encoding="utf-8")
    status, _, err = call("predict", trained, table, "--device=cpu", f"--out={out}", "--column=text", "--sentences=en")
    answers = call("predict", trained, "--device=cpu", stdin=b"This is one.\nThat is two.\n")[1].splitlines()
    assert status == 0, err
    assert out.read_text(encoding="utf-8") == f"n\ttext\n1\t{answers[0]} {answers[1]}\n"


def test_texts_are_read_with_those_before_them(trained: Path, tmp_path: Path, call: Call) -> None:
    text, out, other = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    text.write_text("ab\n12\n\nba aab\nabc\n", encoding="utf-8")
    status, _, err = call("predict", trained, text, "--device=cpu", f"--out={out}", "--previous=1")
    assert status == 0, err
    model = transduce.load(trained, device="cpu")
    transduce.translate_document(model, text, other, previous=1)
    assert out.read_bytes() == other.read_bytes()
    with TestClient(application(Catalogue.of({"reverse": model}, Limits(texts=1)))) as client:
        sent = {"files": {"file": ("a.txt", text.read_bytes())}}
        assert client.post("/document", data={"previous": "1"}, **sent).content == out.read_bytes()
        refused = client.post("/document", data={"previous": "9"}, **sent)
        assert refused.status_code in (400, 422)
        assert "0 to 8 sentences before a sentence" in refused.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["a.html", "--out=b.html", "--previous=-1"], "0 to 8 sentences before a sentence"),
        (["a.html"], "a.html is a document: name its translation with --out NEW.html"),
        (["a.html", "--out=b.txt"], "give it the ending .html"),
        (["a.html", "--out=a.html"], "--out"),
        (["a.html", "b.html", "--out=c.html"], "only one is translated at a time"),
        (["a.html", "--out=b.html", "--nbest=2"], "which has one translation"),
        (["a.html", "--out=b.html", "--alignments"], "which has one translation"),
        (["a.html", "--out=b.html", "--format=jsonl"], "which has one translation"),
        (["a.html", "--out=b.html", "--column=text"], "has no columns"),
        (["a.html", "--out=b.html", "--sentences=?"], "the code of a language"),
        (["a.html", "--out=b.html", "--prefixes=p"], "belong to lines"),
        (["a.pdf", "--out=b.pdf"], "documents with this ending are not read; known: .xliff"),
        (["a.abc", "--out=b.abc", "--format=document"], "documents with this ending are not read"),
        (["--format=document", "--out=b"], "a document is a file, and none is named"),
    ],
)
def test_options_that_a_document_cannot_have(
    options: list[str], told: str, trained: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.html", "b.html", "a.pdf", "a.abc", "p"):
        Path(name).write_text("<p>ab", encoding="utf-8")
    status, _, err = call("predict", trained, "--device=cpu", *options)
    assert status == 2
    assert told in err
    assert "Traceback" not in err


def test_the_server_translates_documents(trained: Path, tmp_path: Path) -> None:
    model = transduce.load(trained, device="cpu")
    page = tmp_path / "a.html"
    page.write_text(PAGE, encoding="utf-8")
    transduce.translate_document(model, page, tmp_path / "b.html")
    sent = {"file": ("a.html", PAGE.encode())}
    with TestClient(application(Catalogue.of({"reverse": model}, Limits(texts=1)))) as client:
        found = client.post("/document", files=sent)
        assert found.content == (tmp_path / "b.html").read_bytes()
        assert found.headers["x-units"].startswith("2 units translated")
        assert "a.html" in found.headers["content-disposition"]
        for wrong, data, told in (
            ({"file": ("a.pdf", b"x")}, {}, "documents with this ending are not read"),
            ({"file": ("../a.xlf", b"<x")}, {}, "a.xlf:1: this is no XML"),
            (sent, {"column": "a"}, "has no columns"),
            (sent, {"sentences": "?"}, "the code of a language"),
            (sent, {"glossary": "a"}, "a term, a tab and its translation"),
            ({"file": ("a.txt", b"a" * 20_000)}, {}, "the server takes 10,000"),
        ):
            refused = client.post("/document", files=wrong, data=data)
            assert refused.status_code == 400, refused.text
            assert told in refused.text
        assert client.post("/document", json={}).status_code == 400


def test_the_server_and_python_take_terms(trained: Path) -> None:
    model = transduce.load(trained, device="cpu").changed({}, size=8)
    asked = Glossary.of([["ab", "cc", "dd"]]).applied(Request("ab c"))
    assert asked.constraints is not None
    assert asked.constraints.required == [("cc", "dd")]
    (answer,) = model.answer([asked])
    with TestClient(application(Catalogue.of({"reverse": model}))) as client:
        for rows in ([["ab", "cc", "dd"]], ["ab\tcc\tdd"]):
            (found,) = client.post("/predict", json={"source": "ab c", "glossary": rows}).json()["answers"]
            assert found["text"] == answer.best.text
        assert "glossary, row 1: 'ab'" in client.post("/predict", json={"source": "a", "glossary": ["ab"]}).text
    with pytest.raises(DataError, match=r"glossary, row 2: ''"):
        Glossary.of([["a", "b"], []])
