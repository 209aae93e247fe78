"""Documents: their units are found, and everything else stays to the byte. Other libraries read what is written."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import openpyxl
import polib
import pytest
from openpyxl.worksheet.table import Table

from transduce.answers.answer import Answer, Output
from transduce.answers.request import Request, requests_for
from transduce.core.errors import DataError, MissingPackageError, UserError
from transduce.wings.documents import encoded
from transduce.wings.documents.context import Context
from transduce.wings.documents.document import Document, Tag
from transduce.wings.documents.formats import FORMATS, is_document, parse
from transduce.wings.documents.markup import Marked
from transduce.wings.documents.sentences import Sentences
from transduce.wings.documents.subtitles import divided
from transduce.wings.documents.translation import Translation
from transduce.wings.documents.web import escape
from transduce.wings.protection.kinds import Span
from transduce.wings.protection.protection import KeptSpan

XLIFF = """\
<?xml version="1.0" encoding="%s"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="x"><body>
  <trans-unit id="1">
    <source>Ein <g id="1">Mann</g> &amp; <x id="2"/> größer.</source>
    <note>nicht</note></trans-unit>
  <trans-unit id="2"><source>da</source><target state="final">there</target></trans-unit>
  <trans-unit id="3"><source>leer</source><target/></trans-unit>
  <group translate="no"><trans-unit id="4"><source>nein</source></trans-unit></group>
  <trans-unit id="5"><source>A. B.</source><seg-source><mrk mtype="seg" mid="0">A.</mrk> <mrk mtype="seg" mid="1">B.\
</mrk></seg-source><alt-trans><source>alt</source><target>x</target></alt-trans></trans-unit>
</body></file></xliff>
"""
XLIFF2 = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de" trgLang="en"><file id="f"><unit '
    'id="u"><segment><source>Ein <pc id="1">Mann</pc> <ph id="2"/>geht</source></segment><ignorable><source> x</source>'
    "</ignorable><segment><source>Zwei</source><target>Two</target></segment></unit></file></xliff>"
)
PO = """\
# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1);\\n"

#: a.c:1
#, fuzzy, c-format
#| msgid "old"
msgctxt "menu"
msgid "Open %s \\"x\\""
msgstr "alt"

msgid "one file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid ""
"line one\\n"
"line two\\n"
msgstr ""

msgid "done"
msgstr "fertig"

#~ msgid "old"
#~ msgstr "alt"
"""
SRT = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\nEin Mann geht\r\n<i>durch</i> die Stadt.\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n- Ja?\r\n- Nein!\r\n"
)
HTML = """\
<!DOCTYPE html><html><head><title>Titel &uuml;ber</title><style>p{x}</style><meta name="description" content="Ja">
</head><body class=x><p title='Ein "Text"'>Ein <b class="y">Mann</b> &amp; eine   <a href="a?b=1&c=2">Frau</a>.<br>
Zwei <code>x &lt; y</code> da<p>offen <b>fett
<script>var a = "<p>nein</p>";</script><!-- nein --><ul><li>eins<li>zwei</ul><img alt="Bild" src=x>
<p translate=no>bleibt</p><p>offen <code>Rest</p><table><tr><td> Zelle </td></table></body></html>
"""
CSV = 'id;text;n\r\n1;"Ein ""Mann""\r\nzwei";3\r\n2;da;4\r\n3;;\r\n4;a "b" c;\r\n'
MARKDOWN = """\
---
title: bleibt
---
# Titel

Ein Absatz
mit zwei Zeilen.

- eins
- zwei
  weiter

> Zitat
> zwei

```
code
```

| A | 12 |
|---|---|
    code
"""


def read(content: str | bytes, ending: str, column: str | None = None) -> Document:
    return parse(content.encode() if isinstance(content, str) else content, ending, f"f{ending}", column)


def shouted(document: Document) -> bytes:
    """The document, with capitals for translations."""
    translations = {
        unit: [part.upper() if isinstance(part, str) else part for part in unit.parts] for unit in document.units
    }
    return document.written(translations)


def texts(document: Document) -> list[str]:
    return [unit.text for unit in document.units]


@pytest.mark.parametrize(
    ("content", "ending", "changed"),
    [
        (SRT, ".srt", ["EIN MANN GEHT\r\n<i>DURCH</i> DIE STADT.", "- JA?\r\n- NEIN!\r\n"]),
        (CSV, ".csv", ['"EIN ""MANN""\r\nZWEI";3\r\n', "2;DA;4\r\n3;;\r\n", '4;"A ""B"" C";']),
        ("text\tb\nEin Mann \t1\r\n", ".tsv", ["text\tb\nEIN MANN \t1\r\n"]),
        ("sep=;\r\na;text\r\n1;x\r\n", ".csv", ["sep=;\r\na;text\r\n1;X\r\n"]),
        ('{"id": 1, "text" :  "Ein \\"a\\"" , "x": {"text": ["b"]}}\n\n', ".jsonl", ['"text" :  "EIN \\"A\\"" , "x"']),
        ("Eins.\n\n  Zwei. Drei.\r\n12\n", ".txt", ["EINS.\n\n  ZWEI. DREI.\r\n12\n"]),
    ],
)
def test_everything_but_the_text_stays(content: str, ending: str, changed: list[str]) -> None:
    document = read(content, ending, "text" if ending in (".csv", ".tsv") else None)
    if ending != ".csv":  # of which one cell needs quotes now
        assert document.written({}) == content.encode()
    for part in changed:
        assert part in shouted(document).decode()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_xliff_gets_the_targets_that_it_lacks(encoding: str) -> None:
    document = read((XLIFF % encoding).encode(encoding), ".xlf")
    assert texts(document) == ["Ein Mann &  größer.", "leer", "A.", "B."]
    assert document.kept == 1
    whole = shouted(document).decode(encoding)
    assert '</source>\n    <target>EIN <g id="1">MANN</g> &amp; <x id="2"/> GRÖSSER.</target>\n    <note>' in whole
    assert '<target state="final">there</target>' in whole
    assert "<source>leer</source><target>LEER</target>" in whole
    assert '<target><mrk mtype="seg" mid="0">A.</mrk> <mrk mtype="seg" mid="1">B.</mrk></target><alt-trans>' in whole
    again = read(whole.encode(encoding), ".xlf")
    assert (again.units, again.kept) == ([], 4)


def test_xliff_2() -> None:
    document = read(XLIFF2, ".xliff")
    whole = shouted(document).decode()
    assert (
        '<target>EIN <pc id="1">MANN</pc> <ph id="2"/>GEHT</target></segment><ignorable><source> x</source><' in whole
    )
    assert (whole.count("<target>"), document.kept) == (2, 1)


def test_literal_text_of_xliff() -> None:
    document = read("<xliff><unit><source><![CDATA[a < b]]> da<!-- c --></source></unit></xliff>", ".xlf")
    assert texts(document) == ["a < b da"]
    assert b"<target>A &lt; B DA<!-- c --></target>" in shouted(document)


def test_messages() -> None:
    document = read(PO, ".po")
    whole = shouted(document).decode()
    entries = {entry.msgid: entry for entry in polib.pofile(whole)}
    assert entries['Open %s "x"'].msgstr == 'OPEN %S "X"'
    assert entries['Open %s "x"'].fuzzy
    assert entries['Open %s "x"'].msgctxt == "menu"
    assert entries["one file"].msgstr_plural == {0: "ONE FILE", 1: "%D FILES", 2: "%D FILES"}
    assert entries["line one\nline two\n"].msgstr == "LINE ONE\nLINE TWO\n"
    assert (entries["done"].msgstr, document.kept) == ("fertig", 1)
    assert whole.endswith('#~ msgid "old"\n#~ msgstr "alt"\n')


def test_pages() -> None:
    document = read(HTML, ".html")
    whole = shouted(document).decode()
    assert (
        '<p title=\'EIN &quot;TEXT&quot;\'>EIN <b class="y">MANN</b> &amp; EINE <a href="a?b=1&c=2">FRAU</a>.<br>'
        in whole
    )
    for kept in ("<style>p{x}</style>", '"<p>nein</p>"', "<!-- nein -->", "bleibt", "<code>x &lt; y</code>", "src=x"):
        assert kept in whole
    for changed in ("TITEL ÜBER", 'content="JA"', "<li>EINS<li>ZWEI", 'alt="BILD"', "REST", "<td> ZELLE </td>"):
        assert changed in whole
    assert [unit.text for unit in document.units][2] == "Zwei  da"


def test_marks_of_notes_and_powers_stay_whole() -> None:
    page = read("<p>Der Hund<sup><a href='#n'>1</a></sup> auf 5 m<sup>2</sup> ist der <sup>dritte</sup>.</p>", ".html")
    assert texts(page) == ["Der Hund auf 5 m ist der dritte."]
    assert b"HUND<sup><a href='#n'>1</a></sup> AUF 5 M<sup>2</sup> IST DER <sup>DRITTE</sup>." in shouted(page)


@pytest.mark.parametrize("section", ["<![if IE]>", "<![[", "<![ >", "<![ab[x>", "<![CDATA[<p>nein</p>]]>"])
def test_a_section_of_a_page_is_kept_as_a_comment_is(section: str) -> None:
    page = f"<p>eins</p>{section}<i></i><p>zwei</p>"
    assert shouted(read(page.encode(), ".html")).decode() == page.replace("eins", "EINS").replace("zwei", "ZWEI")


def test_paragraphs_of_markdown() -> None:
    document = read(MARKDOWN, ".md")
    assert texts(document) == ["Titel", "Ein Absatz mit zwei Zeilen.", "eins", "zwei weiter", "Zitat zwei", "A"]
    assert "# TITEL\n\nEIN ABSATZ MIT ZWEI ZEILEN.\n\n- EINS\n- ZWEI WEITER\n\n> ZITAT ZWEI\n\n```\ncode" in (
        shouted(document).decode()
    )


def test_boxes_notes_and_line_ends_of_markdown() -> None:
    page = (
        "# Titel *da* {#a .b}\nEins  \nzwei\\\n  drei[^1]\nvier\n\n[^1]: Note hier.\n[a]: https://x.org\n\n"
        "> [!NOTE]\n> Hinweis\n> zwei\n\nWort\n: Erklärung\n\n::: warn\nAchtung!\n:::\n{{< video a >}}\n"
    )
    document = read(page, ".md")
    assert texts(document) == [
        *("Titel da", "Eins", "zwei", "drei vier", "Note hier.", "Hinweis zwei", "Wort", "Erklärung", "Achtung!"),
    ]
    expected = page.upper().replace("[A]: HTTPS://X.ORG", "[a]: https://x.org").replace("{#A .B}", "{#a .b}")
    expected = expected.replace("VIDEO A", "video a").replace(":: WARN", ":: warn").replace("SS\n", "ss\n")
    expected = expected.replace("]\nVIER", "] VIER").replace("HINWEIS\n> ", "HINWEIS ")
    assert shouted(document).decode() == expected


def test_word() -> None:
    made = docx.Document()
    paragraph = made.add_paragraph("Ein ")
    paragraph.add_run("Mann").bold = True
    paragraph.add_run(" geht.")
    made.add_paragraph("Name:\tWert")
    made.add_table(1, 2).cell(0, 0).text = "Zelle"
    made.sections[0].header.paragraphs[0].text = "Kopf"
    content = io.BytesIO()
    made.save(content)
    document = read(content.getvalue(), ".docx")
    assert texts(document) == ["Ein Mann geht.", "Name:", "Wert", "Zelle", "Kopf"]
    found = docx.Document(io.BytesIO(shouted(document)))
    runs = [(run.text, run.bold) for run in found.paragraphs[0].runs]
    assert runs == [("EIN ", None), ("MANN", True), (" GEHT.", None)]
    assert found.paragraphs[1].text == "NAME:\tWERT"
    assert found.tables[0].cell(0, 0).text == "ZELLE"
    assert found.sections[0].header.paragraphs[0].text == "KOPF"
    first = document.units[0]
    moved = [first.parts[1], "the man", first.parts[3], " walks"]
    again = docx.Document(io.BytesIO(document.written({first: moved})))
    assert [(run.text, run.bold) for run in again.paragraphs[0].runs] == [("the man", True), (" walks", None)]


def test_excel() -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet["A1"], sheet["A2"], sheet["B1"], sheet["B2"] = "Ein Text", 3, '=CONCATENATE(A1,"x")', "12"
    sheet["D1"], sheet["D2"] = "Name", "Hans"
    sheet.add_table(Table(displayName="T", ref="D1:D2"))
    content = io.BytesIO()
    book.save(content)
    document = read(content.getvalue(), ".xlsx")
    found: Any = openpyxl.load_workbook(io.BytesIO(shouted(document))).active
    assert [found[cell].value for cell in ("A1", "A2", "B1", "B2", "D1", "D2")] == [
        *("EIN TEXT", 3, '=CONCATENATE(A1,"x")', "12"),
        *("Name", "HANS"),  # the name of a column of a table is used by formulas
    ]


def test_lines_of_captions() -> None:
    assert divided("a bb ccc dd e", 2) == ["a bb ccc", "dd e"]
    assert divided("one", 3) == ["one"]
    assert divided('a <font color="x y">b</font>', 2) == ["a", '<font color="x y">b</font>']


def test_speakers_of_captions() -> None:
    caption = "00:01.000 --> 00:02.000\n<v Anna>Ein Mann\ngeht.\n<v.laut Bob>Ja!</v>\n- Nein,\ndoch.\n- Gut.\n"
    document = read("WEBVTT\n\n" + caption, ".vtt")
    assert texts(document) == ["Ein Mann geht.", "Ja!", "- Nein, doch.", "- Gut."]
    whole = shouted(document).decode()
    assert whole.endswith("<v Anna>EIN MANN\nGEHT.\n<v.laut Bob>JA!</v>\n- NEIN,\nDOCH.\n- GUT.\n")


def bomb() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (encoded.MOST + 1))
    return content.getvalue()


def archive_of(name: str, text: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, text)
    return content.getvalue()


ENTITY = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><xliff><source>&e;</source></xliff>'


@pytest.mark.parametrize(
    ("content", "ending", "column", "told"),
    [
        (lambda: b"x", ".abc", None, "with this ending are not read; known: .xliff, .xlf, .po"),
        (lambda: b"<a><b></a>", ".xlf", None, "f.xlf:1: this is no XML that can be read (mismatched tag)"),
        (lambda: b"<html/>", ".xlf", None, "XML of another kind (html)"),
        (lambda: ENTITY.encode(), ".xlf", None, "declares entities"),
        (lambda: b"msgid broken\n", ".po", None, "f.po:1: 'msgid broken' is no line of a PO file"),
        (lambda: b"a\nGr\xf6\xdfe\n", ".html", None, "f.html:2: byte 0xf6 at 2 is not UTF-8"),
        (lambda: b'<meta charset="nothing">', ".html", None, "'nothing', which nobody knows"),
        (lambda: b"Ein Text\n", ".srt", None, "has no caption"),
        (
            lambda: b'a,text\n1,"offen\n',
            ".csv",
            "text",
            "f.csv:2: the cell '\"offen\\n' has a quote that nothing closes",
        ),
        (lambda: b"a,b\n1,2\n", ".csv", None, "--column: 'a', 'b'"),
        (lambda: b"ab,b\n1,2\n", ".csv", "aB", 'did you mean "ab"?'),
        (lambda: b"a,b\n1,2\n", ".csv", "2", "no column 2: its columns are 0 to 1"),
        (lambda: b'{"text": 1}\n', ".jsonl", None, "f.jsonl:1: text = 1: a text was expected"),
        (lambda: b"[1]\n", ".jsonl", None, "f.jsonl:1: '[1]': an object of JSON was expected"),
        (lambda: b"PK\x03\x04", ".docx", None, "no archive that can be read"),
        (lambda: archive_of("a", "b"), ".docx", None, "an archive without word/document.xml"),
        (lambda: archive_of("word/document.xml", "<a"), ".docx", None, "f.docx, word/document.xml:1: this is no XML"),
        (lambda: bomb(), ".docx", None, "unpacks to more than 100 MiB"),
        (lambda: b"", ".txt", "a", "has no columns"),
    ],
)
def test_what_cannot_be_read_is_told(content: Callable[[], bytes], ending: str, column: str | None, told: str) -> None:
    with pytest.raises(UserError) as error:
        read(content(), ending, column)
    assert told in str(error.value)


def test_a_letter_that_the_encoding_lacks() -> None:
    page = read(b'<meta charset="latin-1"><p>ab', ".html")
    assert page.written({page.units[0]: ["ж"]}).endswith(b"<p>&#1078;")
    table = read(b"\xff\xfe" + "text\nab\n".encode("utf-16-le"), ".csv")
    assert shouted(table)[2:].decode("utf-16-le") == "text\nAB\n"
    message = read(b'msgid ""\nmsgstr "charset=ascii\\n"\n\nmsgid "a"\nmsgstr ""\n', ".po")
    with pytest.raises(DataError, match="is in ascii, which has no 'ж'"):
        message.written({message.units[0]: ["ж"]})


def test_endings() -> None:
    assert [is_document(Path(name), False) for name in ("a.xlf", "a.txt", "a.de", "a", "A.HTML")] == [
        True,
        *[False] * 3,
        True,
    ]
    assert is_document(Path("a.txt"), True)
    with pytest.raises(UserError, match="are not read"):
        is_document(Path("a.pdf"), False)
    assert set(FORMATS) >= {".xliff", ".po", ".srt", ".html", ".docx", ".xlsx", ".csv", ".jsonl"}


def test_markup_on_its_way_through_a_model() -> None:
    opening, closing, alone = Tag("<b>", "open", "b"), Tag("</b>", "close", "b"), Tag("<i>", "open", "i")
    marked = Marked(["Ein ", opening, "Mann", closing, alone], True)
    assert marked.text == "Ein <g1>Mann</g1><x4/>"
    assert marked.read("<x4/><g1>the man</g1>") == ([alone, opening, "the man", closing], True)
    for wrong in ("</g1>a<g1><x4/>", "<g1>a</g1>", "<g1>a</g1><x4/><x4/>"):
        assert marked.read(wrong) == (["a", opening, closing, alone], False)
    assert Marked(["a ", opening, "b", closing], False).text == "a b"


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("- Ein Hund.", ["Ein Hund."]),
        ("<x0/>-Ein Hund. <g1>♪</g1>\n", ["Ein Hund."]),
        ("♪ • 12) Lied ♪ ♫", ["Lied"]),
        ("<g0>– Da</g0>", ["Da</g0>"]),
        ("-5 Grad, a - b", ["-5 Grad, a - b"]),
        ("♪ ♪", []),
        (" (a) 5", []),
        ("3,5 kg", []),
        ("info@x.org, https://x.org/a", []),
        ("v1.2.3-rc1 (src/main.cpp)", []),
        ("3 Hunde", ["3 Hunde"]),
    ],
)
def test_signs_around_a_line_are_not_asked_for(line: str, asked: list[str]) -> None:
    translation = Translation(read(line, ".txt"))
    assert translation.texts == asked
    answers = [Answer(request, (Output(request.source, (), None, 0.0, ()),)) for request in requests_for(asked)]
    assert translation.content(answers).decode() == line


def test_soft_hyphens_are_not_asked_for() -> None:
    assert Translation(read("<p>Do&shy;nau \u200bHund</p>", ".html")).texts == ["Donau Hund"]
    assert Translation(read("<p>ភាសា\u200bខ្មែរ</p>", ".html")).texts == ["ភាសា\u200bខ្មែរ"]


def test_a_sentence_is_asked_again_with_those_before_it() -> None:
    placed = KeptSpan(Span("%s", "placeholder", 0), "%s", (0, 2))
    texts = [("A %s", "%s a", (placed,)), ("B", "b", None), ("C", "c", None), ("D", "d", None)]
    first = [Answer(Request(source), (Output(text, (), None, 0.0, (), spans=spans),)) for source, text, spans in texts]
    first[2] = Answer(Request("C"), (), problem="no")
    asked = Context(2).asked(first)
    assert [(number, each.source, each.prefix) for number, each in asked.items()] == [
        (1, "A %s B", "a"),
        (3, "B D", "b"),
    ]

    def merged(*outputs: str) -> list[str]:
        answers = [
            Answer(each, (Output(t, (), None, 0.0, ()),)) for each, t in zip(asked.values(), outputs, strict=True)
        ]
        whole = Context(2).merged(first, dict(zip(asked, answers, strict=True)))
        return ["" if each.problem else each.best.text for each in whole]

    assert merged("a new", "b newer") == ["%s a", "new", "", "newer"]
    assert Context(2).merged(first, {})[1] is first[1]
    assert merged("a", "else") == ["%s a", "b", "", "d"], "nothing, or nothing after the prefix"


def test_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(Sentences("de-AT")("Er kam am 3. Mai. Ja.")) == 2
    assert Sentences("de")("Das ist z. B. gut.  Ja.") == ["Das ist z. B. gut.  ", "Ja."]
    with pytest.raises(UserError, match="code of a language"):
        Sentences("German language")
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'transduce\[documents\]'"):
        Sentences("de")


def test_escapes() -> None:
    assert escape('a < "b" & c') == 'a &lt; "b" &amp; c'
