"""Protected spans: what is taken out of a source, and where it comes back in an output."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from transduce import Extras, Protection, Request
from transduce.answers.answer import Output
from transduce.core.errors import RequestError, UserError
from transduce.wings.alignment.sides import Side
from transduce.wings.alignment.token_alignment import TokenAlignment
from transduce.wings.protection.elements import elements_of, partners
from transduce.wings.protection.kinds import KINDS, find_spans, own_patterns
from transduce.wings.protection.text import units


def spans(source: str, *kinds: str) -> list[str]:
    return [span.text for span in find_spans(source, {kind: KINDS[kind] for kind in kinds or KINDS})]


def aligned(source: str, target: str, links: str) -> TokenAlignment:
    """An alignment of the units of two texts by links "0-0 1-2", source first."""
    sides = []
    for text in (source, target):
        ranges = units(text)
        sides.append(Side(text, [*ranges, (len(text), len(text))], [*range(len(ranges)), None], False))
    weights_TS = torch.full((len(sides[1].spans), len(sides[0].spans)), 0.01)
    for link in links.split():
        one, other = map(int, link.split("-"))
        weights_TS[other, one] = 1.0
    return TokenAlignment(weights_TS / weights_TS.sum(1, keepdim=True), sides[0], sides[1])


def output(text: str) -> Output:
    return Output(text, (), None, 0.0, ())


def put_back(source: str, target: str, links: str, **options: Any) -> str:
    protection = Protection(**options)
    read = protection.read(source)
    found = protection.placed(read, output(target), aligned(read.text, target, links))
    assert found.spans is not None
    for kept in found.spans:  # the answer says where each one is
        assert kept.place is not None
        assert found.text[slice(*kept.place)] == kept.written
    return found.text


# ------------------------------------------------------------------ what is a span


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Ein <b>Mann</b> {name} auf https://x.org/a?b=1 mit %s und 12.345,67 €.",
         ["<b>", "</b>", "{name}", "https://x.org/a?b=1", "%s", "12.345,67 €"]),
        ("a<br/>b <a href='x > y'>c</a> <!-- d --> &amp; &#8364; 1 < 2 und 3 > 2, <3",
         ["<br/>", "<a href='x > y'>", "</a>", "<!-- d -->", "&amp;", "&#8364;", "1", "2", "3", "2", "3"]),
        ("%(x)d %1$s %-5.2f %% ${x} {{x}} #{x} {0:.2f} {a.b[0]!r} $HOME {n, plural, one {# item} other {# items}}",
         ["%(x)d", "%1$s", "%-5.2f", "%%", "${x}", "{{x}}", "#{x}", "{0:.2f}", "{a.b[0]!r}", "$HOME",
          "{n, plural, one {# item} other {# items}}"]),
        ("50 % der Leute, 50%ige {ein Satz in Klammern}", ["50 %"]),
        ("(siehe https://x.org/a_(b).) und www.x.de, x@y-z.co.uk.", ["https://x.org/a_(b)", "www.x.de", "x@y-z.co.uk"]),
        ("A4, MP3, 90er, 3rd, 4-fach, COVID-19, H2O", []),
        ("10 km/h, 5°C, -3,5 %, $5.00, 12:30, 2020-10-12, 1 234 567,8 kg",
         ["10 km/h", "5°C", "-3,5 %", "$5.00", "12:30", "2020-10-12", "1 234 567,8 kg"]),
        ("Nimm `ls -l {x}` und ``a`b``, `{a}' oder `b'.", ["`ls -l {x}`", "``a`b``", "{a}"]),
        ("«:no-index:» __all__은 :widths:는, Rest:so", [":no-index:", "__all__", ":widths:"]),
        ("我有3个苹果,看https://x.org/a吧{name}。", ["3", "https://x.org/a", "{name}"]),
        ("{a}{b}%s%s", ["{a}", "{b}", "%s", "%s"]),
        ("<1>a</1> <3 b> <2/>", ["<1>", "</1>", "3", "<2/>"]),
        ("詳細はhttps://例え.jp/aを参照。 https://ja.wikipedia.org/wiki/日本語 気温は−5℃、60％",
         ["https://例え.jp/a", "https://ja.wikipedia.org/wiki/日本語", "−5℃", "60％"]),
        ("السعر ١٢٬٣٤٥٫٦٧ و٥٠٪ في https://x.org/أ، a@пример.рф",
         ["١٢٬٣٤٥٫٦٧", "٥٠٪", "https://x.org/أ", "a@пример.рф"]),
        ("{0}님이 3개를 https://x.org에서 1 234,56 zł 3×4 ½ 1e-5",
         ["{0}", "3", "https://x.org", "1 234,56 zł", "3×4", "½", "1e-5"]),
        (r"%1 of %L2, :name, \(name), %<x>d, $t(k), <%= x %>, {% if x %} a\nB",
         ["%1", "%L2", ":name", r"\(name)", "%<x>d", "$t(k)", "<%= x %>", "{% if x %}", r"\n"]),
        ("[url=https://x.org]x[/url] /usr/bin/x, C:\\a\\b.exe und a.txt; und/oder, Ende.so",
         ["[url=https://x.org]", "[/url]", "/usr/bin/x", "C:\\a\\b.exe", "a.txt"]),
        ("Fehler CVE-2024-12345, #4711, DE89 3704 0044 0532 0130 00, 550e8400-e29b-41d4-a716-446655440000, WM-2026",
         ["CVE-2024-12345", "#4711", "DE89 3704 0044 0532 0130 00", "550e8400-e29b-41d4-a716-446655440000"]),
        ("v2.3.1-rc.1 am 2026-11-30T02:40:00Z, +49 (0)30 123-4567, fe80::1, 2-3-mal, 0a1b2c3d",
         ["v2.3.1-rc.1", "2026-11-30T02:40:00Z", "+49 (0)30 123-4567", "fe80::1", "0a1b2c3d"]),
        ("US$ 5.00, R$ 10,00, 10^6 m/s², 3.5×10⁻³ kg, 5′10″, %100, 3 €/m²; ב-12/05/2026",
         ["US$ 5.00", "R$ 10,00", "10^6 m/s²", "3.5×10⁻³ kg", "5′10″", "%100", "3 €/m²", "12/05/2026"]),
        (r"$x^2 + y$, \(a + b\), \cite[S. 3]{li2024}; $5 und $10, $a_b,$c",
         ["$x^2 + y$", r"\(a + b\)", r"\cite[S. 3]{li2024}", "$5", "$10", "$a_b", "$c"]),
        (r"~/.config/a/b.json, C:\Program Files\A b\c.exe, src/main.cpp, a.b.txt, \\srv\x\y.z",
         ["~/.config/a/b.json", r"C:\Program Files\A b\c.exe", "src/main.cpp", "a.b.txt", r"\\srv\x\y.z"]),
        ("{ name } { $user } {0,-10:N2} {/1} ${{ a.b }} *|FNAME|* %%x%% @a_b, @a/c {'@'} $x$ &lt;b&gt;a&lt;/b&gt;",
         ["{ name }", "{ $user }", "{0,-10:N2}", "{/1}", "${{ a.b }}", "*|FNAME|*", "%%x%%", "@a_b", "@a/c", "{'@'}",
          "$x$", "&lt;b&gt;", "&lt;/b&gt;"]),
        ("写信给 支持@例子.中国。 https://x.kr/a?b=2에서, localhost:80/a doi:10.1000/x git@x.org:a/b.git",
         ["支持@例子.中国", "https://x.kr/a?b=2", "localhost:80/a", "doi:10.1000/x", "git@x.org:a/b.git"]),
        ("0 %(count)s 7%(n)03d 50%(etwa) 5 %", ["0", "%(count)s", "7", "%(n)03d", "50%", "5 %"]),
        (r"値は%name%です、0xDEADBEEFと:smile:、MACは00:1B:44:11:3A:B7、~/x/y.txt、%TEMP%\x、@User.Nameです",
         ["%name%", "0xDEADBEEF", ":smile:", "00:1B:44:11:3A:B7", "~/x/y.txt", r"%TEMP%\x", "@User.Name"]),
        (r"{@link A#b} { NUMBER($n) } {{! x }} $(date) @a@x.social #Berlin |version| \1",
         ["{@link A#b}", "{ NUMBER($n) }", "{{! x }}", "$(date)", "@a@x.social", "#Berlin", "|version|", r"\1"]),
        ("<@123> <:hi:12> </#if> <!DOCTYPE html>", ["<@123>", "<:hi:12>", "</#if>", "<!DOCTYPE html>"]),
        ("[Seite](/a) ![x](b.png) [^2] [[Haus|das]] (siehe [Hier](/b \"T\")) [nur] (so)",
         ["[", "](/a)", "![x](b.png)", "[^2]", "[[Haus|das]]", "[", '](/b "T")']),
        ("Student_innen, bloc_littéral, --force, --out=a.txt, foo_bar(), max_len, x.load(), um 12h30",
         ["--force", "--out=a.txt", "foo_bar()", "max_len", "x.load()", "12h30"]),
        ("[::1]:80, v1.2.3-beta+4, *.pdf, 5 mm dd", ["[::1]:80", "v1.2.3-beta+4", "*.pdf", "5 mm"]),
        ("Format YYYY-MM-DD HH:MM[:ss[.uuuuuu]][TZ], DD.MM.YY, hh:mm; MM und SS",
         ["YYYY-MM-DD HH:MM[:ss[.uuuuuu]][TZ]", "DD.MM.YY", "hh:mm"]),
        ("a|b|c, |a|b|, x--y, C#, 100%a%b, Preis:hoch", []),
        ("auf münchen.de; data:image/png;base64,iVBORw0= 値はa+b@mail.example.ukです",
         ["münchen.de", "data:image/png;base64,iVBORw0=", "a+b@mail.example.uk"]),
        ("&Datei, AT&T, Müller & Co, &amp;", ["&", "&amp;"]),
        ("_Datei", ["_"]),
        ("_zwei Wörter_ a_b", []),
        ("Toll 😀! 👩\u200d👧🇩🇪 1\ufe0f\u20e3 Datei → Neu ™", ["😀", "👩\u200d👧🇩🇪", "1\ufe0f\u20e3", "→", "™"]),
        ("**Achtung:** ~~rot~~ ***x*** 2**3 a * b 这是**重**点",
         ["**", "**", "~~", "~~", "***", "***", "2", "3", "**", "**"]),
        ("getUserName, user.firstName, std::vector, a->b(), x=5, k=\"a b\", $HOME/bin, ${A}/b, z.B. meine Frau, a -> b",
         ["getUserName", "user.firstName", "std::vector", "a->b()", "x=5", 'k="a b"', "$HOME/bin", "${A}/b"]),
        ("x.com:8080, ::1, fe80::1%eth0, 例え.jp, <<name>>, (030) 123 45 67, 0800 123 4567, (555) 123-4567",
         ["x.com:8080", "::1", "fe80::1%eth0", "例え.jp", "<<name>>", "(030) 123 45 67", "0800 123 4567",
          "(555) 123-4567"]),
        ("5'10\", 45°30'N, 5pm, 7:30am, 5 am Tag, 9 p.m. 5,- € oder 5.–, 12 m3",
         ["5'10\"", "45°30'N", "5pm", "7:30am", "5", "9 p.m.", "5,- €", "5.–", "12 m3"]),
        ("", []),
    ],
)  # fmt: skip
def test_the_kinds_of_spans(source: str, found: list[str]) -> None:
    assert spans(source) == found


def test_a_pattern_of_the_user_comes_first_and_kinds_can_be_chosen() -> None:
    protection = Protection(["markup"], [r"<b>\w+</b>", "Acme(?: Corp)?"])
    found = protection.read("Acme Corp <b>x</b> <i>y</i> 12")
    assert [(span.text, span.kind) for span in found.spans] == [
        ("Acme Corp", "own"), ("<b>x</b>", "own"), ("<i>", "markup"), ("</i>", "markup"),
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["(", "x*", r"(a)\1", "a{2,1}"])
def test_a_wrong_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UserError, match="pattern 1"):
        own_patterns([pattern])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match='did you mean "markup"'):
        Protection(["markups"])


# ------------------------------------------------------------------ what the model reads


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Ein <b>Mann</b> {name} steht.", "Ein Mann steht."),
        ("Haus<b>tür</b>", "Haustür"),
        ("Mann<br/>Frau", "Mann Frau"),
        ('Datei "%s" fehlt', "Datei fehlt"),
        ("Datei (%s, {x}) fehlt.", "Datei fehlt."),
        ("{x}: Ein Mann", "Ein Mann"),
        ("<b>a</b>, <i>b</i>", "a, b"),
        ("Haus[b]tür[/b]", "Haustür"),
        ("a {x} ({y} b)", "a (b)"),
        ("a, {x}, b", "a b"),
        ("a – {x} – b", "a b"),
        ("a, {x} b", "a, b"),
        ("<p>a.</p><p>b</p>", "a. b"),
        ("auf {x}.", "auf."),
        ("{x}: {y}", ""),
        ("  Hund {x}  ", "Hund"),
        ("你好{name}再见", "你好再见"),
        ("&Datei öffnen", "Datei öffnen"),
        ("nichts ", "nichts "),
    ],
)
def test_what_the_model_reads(source: str, text: str) -> None:
    request = Request(source, extras=Extras(protect=True))
    assert request.text == text
    assert request.source == source


# ------------------------------------------------------------------ where spans come back


@pytest.mark.parametrize(
    ("source", "target", "links", "written"),
    [
        ("Ein <b>roter Hund</b> {n} rennt.", "A red dog runs.", "0-0 1-1 2-2 3-3", "A <b>red dog</b> {n} runs."),
        ("<b>Ein Mann</b> sieht {x}", "A man sees", "0-0 1-1 2-2", "<b>A man</b> sees {x}"),
        # the clauses change places
        (
            "<b>Gestern</b> kam <i>er {x}</i>.",
            "He came yesterday.",
            "0-2 1-1 2-0",
            "<i>He {x}</i> came <b>yesterday</b>.",
        ),
        # a pair around words that are apart in the output takes in what is between them
        ("<b>a b</b> c", "A C D", "0-0 1-1 2-2", "<b>A C</b> D"),
        # nested and adjacent
        ("<b>a <i>b</i></b>{x}{y} c", "B A C", "0-1 1-0 2-2", "<b><i>B</i> A</b>{x}{y} C"),
        ("<b>{x}</b> a", "A", "0-0", "<b>{x}</b> A"),
        ("a <b>{x}</b>", "A", "0-0", "A <b>{x}</b>"),
        ("a <b> b </b> c", "A B C", "0-0 1-1 2-2", "A <b> B </b> C"),
        # unclosed, and closed without being opened
        ("a <0>b</0> c", "B A C", "0-1 1-0 2-2", "<0>B</0> A C"),
        ("a <b>b c", "A B C", "0-0 1-1 2-2", "A <b>B C"),
        ("a b</b> c", "A B C", "0-0 1-1 2-2", "A B</b> C"),
        # crossing
        ("<b>a <i>b</b> c</i> d", "A B C D", "0-0 1-1 2-2 3-3", "<b>A <i>B</b> C</i> D"),
        ("{x} a b {y}", "B A", "0-1 1-0", "{x} B A {y}"),
        ("a {x}, b", "A, B", "0-0 1-1 2-2", "A {x}, B"),
        ("a ({x}) b", "A B", "0-0 1-1", "A ({x}) B"),
        ("a ({x}, {y}) b", "A B", "0-0 1-1", "A ({x}, {y}) B"),
        ("{x}: a", "A", "0-0", "{x}: A"),
        ("a, {x}, b", "A B", "0-0 1-1", "A, {x}, B"),
        ("a – {x} – b", "A B", "0-0 1-1", "A – {x} – B"),
        ("<p>a</p>", "A.", "0-0", "<p>A.</p>"),
        ("a<br/>", "A.", "0-0", "A.<br/>"),
        ("<br/><b>a b</b>", "B A.", "0-1 1-0", "<br/><b>B A.</b>"),
        ("**a b** c ~~d~~", "C D A B", "0-2 1-3 2-0 3-1", "C ~~D~~ **A B**"),
        # a sign that only the output has is not in a pair
        ("b <i>a</i>", "B A.", "0-0 1-1 1-2", "B <i>A</i>."),
        # what stands beside a pair does not come into it, and may stand at its beginning
        ("<b>a b d e</b> {x}c", "A B C D E", "0-0 1-1 2-3 3-4 4-2", "<b>A B C D E</b> {x}"),
        ("<b>a</b> b{x} c", "B A C", "0-1 1-0 2-2", "B{x} <b>A</b> C"),
        # two pairs never share a word
        ("<b>a</b> <i>b</i> c", "A C", "0-0 1-0 2-1", "<b>A</b> <i>C</i>"),
        ("a{x}b", "A B", "0-0 1-1", "A{x}B"),
        ("我<b>爱</b>你{x}。", "我恨你。", "0-0 1-1 2-2 3-3", "我<b>恨</b>你{x}。"),
        ("我 {x} 爱", "I love", "0-0 1-1", "I {x} love"),
        ("a {x} b", "我爱", "0-0 1-1", "我{x}爱"),
    ],
)
def test_where_spans_come_back(source: str, target: str, links: str, written: str) -> None:
    assert put_back(source, target, links) == written


def test_tags_have_their_partners_and_neighbours_stay_together() -> None:
    protection = Protection()
    assert partners(protection.read("<b><i>a</b> b</b> c").pieces) == {0: 2}
    assert partners(protection.read("<b>a<b>b</b></b>").pieces) == {0: 3, 1: 2}
    (both,) = elements_of(protection.read("a {x}{y}b").pieces, [1, 1])
    assert (both.pieces, both.binds) == ([0, 1], (1.0, 3.0))


def test_fifty_spans_stay_in_order() -> None:
    source = " ".join(f"a{{{n}}}" for n in range(50))
    target = " ".join("b" * 50)
    links = " ".join(f"{n}-{n}" for n in range(50))
    assert put_back(source, target, links) == " ".join(f"b{{{n}}}" for n in range(50))


def test_only_spans_are_written_as_they_are() -> None:
    protection = Protection(figures="de-en")
    read = protection.read('  {a}: "1.234,5 km" ')
    assert read.text == ""
    assert protection.placed(read, output("nonsense"), None).text == '  {a}: "1,234.5 km" '


def test_a_span_that_cannot_be_placed_is_told() -> None:
    protection = Protection()
    read = protection.read("a {x} b <b>c</b>")
    nothing = protection.placed(read, output(""), aligned("a b c", "", ""))
    assert nothing.text == ""
    assert [str(kept) for kept in nothing.lost][:1] == ["the span '{x}' is not in the output: the model wrote nothing"]
    found = aligned("a b c", "A B", "0-0 1-1")
    cut = TokenAlignment(
        found.weights_TS[:, [0, 1, 3]], Side("a b c", [(0, 1), (2, 3), (5, 5)], [0, 1, None], False), found.target
    )
    partly = protection.placed(read, output("A B"), cut)
    assert partly.text == "A {x} B"
    assert [(kept.span.text, kept.problem) for kept in partly.lost] == [
        (tag, "the source was cut before it") for tag in ("<b>", "</b>")
    ]


# ------------------------------------------------------------------ numbers of other languages


@pytest.mark.parametrize(
    ("figures", "text", "written"),
    [
        ("de-en", "12.345,67 €", "12,345.67 €"),
        ("de-en", "-3,5 %", "-3.5 %"),
        ("en-de", "1,234,567.8", "1.234.567,8"),
        ("de-fr", "1.234,5", "1\u202f234,5"),
        ("fr-en", "1 234,5", "1,234.5"),
        ("de-en", "12.10.2020", "12.10.2020"),
        ("de-en", "192.168.100.200", "192.168.100.200"),
        ("de-en", "1234", "1234"),
        ("de-en", "12:30", "12:30"),
        ("en-de", "1,23", "1,23"),
        ("ch-de", "1’234.5", "1.234,5"),
    ],
)
def test_numbers_in_another_notation(figures: str, text: str, written: str) -> None:
    protection = Protection(figures=figures)
    read = protection.read(text)
    found = protection.placed(read, output(""), None)
    assert found.text == written


@pytest.mark.parametrize("figures", ["de", "de-xx", "xx-en", ""])
def test_wrong_notations_are_refused(figures: str) -> None:
    with pytest.raises(UserError, match="figures"):
        Protection(figures=figures)


# ------------------------------------------------------------------ requests


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RequestError, match="alignments"):
        Extras(protect=True, alignments=True)
    with pytest.raises(RequestError, match="protect"):
        Request("a", target="b", extras=Extras(protect=True))
    with pytest.raises(RequestError, match="a Protection was expected"):
        Extras(protect="markup")
    assert Extras(protect=False).protect is None


def test_a_link_of_markdown_encloses_its_words() -> None:
    found = put_back('Hier ist [die Seite](/a "Titel").', "The page is here.", "0-3 1-2 2-0 3-1 4-4")
    assert found == '[The page](/a "Titel") is here.'
