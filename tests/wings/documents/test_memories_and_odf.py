"""Translation memories, OpenDocument, and markup inside paragraphs of Markdown, as documents."""

from __future__ import annotations

import io
import logging
import zipfile
from typing import Any
from xml.etree import ElementTree

import pytest

from transduce.core.errors import DataError
from transduce.wings.documents.document import Document, Tag
from transduce.wings.documents.formats import parse
from transduce.wings.documents.markdown_inline import inline

TMX = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de-DE" datatype="xml"/><body>
  <tu tuid="1">
    <tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Mann<ept i="1">&lt;/b&gt;</ept> &amp; Frau.</seg></tuv>
  </tu>
  <tu><tuv xml:lang="de-DE"><seg>da</seg></tuv><tuv xml:lang="en"><seg>there</seg></tuv></tu>
  <tu><tuv xml:lang="de-DE"><seg>leer</seg></tuv><tuv xml:lang="en"><seg/></tuv></tu>
</body></tmx>
"""
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
ODT = f"""<?xml version="1.0" encoding="UTF-8"?>
<o:document-content xmlns:o="{OFFICE}" xmlns:text="{TEXT}"><o:body><o:text>
<text:h text:outline-level="1">Titel</text:h>
<text:p>Ein <text:span text:style-name="T1">Mann</text:span><text:s text:c="2"/>geht<text:note>\
<text:note-citation>1</text:note-citation><text:note-body><text:p>Fuß</text:p>\
</text:note-body></text:note> weg.</text:p>
<text:p>Seite <text:page-number>3</text:page-number> von allen<text:tab/>rechts<text:line-break/>unten</text:p>
<text:tracked-changes><text:p>gelöscht</text:p></text:tracked-changes><text:p/>
</o:text></o:body></o:document-content>
"""


def texts(document: Document) -> list[str]:
    return [unit.text for unit in document.units]


def shouted(document: Document) -> bytes:
    return document.written(
        {unit: [part if isinstance(part, Tag) else part.upper() for part in unit.parts] for unit in document.units}
    )


def archive(files: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("mimetype", "application/vnd.oasis.opendocument.text", zipfile.ZIP_STORED)
        for name, text in files.items():
            made.writestr(name, text)
    return content.getvalue()


def test_a_translation_memory_gets_the_other_language() -> None:
    document = parse(TMX.encode(), ".tmx", "x.tmx")
    assert (texts(document), document.kept) == (["Ein Mann & Frau.", "leer"], 1)
    whole = shouted(document).decode()
    assert '\n    <tuv xml:lang="en"><seg>EIN <bpt i="1">&lt;b&gt;</bpt>MANN<ept i="1">' in whole
    assert '<tuv xml:lang="en"><seg>LEER</seg></tuv>' in whole
    assert "there" in whole
    again = parse(whole.encode(), ".tmx", "x.tmx")
    assert (texts(again), again.kept) == ([], 3)
    assert document.written({}) != TMX.encode(), "a unit without translation has its source"


def test_a_language_is_written_as_in_the_file() -> None:
    content = TMX.replace('xml:lang="en"', 'xml:lang="en-GB"').encode()
    assert b'<tuv xml:lang="en-GB"><seg>EIN' in shouted(parse(content, ".tmx", "f.tmx"))
    unsaid = content.replace(b'srclang="de-DE"', b'srclang="*all*"')
    assert texts(parse(unsaid, ".tmx", "f.tmx", "EN-gb")) == ["Ein Mann & Frau.", "leer"]


def test_the_languages_of_a_translation_memory() -> None:
    alone = TMX.replace('<tuv xml:lang="en"><seg>there</seg></tuv>', "").replace('<tuv xml:lang="en"><seg/></tuv>', "")
    assert b'<tuv xml:lang="pt-BR"><seg>DA</seg></tuv>' in shouted(parse(alone.encode(), ".tmx", "x.tmx", "pt-BR"))
    for changed, column, message in (
        (alone, None, r"the language to translate into is not known .*--column LANGUAGE"),
        (TMX.replace('srclang="de-DE"', 'srclang="*all*"').replace('"en"><seg/>', '"fr"><seg/>'), None, "srclang"),
        (TMX, "de-de", "--column de-de is no language other than"),
        (TMX, 'x"y', "is no language"),
        ("<html/>", None, "XML of another kind"),
    ):
        with pytest.raises(DataError, match=message):
            parse(changed.encode(), ".tmx", "x.tmx", column)


def test_an_open_document() -> None:
    styles = ODT.replace("Titel", "Kopf").replace("document-content", "document-styles")
    content = archive({"content.xml": ODT, "styles.xml": styles, "meta.xml": "<x>bleibt</x>"})
    document = parse(content, ".odt", "x.odt")
    own = ["Ein Mann geht", "Fuß", "weg.", "Seite von allen", "rechts", "unten"]
    assert [" ".join(text.split()) for text in texts(document)] == ["Titel", *own, "Kopf", *own]
    with zipfile.ZipFile(io.BytesIO(shouted(document))) as new:
        assert new.infolist()[0].filename == "mimetype"
        assert new.infolist()[0].compress_type == zipfile.ZIP_STORED
        assert new.read("meta.xml") == b"<x>bleibt</x>"
        whole = new.read("content.xml").decode()
        assert '<text:span text:style-name="T1">MANN</text:span>' in whole
        assert "<text:page-number>3</text:page-number>" in whole
        assert "gelöscht" in whole
        found = ElementTree.fromstring(whole)
    paragraphs = ["".join(each.itertext()) for each in found.iter(f"{{{TEXT}}}p")]
    assert paragraphs[0] == "EIN MANN GEHT1FUSS WEG."
    unchanged = document.written({})
    assert (
        zipfile.ZipFile(io.BytesIO(unchanged)).read("styles.xml")
        == styles.replace('<text:s text:c="2"/>', " ").encode()
    )
    with pytest.raises(DataError, match=r"an archive without content\.xml"):
        parse(archive({"word/document.xml": "<x/>"}), ".odt", "x.odt")


def test_cells_of_sheets_with_numbers_dates_and_formulas_stay() -> None:
    cells = [
        ('o:value-type="string"', "Ein <text:span>Mann</text:span>"),
        ('o:value-type="string" o:string-value="da"', "da"),
        ('o:value-type="float" o:value="3"', "3 Stück"),
        ('o:value-type="string" t:formula="of:=A1" o:string-value="so"', "so"),
    ]
    table = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
    row = "".join(f"<t:table-cell {tag}><text:p>{text}</text:p></t:table-cell>" for tag, text in cells)
    content = f'<o:d xmlns:o="{OFFICE}" xmlns:t="{table}" xmlns:text="{TEXT}"><t:table-row>{row}</t:table-row></o:d>'
    document = parse(archive({"content.xml": content}), ".ods", "x.ods")
    assert texts(document) == ["Ein Mann", "da"]
    with zipfile.ZipFile(io.BytesIO(shouted(document))) as new:
        whole = new.read("content.xml").decode()
    assert "EIN <text:span>MANN</text:span></text:p>" in whole
    assert '<t:table-cell o:value-type="string"><text:p>DA</text:p>' in whole, "a second copy would hide it"
    assert whole.endswith(content[content.index('<t:table-cell o:value-type="float"') :])


def test_a_book() -> None:
    page = "<html><head><title>Eins</title></head><body><p>Ein&nbsp;<i>Mann</i></p></body></html>"
    content = archive({"META-INF/container.xml": "<x>so</x>", "OEBPS/a.xhtml": page, "OEBPS/b.css": "p {}"})
    document = parse(content, ".epub", "x.epub")
    assert texts(document) == ["Eins", "Ein Mann"]
    with zipfile.ZipFile(io.BytesIO(shouted(document))) as new:
        assert "<p>EIN <i>MANN</i></p>" in new.read("OEBPS/a.xhtml").decode()
        assert (new.read("OEBPS/b.css"), new.read("META-INF/container.xml")) == (b"p {}", b"<x>so</x>")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Ein **Mann** geht", ["**", "**"]),
        ("*a* _b_ ***c*** ~~d~~", ["*", "*", "_", "_", "***", "***", "~~", "~~"]),
        ("snake_case_name 2 * 3 * 4 und 5*6", []),
        (
            'siehe [hier *da*](https://x.org/a_(b)_c "t") und `a*b*` ``c ` d``',
            ["[", "*", "*", '](https://x.org/a_(b)_c "t")', "`a*b*`", "``c ` d``"],
        ),
        ("![Bild](x.png) [ref][r] [nur] a] und [^1]", ["![", "](x.png)", "[", "][r]", "[^1]"]),
        ("<b>x</b><br> <https://x.org> <!-- n --> 1 < 2", ["<b>", "</b>", "<br>", "<https://x.org>", "<!-- n -->"]),
        (r"\*nicht\* \`so\`", []),
        ("*offen und **zu** [nie", ["**", "**"]),
        ("*a [b* c](u) d*", ["*", "[", "](u)", "*"]),
    ],
)
def test_markup_inside_a_paragraph_of_markdown(text: str, tags: list[str]) -> None:
    runs = inline(text)
    assert "".join(run.part.raw if isinstance(run.part, Tag) else run.part for run in runs) == text
    assert [text[run.start : run.end] for run in runs if isinstance(run.part, Tag)] == tags
    document = parse(text.encode(), ".md", "x.md")
    assert document.written({}) == text.encode()


def test_markdown_moves_its_markup_with_the_words() -> None:
    text = "- Der **rote**\n  Hund, siehe [Seite](u).\n\n> *ganz*\n> schräg\n"
    document = parse(text.encode(), ".md", "x.md")
    assert texts(document) == ["Der rote Hund, siehe Seite.", "ganz schräg"]
    first = document.units[0]
    strong, link = first.tags[:2], first.tags[2:]
    moved: Any = ["See ", link[0], "page", link[1], ", ", strong[0], "red", strong[1], " dog."]
    assert document.written({first: moved}) == b"- See [page](u), **red** dog.\n\n> *ganz* schr\xc3\xa4g\n"


def test_xliff_2_without_a_target_language_is_told(caplog: pytest.LogCaptureFixture) -> None:
    content = (
        b'<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de"><file id="f"><unit id="u">'
        b"<segment><source>Eins</source></segment></unit></file></xliff>"
    )
    with caplog.at_level(logging.WARNING, "transduce"):
        parse(content, ".xlf", "x.xlf")
        assert "x.xlf has no trgLang, which XLIFF 2 needs beside targets" in caplog.text
        caplog.clear()
        parse(content.replace(b'"de"', b'"de" trgLang="en"'), ".xlf", "x.xlf")
        assert not caplog.text
