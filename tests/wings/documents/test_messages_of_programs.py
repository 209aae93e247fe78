"""Files of programs' messages and more subtitles: values change, and everything else stays to the byte."""

from __future__ import annotations

import json

import pytest

from transduce.core.errors import DataError
from transduce.wings.documents.formats import parse

RESOURCES = (
    '<resources xmlns:xliff="urn:x">\n<!-- c --><string name="a">Ein Mann\\\'s <b>Hut</b> &amp; %1$s</string>'
    '<string name="b" translatable="false">App</string><string name="c">@string/a</string>'
    '<string name="d">Hallo <xliff:g id="n">%s</xliff:g>!</string>'
    '<plurals name="p"><item quantity="one">ein "Hund"</item></plurals><item>x</item></resources>'
)
RESX = (
    '<root><resheader name="v"><value>2.0</value></resheader><data name="a"><value>Ein &lt;b&gt; {0}</value>'
    '<comment>nicht</comment></data><data name="i" type="Bitmap"><value>AAAA</value></data></root>'
)
QT = (
    '<!DOCTYPE TS>\n<TS version="2.1"><context><name>M</name><message><source>Ein &amp;Mann</source>'
    '<translation type="unfinished"/></message>'
    "<message><source>fertig</source><translation>done</translation></message>"
    '<message numerus="yes"><source>%n Hund(e)</source><translation type="unfinished"><numerusform></numerusform>'
    '<numerusform/></translation></message><message><source>alt</source><translation type="vanished"/></message>'
    "</context></TS>"
)
ASS = (
    "[Events]\nFormat: Layer, Text\nDialogue: 0,0:00:01.00,0:00:03.00,D,,0,0,0,,{\\i1}Ein, Mann{\\i0}\\Ngeht\n"
    "Dialogue: 0,0:00:01.00,0:00:03.00,D,,0,0,0,,{\\p1}m 0 0 l 1 1\nComment: 0,a,b,D,,0,0,0,,nein\n"
)


@pytest.mark.parametrize(
    ("ending", "content", "units", "written"),
    [
        (".json", '{"ab": "cd", "l": ["e\\n", 3, {"f": "\\"g\\""}], "h": ""}', ["cd", "e", '"g"'],
         '{"ab": "CD", "l": ["E\\n", 3, {"f": "\\"G\\""}], "h": ""}'),
        (".json", '["\\u00e4"]', ["ä"], '["\\u00c4"]'),
        (".json", '["ä", "\\ud800x"]', ["ä"], '["Ä", "\\ud800x"]'),
        (".arb", '{"@@locale": "de", "a": "b {n}", "@a": {"description": "c", "l": ["d"]}, "e": "f"}', ["b {n}", "f"],
         '{"@@locale": "de", "a": "B {N}", "@a": {"description": "c", "l": ["d"]}, "e": "F"}'),
        (".properties", "# k a=b\nk.1=ein \\u00e4 😀\nk2 : zwei \\\n   drei\\n\r\n! x y\nk\\ 3 vier\nleer=\n",
         ["ein ä 😀", "zwei drei", "vier"], "# k a=b\nk.1=EIN Ä 😀\nk2 : ZWEI DREI\\n\r\n! x y\nk\\ 3 VIER\nleer=\n"),
        (".properties", "a=\\u00e4 \\ud83d\\ude00\\\\", ["ä 😀\\"], "a=\\u00c4 \\ud83d\\ude00\\\\"),
        (".strings", '/* "x" = "y"; */\n// "x" = "y";\n"k" = "ein \\"a\\" %@\\n";\nplain="zwei";',
         ['ein "a" %@', "zwei"],
         '/* "x" = "y"; */\n// "x" = "y";\n"k" = "EIN \\"A\\" %@\\n";\nplain="ZWEI";'),
        (".xml", RESOURCES, ["Ein Mann's Hut & %1$s", "Hallo !", "ein Hund"],
         RESOURCES.replace("Ein Mann\\'s", "EIN MANN\\'S").replace("Hut", "HUT").replace("%1$s", "%1$S")
         .replace("Hallo", "HALLO").replace('ein "Hund"', "EIN HUND")),
        (".resx", RESX, ["Ein <b> {0}"], RESX.replace("Ein &lt;b&gt;", "EIN &lt;B&gt;")),
        (".ts", QT, ["Ein &Mann", "%n Hund(e)", "%n Hund(e)"],
         QT.replace('<translation type="unfinished"/>', '<translation type="unfinished">EIN &amp;MANN</translation>')
         .replace("<numerusform></numerusform><numerusform/>", "<numerusform>%N HUND(E)</numerusform>" * 2)),
        (".sbv", "0:00:01.000,0:00:03.000\nein Mann\n\n0:00:04.000,0:00:05.000\nzwei\n", ["ein Mann", "zwei"],
         "0:00:01.000,0:00:03.000\nEIN MANN\n\n0:00:04.000,0:00:05.000\nZWEI\n"),
        (".ass", ASS, ["Ein, Mann geht"], ASS.replace("Ein, Mann{\\i0}\\Ngeht", "EIN,\\NMANN{\\i0} GEHT")),
        (".ttml", '<tt><body><p begin="1s">ein<br/>Mann</p></body></tt>', ["ein", "Mann"],
         '<tt><body><p begin="1s">EIN<br/>MANN</p></body></tt>'),
    ],
)  # fmt: skip
def test_values_are_units_and_the_rest_stays(ending: str, content: str, units: list[str], written: str) -> None:
    document = parse(content.encode(), ending, f"a{ending}")
    assert [unit.text for unit in document.units] == units
    upper = {unit: [part.upper() if isinstance(part, str) else part for part in unit.parts] for unit in document.units}
    assert document.written(upper).decode() == written


def test_a_translation_with_signs_is_read_back() -> None:
    text = 'a "b" \\ \' \n\t€ <&>'
    for ending, content in ((".json", '["x"]'), (".arb", '{"a": "x"}')):
        document = parse(content.encode(), ending, "a")
        (unit,) = document.units
        written = json.loads(document.written({unit: [text]}))
        assert text in (written if ending == ".json" else written.values())
    document = parse(b"<resources><string name='a'>x</string></resources>", ".xml", "a")
    (unit,) = document.units
    written = document.written({unit: ["@" + text]})
    (again,) = parse(written, ".xml", "a").units
    assert again.text == "@" + text.replace(" \n\t", " ")


@pytest.mark.parametrize(
    ("ending", "content", "told"),
    [
        (".json", "{", "a:1: this is no JSON"),
        (".json", '{"a": 1}\n{"a": 2}', "name it .jsonl"),
        (".json", "[" * 100_000, "deeper than"),
        (".strings", "ein Satz", 'no line such as "key"'),
        (".xml", "<html/>", "another kind.*<html>.*resources of Android"),
        (".resx", "<a/>", "resources of .NET"),
        (".ts", "const a = 1", "no XML"),
        (".ass", "[Events]", "Dialogue:"),
    ],
)
def test_what_is_no_such_file_is_told(ending: str, content: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        parse(content.encode(), ending, "a")
