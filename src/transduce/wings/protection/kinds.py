"""The kinds of spans that a source may have: markup, placeholders, addresses, figures, code, emoji, the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

from transduce.core.errors import UserError
from transduce.core.registry import alternatives
from transduce.data.corpora import text_lines
from transduce_engine.phrases import UNSPACED

_LETTER = rf"[^\W\d_{UNSPACED}\u0590-\u08ff\uac00-\ud7a3]"
"""A letter that makes a word of the figure beside it. In Hebrew, Arabic and Korean short words touch a figure."""
_WORD = rf"[^\W_{UNSPACED}]"  # the same, or a digit
_MONEY = "$¢-¥֏؋৲৳૱௹฿៛\u20a0-\u20cf﷼﹩＄￠￡￥￦"  # signs of currencies (Unicode's category Sc)
_COUNTRY = "(?:US|AU?|CA?|R|NZ|HK|S|NT|MX|B)"  # before a sign of money: "US$"
_UNITS = (
    "[cdkm]?m[23]|[ap]\\.m\\.|[pP][mM]|AM|%|‰|°[CF]?|[nµμmcdk]?m|[µμmk]?g|[cdhm]?l|[µμnm]?s|min|h|[kMG]?Hz|[kM]?Wh|[kMG]?W|[km]?V|mAh?|Ah|[kM]?J|kcal|[hkM]?Pa|"
    "bar|dB|px|pt|dpi|[kKMGTP]i?B|[kMG]?bit|[kMG]?bps|mph|ppm|fps|rpm|lb|oz|ft|[kM]?Ω|kN|Nm|[kMG]?eV|mol|lm|lx|[％٪℃℉′″元円원]|"
    "zł|Kč|Ft|"
    rf"[{_MONEY}]|EUR|USD|GBP|CHF|JPY|CNY|INR|RUB|SEK|NOK|DKK|PLN|CZK"
)
_POWER = "[⁺⁻]?[⁰¹²³⁴-⁹]+"
_UNIT = rf"(?:{_UNITS})(?:{_POWER})?(?:/(?:{_UNITS})(?:{_POWER})?)?"  # as in "3,5 m/s²"
_SPACE = "[ \u00a0\u202f\u2009]"
_FRACTION = "[¼-¾⅐-⅞]"
_FIGURE = (
    rf"(?:\d{{1,2}}h\d\d(?!\d|{_LETTER})|\d{{1,2}}['’′]\d{{1,2}}[\"”″]|"
    rf"\d{{1,3}}°\d{{1,2}}['’′](?:\d{{1,2}}(?:[.,]\d+)?[\"”″])?(?: ?[NSEWO](?!{_LETTER}))?|"
    rf"\d+(?:[.:]\d+)?am(?!{_LETTER})|\d{{1,9}}[.,][\-–—]{{1,2}}(?=[\s€.,;)]|\Z)|"
    rf"\d{{1,3}}(?:{_SPACE}\d{{3}})+(?:[.,]\d+)?(?!\d)|"
    rf"\d+(?:[.,:/'’′\-–×^٫٬．，：／]\d+)*(?:[eE^][+\-−]?\d+|{_FRACTION}|{_POWER})?|{_FRACTION})"
)
_CLOSED = rf"(?!_|[.,:/\-–]?\d|[\-–%]?{_LETTER})"  # "90er", "3rd" and "4-fold" are words, and so is "2-3-fold"
_ICU = "plural|select|selectordinal|number|date|time|choice|spellout|ordinal|duration"
_NESTED = r"[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*"
_HOST = "com|org|net|edu|gov|info|io|dev|app|eu|de|fr|uk|ru|jp|cn"
_SCHEME = r"(?:[A-Za-z][A-Za-z0-9+.\-]{0,30}://|www\.|(?:mailto|tel|sms|doi|urn|magnet|geo):(?! ))"
_ANY = r"[^\s<>\"'`|\\^\u3000-\u303f\uff00-\uffef]"  # a character of an address
_END = rf"[^\s<>\"'`|\\^{UNSPACED}\u3000-\u303f\uff00-\uffef]"  # the same, if words of an unspaced script may follow
_SITE = r"[\w\-]{1,63}(?:\.[\w\-]{1,63}){0,9}\.[A-Za-z]{2,24}(?![A-Za-z0-9_.\-])"
_DOMAIN = rf"(?:[A-Za-z0-9\-]{{1,63}}\.){{1,9}}[A-Za-z]{{2,24}}|(?:{_WORD}|-){{1,63}}(?:\.(?:{_WORD}|-){{1,63}}){{1,9}}"
_NAME = r"[^\s@()<>\[\]（）,;:、。，\"'.]"  # a character of the name of a machine, in any script
_BARE = r"[^\s@()<>\[\]（）,;:、。，\"']"  # the same, or a dot
_MIXED = f"(?:[{UNSPACED}][A-Za-z0-9]|[A-Za-z0-9][{UNSPACED}])"  # "値はa": a name and words of a sentence
_FILES = (
    "txt|pdf|html?|json|xml|csv|tsv|py|js|css|exe|zip|gz|docx?|xlsx?|pptx?|odt|png|jpe?g|svg|md|toml|ya?ml|ini|sh|bat|log|"
    "rtf|epub|tar|7z|rar|bz2|xz|jar|java|cpp|hpp|tsx?|jsx|sql|php|rb|conf|cfg|lock|po|pot|xliff|xlf|srt|vtt|tmx|tex|bib|"
    "ipynb|mp[34]|wav|gif|webp|bmp|ico|apk|dmg|deb|rpm|dll|ttf|otf|woff2?"
)
_PART = rf"\.?(?:{_WORD}|[_\-]){{1,64}}(?:\.(?:{_WORD}|[_\-]){{1,64}}){{0,9}}"  # of a path
_ALONE = rf"(?<!{_WORD})(?<![_\-])"  # what begins no word and goes on in none
_OVER = r"(?![A-Za-z0-9_]|[\-:][A-Za-z0-9])"
_HEX = "[0-9A-Fa-f]"
_WORD_OF_CODE = "[A-Za-z_][A-Za-z0-9_]{0,40}"
_CLOCK = "YYYY|yyyy|YY|yy|MM|DD|dd|HH|hh|mm|SS|ss"  # as in "YYYY-MM-DD HH:MM[:ss]"
_PICTURE = (
    "[\u00a9\u00ae\u2020-\u2022\u203b\u2122\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\U0001f000-\U0001faff]"
)
_FORMAT = r"[#0+\-]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGaAcCsSrpn@]"
_NAMED = rf"%\(\w+\){_FORMAT}"  # a placeholder of Python, also after a figure: "0 %(count)s"
_JOINER = "[\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f]"  # colours of skin are pictures themselves

KINDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile("|".join(several))
    for name, several in {
        "code": [
            r"(?<!`)`(?![`\s])[^`\n]{1,999}(?<!\s)`(?!`)",  # not "`a' or `b'"
            r"(?<!`)(``+)(?!`).{1,999}?(?<!`)\1(?!`)",
            rf"(?<!{_WORD})(?<![_/<.~])(?:(?:\.{{1,2}})?(?:/{_PART}){{2,30}}|~(?:/{_PART}){{1,30}})(?:/(?!\w))?",
            rf"(?<!{_WORD})(?:[A-Za-z]:|\\\\[\w\-.$]{{1,64}})\\"
            rf"(?:[\w\-.$()][\w\-.$() ]{{0,62}}\\){{0,20}}[\w\-.$]*[\w$\\]",
            rf"(?<!{_WORD})(?<![_.\-@/])(?:[A-Za-z0-9_.\-]{{1,64}}/){{0,20}}[A-Za-z0-9_\-]{{1,64}}(?:\.[A-Za-z0-9_\-]{{1,64}}){{0,4}}"
            rf"\.(?:{_FILES})(?![.\-@]?[A-Za-z0-9_])",
            rf"\$(?:[A-Za-z_]\w{{0,63}}|\{{[A-Za-z_]\w{{0,63}}\}})(?:/{_PART}){{1,20}}",
            # formulas and commands of LaTeX
            r"\$(?=[^$\n]*[\\^_=])[^$\s](?:[^$\n]{0,199}[^$\s])?\$(?![\w{])|\\\(.{1,199}?\\\)|\\\[.{1,199}?\\\]",
            r"\\[A-Za-z]{2,30}\*?(?:\[[^\[\]\n]{0,99}\])?(?:\{[^{}\n]{0,300}\}){1,6}",
            # names that no model can spell: of things, states, versions, accounts, machines, moments and telephones
            rf"{_ALONE}{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_OVER}|{_ALONE}0x{_HEX}{{1,32}}{_OVER}",
            rf"{_ALONE}(?=[0-9a-f]{{0,63}}\d)(?=[0-9a-f]{{0,63}}[a-f])[0-9a-f]{{7,64}}{_OVER}",
            rf"{_ALONE}[vV]?\d{{1,6}}(?:\.\d{{1,6}}){{2,4}}-(?:alpha|beta|rc|dev|pre|post)(?:[.\-]?[A-Za-z0-9]{{1,16}}){{0,4}}(?:\+[A-Za-z0-9.\-]{{1,32}})?{_OVER}",
            rf"{_ALONE}[vV]\d{{1,6}}(?:\.\d{{1,6}}){{1,4}}{_OVER}",
            rf"{_ALONE}[A-Z]{{2}}\d{{2}}(?: ?[A-Z0-9]{{4}}){{2,7}}(?: ?[A-Z0-9]{{1,3}})?{_OVER}",
            rf"{_ALONE}(?![A-Z]+-(?:19|20)\d\d(?![\w\-]))#?[A-Z]{{1,8}}(?:[\-_][A-Z0-9]{{1,12}}){{0,3}}[\-_]\d{{3,12}}(?:[\-_][A-Z0-9]{{1,12}}){{0,3}}{_OVER}",
            rf"(?<![\w&])#(?:{_HEX}{{6}}|\d{{1,12}}){_OVER}",
            rf"(?<![\w:])(?:(?:{_HEX}{{1,4}}:){{1,6}}(?::{_HEX}{{1,4}}){{1,6}}|(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}|::(?:{_HEX}{{1,4}}:){{0,6}}{_HEX}{{1,4}})"
            rf"(?:%[A-Za-z0-9]{{1,16}})?(?:/\d{{1,3}})?{_OVER}",
            rf"{_ALONE}(?:{_HEX}{{2}}[:\-]){{5}}{_HEX}{{2}}{_OVER}|\[{_HEX}{{0,4}}(?::{_HEX}{{0,4}}){{2,7}}\](?::\d{{1,5}})?",
            # names in programs, but not "Student_innen"; options of commands; sets of files
            rf"{_ALONE}(?!\w{{1,64}}_in(?:nen)?\b)[A-Za-z][A-Za-z0-9]{{1,40}}(?:_[A-Za-z0-9]{{2,40}}){{1,9}}(?:\(\))?(?!{_LETTER}){_OVER}",
            rf"{_ALONE}[A-Za-z_][A-Za-z0-9_]{{0,63}}(?:\.[A-Za-z0-9_]{{1,64}}){{0,9}}\(\)",
            rf"{_ALONE}(?:{_WORD_OF_CODE}\.){{0,5}}[a-z]{{2,30}}(?:[A-Z][a-z0-9]{{1,30}}){{1,6}}(?:\.{_WORD_OF_CODE}){{0,5}}{_OVER}",
            rf"{_ALONE}{_WORD_OF_CODE}(?:(?:::|->){_WORD_OF_CODE}){{1,5}}(?:\(\))?{_OVER}",
            rf"{_ALONE}{_WORD_OF_CODE}(?:[=!<>]=|=)(?:[\-+]?[A-Za-z0-9_.]{{1,40}}(?<!\.)|\"[^\"\n]{{0,99}}\"){_OVER}",
            rf"{_ALONE}--[A-Za-z][A-Za-z0-9\-]{{1,40}}(?:=[A-Za-z0-9_./:@%+\-]{{1,99}})?{_OVER}|{_ALONE}(?<!\*)\*\.[A-Za-z0-9]{{1,8}}{_OVER}",
            rf"{_ALONE}\d{{4}}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?:Z|[+\-]\d\d:?\d\d)?{_OVER}",
            rf"{_ALONE}(?:{_CLOCK})"
            rf"(?:[ T]?[\-/.:]?\[?[.:]?(?:{_CLOCK}|[uf]{{1,6}}|TZ|Z{{1,3}})\]{{0,3}}){{1,9}}{_OVER}",
            rf"{_ALONE}(?:\(0\d{{1,5}}\)|0\d{{2,5}})[ \-/]?\d{{2,8}}(?:[ \-]\d{{2,8}}){{1,5}}{_OVER}",
            rf"{_ALONE}\(\d{{3}}\) \d{{3}}-\d{{4}}{_OVER}",
            rf"(?<![\w+])\+\d{{1,4}}(?:[ \-./]?\(\d{{1,5}}\))?[ \-./]?\d{{2,14}}(?:[ \-./]\d{{2,8}}){{1,6}}{_OVER}",
        ],
        "markup": [
            r"<!--.{0,999}?-->|<![A-Za-z][^<>]{0,300}>|</?[#@!:][A-Za-z0-9][^<>\n]{0,300}>|<!\[CDATA\[.{0,999}?\]\]>|<\?.{0,999}?\?>|<%.{0,999}?%>",
            r"</?\d+ ?/?>|</?[A-Za-z][\w:.\-]*(?:\s(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)?/?>",
            r"&lt;/?[A-Za-z](?:[^<>&\n]|&(?:quot|apos|amp|#\d{1,4});){0,300}&gt;",  # a tag that is text
            r"&(?:[A-Za-z]\w*|#\d+|#[xX][0-9A-Fa-f]+);",
            # of Markdown: a picture, the ends of a link, a mark of a note; a link of a wiki
            r"!\[[^\[\]\n]{0,99}\]\([^()\s]{1,500}\)|\[(?=[^\[\]\n]{1,300}\]\([^()\s]{1,500}(?: \"[^\"\n]{0,99}\")?\))|"
            r"\]\([^()\s]{1,500}(?: \"[^\"\n]{0,99}\")?\)|\[\^[\w\-]{1,30}\]|\[\[[^\[\]\n]{1,99}\]\]",
            # strong and struck words of Markdown
            rf"(?<!{_WORD})(?<![_*\\])\*{{2,3}}(?=[^\s*](?:[^*\n]|\*(?!\*)){{0,300}}\*\*)|(?<=[^\s*\\])\*{{2,3}}(?![A-Za-z0-9_*])",
            rf"(?<!{_WORD})(?<![_~])~~(?=[^\s~][^~\n]{{0,300}}~~(?![A-Za-z0-9_~]))|(?<=[^\s~])~~(?![A-Za-z0-9_~])",
            r"\[/?(?:b|i|u|s|url|img|quote|code|color|size|list|center|spoiler)(?:=[^\[\]\n]{1,300})?\]",
        ],
        "url": [
            rf"(?<![^\s(\[])(?={_SCHEME}[^\s/?#]{{1,253}}[/?#])(?={_SCHEME}({_ANY}{{1,999}}))"
            rf"{_SCHEME}\1(?![^\s)\]])",  # between spaces, in any script
            rf"(?:(?<![A-Za-z0-9])|(?<=[%$][sdiu])){_SCHEME}(?:{_SITE}(?:[/?#:]{_END}*)?|{_END}+)",
            rf"(?<!{_WORD})(?<![_@.\-])(?:(?:{_WORD}|-){{1,63}}\.){{1,9}}(?:{_HOST})(?!{_WORD}|[_\-@])(?::\d{{1,5}}(?!\d))?(?:/{_END}*)?",
            rf"(?<!\S)[\w\-]{{1,63}}(?:\.[\w\-]{{1,63}}){{0,5}}\.(?:{_HOST})(?=[\s),;:!?、。，]|\.?\Z)",
            r"data:[a-z]{1,20}/[a-z0-9.+\-]{1,60}(?:;[a-z0-9=\-]{1,40}){0,4},[A-Za-z0-9+/=%]+",
            rf"(?<!{_WORD})(?<![_@.\-])(?:localhost(?::\d{{1,5}}(?:/{_END}*)?|/{_END}*)|10\.\d{{4,9}}/{_END}+)",
        ],
        "email": [
            rf"(?<!{_WORD})(?<![._%+\-])(?:{_WORD}|[._%+\-]){{1,64}}@(?:{_DOMAIN})(?::[\w./~\-]{{1,200}}\.git)?",
            rf"(?<![^\s(<\[（])(?!{_BARE}{{0,64}}{_MIXED}){_BARE}{{1,64}}@(?!{_BARE}{{0,99}}{_MIXED}){_NAME}{{1,63}}(?:\.{_NAME}{{1,63}}){{1,9}}"
            r"(?=[\s)>\]）,;:、。，.!?！？]|$)",  # between spaces, in any script
        ],
        "placeholder": [
            r"\{\{\{[^{}]*\}\}\}|[$#%]?\{\{[^{}]*\}\}|[$#%]\{[^{}]*\}|\{%.{0,999}?%\}|%<\w+>[a-z]?|\$t?\([^()\n]{1,99}\)",
            r"<<[A-Za-z_][\w.\-]{0,63}>>",
            rf"\{{\s*\w+\s*,\s*(?:{_ICU})\b{_NESTED}\}}",
            r"\{ ?[/#$\-]?[\w.\-\[\]]*(?:,-?\d+)?(?:![rsa])?(?::[^{}\s]*)? ?\}|\{'[^'{}]{0,9}'\}|"
            r"\{@[A-Za-z]{1,30}[^{}\n]{0,99}\}|\{ ?[A-Z]{2,30}\([^(){}\n]{0,99}\) ?\}",
            r"(?<![#%@\d])(##|%%|@@)[A-Za-z_][\w.\-]{0,63}\1(?![#%@])|%[A-Z_][A-Z0-9_]+%(?:\\[A-Za-z0-9_.\-]{1,64}){0,20}|(?<!\d)%%|(?<![\w$])\$[A-Za-z_]\w*(?:\$(?!\w))?|\*\|[A-Z0-9:_]{1,99}\|\*",
            rf"(?<!{_WORD})(?<![_%])%[A-Za-z_][A-Za-z0-9_.\-]{{1,63}}%(?![A-Za-z0-9_%])",
            rf"(?<!{_WORD})(?<![_@.])@(?:[A-Za-z0-9_\-]{{1,64}}/)?[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{{0,62}}[A-Za-z0-9_])?"
            r"(?:@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,5})?(?![A-Za-z0-9_@])",
            rf"(?<!{_WORD})(?<![_&/#])#(?=\w{{0,64}}[^\W\d_])\w{{2,64}}",  # of networks: "#Berlin"
            rf"(?<![\d_])(?<!{_LETTER})__\w+?__(?!_|\d|{_LETTER})",
            _NAMED,
            rf"(?<!\d)%(?:\d+\$)?{_FORMAT}",
            r"(?<!\d)%L?\d{1,2}(?![\d%$])|\\\([^()\s]{1,99}\)|\\(?:[nrt](?![a-z])|\d(?!\d))",  # of Qt, Swift, strings
            rf"{_ALONE}(?<!\|)\|[A-Za-z](?:[\w\-. ]{{0,40}}\w)?\|(?!\|){_OVER}",  # of reStructuredText
            r"\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}",
            r"(?<![\w&])&(?=[^\W\d_])(?!\w{1,31};)|(?<!\w)_(?=[^\W\d_])(?=[^_]*\Z)",  # a menu's key
            # of Laravel, and names of emoji
            rf"(?<!{_WORD})(?<![_:]):(?:[a-z][a-z0-9_+\-]{{1,30}}|[+\-]1):(?![:\d]|{_LETTER})",
            rf"(?<![^\s(\[\"'«„“‘\u3000-\u303f{UNSPACED}]):[a-z][A-Za-z_\-]{{1,30}}(?![\d(/]|{_LETTER})(?::(?!\d|{_LETTER}))?",
        ],
        "symbol": [rf"[0-9#*]\ufe0f?\u20e3|{_PICTURE}(?:{_PICTURE}|{_JOINER})*"],
        "number": [
            rf"(?<![\d_])(?<!{_LETTER})(?<!{_LETTER}[\-–])(?<!\d[.,:/])(?:(?:{_COUNTRY}?[{_MONEY}]|EUR|USD|GBP|CHF){_SPACE}?|[%٪])?"
            rf"(?:(?<![\d_\-\u0590-\u08ff\uac00-\ud7a3])(?<!{_LETTER})[+\-−±])?{_FIGURE}(?:{_SPACE}?(?!{_NAMED}){_UNIT}(?!{_LETTER}|\d)|{_CLOSED})"
        ],
    }.items()
}
"""The kinds of spans and their patterns. Each has a limit to its length, or tries each character once, so that the time
for a line does not grow with the square of its length. Of several that begin at one character the first one counts."""

OWN = "own"  # the kind of a span that a pattern of the user finds
_PARTICLE = re.compile(
    "(?<=[A-Za-z0-9/])(?:에서(?:는|도|만)?|에(?:는|도|게)?|[을를은는이가와과의도로만]|으로|이나|부터|까지|입니다|이며|이고)$"
)  # Korean words that stand behind a name without a space
_CLOSING = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Span:
    """A part of a source that is to stay: its text, its kind, and the indices of its first character in the source and
    of one past its last.
    """

    text: str
    kind: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def find_spans(source: str, patterns: Mapping[str, re.Pattern[str]]) -> list[Span]:
    """The spans of a source in their order, by the patterns of each kind. No two overlap: the one that begins first
    counts, and of those that begin together the one of the first kind.
    """
    found, place = list[Span](), 0
    following = {kind: _next(pattern, source, 0) for kind, pattern in patterns.items()}
    while True:
        for kind, match in following.items():
            if match is not None and match.start() < place:
                following[kind] = _next(patterns[kind], source, place)
        there = [(match.start(), kind, match) for kind, match in following.items() if match is not None]
        if not there:
            return found
        _, kind, match = min(there, key=lambda each: each[0])
        text = _trimmed(match[0]) if kind == "url" else match[0]
        found.append(Span(text, kind, match.start()))
        place = match.start() + len(text)


def own_patterns(patterns: Iterable[str], where: str = "pattern") -> re.Pattern[str] | None:
    """The patterns of a user as one; None if there are none. Raises UserError for one that is no regular expression, or
    that an empty text matches. ``where`` names a pattern in messages.
    """
    several = []
    for number, pattern in enumerate(patterns, 1):
        try:
            one = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise UserError(f"{where} {number}, {pattern[:60]!r}: no regular expression of Python ({error})") from None
        if one.match(""):
            raise UserError(
                f"{where} {number}, {pattern[:60]!r}: it finds the empty text; write one that has characters"
            )
        if one.groups and re.search(r"\\[1-9]|\(\?P=|\(\?\(", pattern):
            raise UserError(f"{where} {number}, {pattern[:60]!r}: references to groups are not allowed here")
        several.append(re.sub(r"\(\?P<\w+>", "(?:", pattern))
    try:
        return re.compile("|".join(f"(?:{each})" for each in several)) if several else None
    except re.error as error:  # such as flags within a pattern
        raise UserError(f"{where}s together: no regular expression of Python ({error})") from None


def read_patterns(path: Path) -> list[str]:
    """The patterns in a file, one a line. Lines without text, and lines that begin with "#", are left out. Raises
    UserError if there are none.
    """
    found = [line for line in text_lines(path) if line.strip() and not line.startswith("#")]
    if not found:
        raise UserError(f"{path} has no patterns: a regular expression a line was expected")
    own_patterns(found, f"{path}, pattern")
    return found


def chosen_kinds(names: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """The patterns of the kinds with these names. Raises UserError for another name."""
    for name in names:
        if name not in KINDS:
            raise UserError(f"{name!r} is not a kind of span{alternatives(name, KINDS)}")
    return {name: KINDS[name] for name in KINDS if name in names}


def _next(pattern: re.Pattern[str], source: str, place: int) -> re.Match[str] | None:
    """The first match from a place on that has characters."""
    return next((match for match in pattern.finditer(source, place) if match[0]), None)


def _trimmed(url: str) -> str:
    """An address without the punctuation that ends its sentence, and up to a bracket that opens before it."""
    opened = list[str]()
    for place, letter in enumerate(url):
        if letter in _CLOSING.values():
            opened.append(letter)
        elif letter in _CLOSING and (not opened or opened.pop() != _CLOSING[letter]):
            url = url[:place]
            break
    while len(url) > 1 and (url[-1] in "*_" or (category(url[-1]) in ("Po", "Pf", "Pi") and url[-1] not in "/&#%@\\")):
        url = url[:-1]
    return _PARTICLE.sub("", url)
