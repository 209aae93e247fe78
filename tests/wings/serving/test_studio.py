"""The studio in a headless Chromium: each interaction, as a person would do it. No request leaves the machine."""

from __future__ import annotations

import ast
import base64
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_kalman import run as gaps  # noqa: F401
from test_serve import language, picture, pictures  # noqa: F401
from test_speech import corpus  # noqa: F401
from test_speech import run as tones  # noqa: F401

import transduce
from browsers import FAINT_TEXTS
from transduce import api
from transduce.data.fingerprints import Fingerprint
from transduce.wings.records.scores import Score, keep_scores
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.server import address, bound, new_server

pytest.importorskip("fastapi")
pytest.importorskip("PIL")
pytestmark = pytest.mark.slow
BELOW = """() => document.querySelector(".drawn").getBoundingClientRect().top -
  Math.max(...[...document.querySelectorAll(".output .word")].map(word => word.getBoundingClientRect().bottom))"""
FOCUSED = (
    "() => [...document.querySelectorAll('.output .word')].indexOf(document.activeElement)"  # the index of the word
)
CONVERTED = """async () => {
  // Whether a file with the model's rate stays as it is, and the bytes of one with twice the rate.
  const {converted, wav} = await import("/studio/sound.js"), samples = [new Float32Array(800)];
  const same = new File([wav(samples, 8000)], "a.wav");
  return [(await converted(same, 8000)) === same, (await converted(wav(samples, 16000), 8000)).size];
}"""
PARTED = """async ([text, language]) => {
  const {parted} = await import("/studio/layout.js"), {parts, tail} = parted(text, language);
  return [parts.map(part => part.source), parts.map(part => part.before + "x").join("") + tail];
}"""
DROPPED = """([name, text, type]) => {
  const moved = new DataTransfer(), bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  moved.items.add(new File([bytes], name, {type}));
  for (const kind of ["dragenter", "drop"]) {
    document.body.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: moved}));
    if (kind === "dragenter" && document.querySelector("#drop-here").hidden) throw new Error("no sign where to drop");
  }
}"""
PASTED = """text => {
  const moved = new DataTransfer(), bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  moved.items.add(new File([bytes], "pasted.png", {type: "image/png"}));
  document.body.dispatchEvent(new ClipboardEvent("paste", {bubbles: true, clipboardData: moved}));
}"""
INKS = """() => { // how many colours the drawing area has
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(data.filter((_, at) => at % 4 === 0)).size;
}"""
ASKS = re.compile("/(predict|n-best|v1/completions)$")
PATIENCE = 30_000  # milliseconds, for a machine that is busy
MOODS = [("good fun", "happy"), ("great fun", "happy"), ("bad and dull", "sad"), ("bad day", "sad")] * 6
WORDS = [("the dog barks", "DET NOUN VERB"), ("a cat sleeps", "DET NOUN VERB"), ("dogs bark", "NOUN VERB")] * 6


@pytest.fixture(scope="module")
def moods(tmp_path_factory: pytest.TempPathFactory) -> transduce.Transducer:
    """A classifier of texts, counted in two passes."""
    folder = tmp_path_factory.mktemp("moods")
    made = api.train("classification-linear", folder / "run", {}, MOODS, device="cpu", progress=False)
    (folder / "run" / "examples.txt").write_text("good fun\n\nbad day\n")
    keep_scores(folder / "run", [Score("accuracy", 86.2, 83.2, 89, "test", 500, data=Fingerprint("12ab", 500))])
    return made


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> transduce.Transducer:
    """A tagger, counted in two passes."""
    folder = tmp_path_factory.mktemp("tags")
    return api.train("tagging-hmm", folder / "run", {}, WORDS, device="cpu", progress=False)


@pytest.fixture(scope="module")
def models(
    trained: Path,
    sister: Path,
    pictures: transduce.Transducer,
    language: transduce.Transducer,
    tones: Path,
    gaps: Any,
    moods: transduce.Transducer,
    tags: transduce.Transducer,
) -> dict[str, transduce.Transducer]:
    reverse, other = transduce.load(trained, device="cpu"), transduce.load(sister, device="cpu")
    return {
        "reverse": reverse,
        "sister": other,
        "de-en": reverse,
        "en-de": other,
        "pictures": pictures,
        "language": language,
        "tones": transduce.load(tones, device="cpu"),
        "gaps": transduce.load(gaps, device="cpu") if isinstance(gaps, Path) else gaps,
        "moods": moods,
        "tags": tags,
    }


@pytest.fixture(scope="module")
def url(models: dict[str, transduce.Transducer]) -> Iterator[str]:
    listening, ready, catalogue = bound("127.0.0.1", 0), threading.Event(), Catalogue.of(models)
    server = new_server(application(catalogue), catalogue, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(60)
    yield address(listening)
    server.should_exit = True
    thread.join(60)


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """Opens the page. Afterwards, checks that it asked no other machine and that no script failed."""
    context = browser.new_context(permissions=["microphone", "clipboard-read", "clipboard-write"])
    page, asked, failed = context.new_page(), [], []
    page.set_default_timeout(PATIENCE)
    context.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(url)
    page.get_by_label("Output of reverse").wait_for()
    yield page
    context.close()
    assert not failed
    assert [each for each in asked if not each.startswith((url, "blob:", "data:"))] == []


def output(page: Any, number: int = 0) -> str:
    """The finished output of a panel, when it is there."""
    page.locator(".result").nth(number).locator(".output[aria-busy=false] .word").first.wait_for()
    return str(page.locator(".output").nth(number).inner_text()).strip()


def choose(page: Any, name: str) -> None:
    page.get_by_label("Model", exact=True).select_option(name)
    page.get_by_label(f"Output of {name}").wait_for()


def write(page: Any, text: str, model: str | None = None) -> str:
    """Writes an input, and returns the output."""
    if model is not None:
        choose(page, model)
    sent = json.dumps(text.split("\n")[0][:100], ensure_ascii=False)[1:-1]

    def answers_it(answer: Any) -> bool:
        return bool(ASKS.search(answer.url)) and sent in (answer.request.post_data or "")

    with page.expect_response(answers_it):
        page.locator("#source").fill(text)
    return output(page)


def drop(page: Any, name: str, content: bytes, kind: str = "") -> None:
    page.evaluate(DROPPED, [name, base64.b64encode(content).decode(), kind])


def copied(page: Any, button: str) -> str:
    """What a button copies."""
    page.evaluate("() => navigator.clipboard.writeText('')")
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_function("async () => await navigator.clipboard.readText()")
    return str(page.evaluate("() => navigator.clipboard.readText()"))


def words_of(model: transduce.Transducer, source: str, prefix: str = "") -> str:
    return " ".join(next(model.predict([source], prefix=prefix))[0].text.split())


# ------------------------------------------------------------- text


def test_an_output_grows_and_goes_on_from_another_word(page: Any, models: dict[str, transduce.Transducer]) -> None:
    assert write(page, "abc") == words_of(models["reverse"], "abc")
    page.get_by_role("button", name=re.compile("show alternatives")).first.click()
    page.get_by_text("At the beginning").wait_for()
    choices = page.locator(".words button")
    choices.first.wait_for()
    word = str(choices.nth(1).inner_text()).split()[0]
    choices.nth(1).click()
    page.locator(".output[aria-busy=false] .kept").first.wait_for()
    assert output(page) == words_of(models["reverse"], "abc", word)
    page.wait_for_function(f"({FOCUSED})() === 0")  # the new word, for the keyboard
    with page.expect_request("**/tree") as asked:
        page.get_by_role("button", name="Search tree").click()
    assert asked.value.post_data_json["prefix"] == word
    page.locator(".output .word").first.click()
    page.get_by_role("button", name="Close").click()
    assert page.locator(".alternatives").is_hidden()
    assert page.evaluate(FOCUSED) == 0
    page.get_by_role("button", name="Begin again").click()
    page.locator(".output .kept").wait_for(state="detached")
    assert output(page) == words_of(models["reverse"], "abc")


def test_a_new_user_is_told_what_to_do(page: Any) -> None:
    assert page.locator("#source").get_attribute("placeholder") == "Type or paste a text. Lines and paragraphs stay."
    empty = "() => getComputedStyle(document.querySelector('.output'), '::before').content"
    assert page.evaluate(empty) == '"The answer appears here while you type."'
    hint = page.get_by_text("Click a word to see")
    assert hint.is_hidden()
    write(page, "abc")
    assert hint.is_visible()
    choose(page, "moods")  # its examples are from its file
    assert page.locator("#examples").is_hidden()  # there is a text
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="bad day").click()
    assert output(page) == "sad"
    assert page.locator("#source").input_value() == "bad day"
    page.route(re.compile("/(stream|n-best|predict)$"), lambda route: None)  # the answer never comes
    page.goto(f"{page.url.partition('#')[0]}#model=reverse&text=abc")
    page.reload()
    page.locator(".output[aria-busy=true]").wait_for()
    assert page.locator(".inside").is_hidden()  # there is nothing to look into yet


def test_lines_and_paragraphs_stay(page: Any, models: dict[str, transduce.Transducer]) -> None:
    first, second = (words_of(models["reverse"], each) for each in ("abc", "cab"))
    write(page, "abc\n\n  cab\n")
    assert page.locator(".output").inner_text().strip() == f"{first}\n\n  {second}"
    assert copied(page, "Copy") == f"{first}\n\n  {second}\n"
    sentences = [["Ein Satz.", "Noch einer!", "Drei"], "x x\n\n x\n"]
    assert page.evaluate(PARTED, ["Ein Satz. Noch einer!\n\n Drei\n", "de"]) == sentences
    assert page.evaluate(PARTED, ["Ein Satz. Noch einer!", None]) == [["Ein Satz. Noch einer!"], "x"]


def test_a_long_text_comes_in_parts(page: Any) -> None:
    sizes = []
    page.on("request", lambda request: "n-best" in request.url and sizes.append(request.post_data_json["source"]))
    write(page, "abc\n" * 40)
    assert list(map(len, sizes)) == [32, 8]


def test_the_colours_of_words_say_how_sure_the_model_is(page: Any) -> None:
    write(page, "abc")
    titles = page.locator(".output .word").evaluate_all("words => words.map(word => word.title)")
    assert titles
    assert all(re.fullmatch(r"(< )?[\d.]+ % sure", title) for title in titles)
    assert page.locator(".keys .key-item").count() == 4
    page.get_by_label("Colour words by how sure the model is").uncheck()
    assert not page.locator(".coloured, .keys").count()
    page.reload()
    output(page)
    assert not page.get_by_label("Colour words by how sure the model is").is_checked()
    sure = """async () => (await import("/studio/layout.js")).confidences("ab c", [["a", -1], ["b", -1], [" c", 0]])"""
    assert page.evaluate(sure) == pytest.approx([0.1353, 1], abs=1e-3)


def test_other_outputs_with_their_differences(page: Any) -> None:
    best = write(page, "abc")
    page.get_by_role("button", name="Other outputs").click()
    lines = page.locator(".nbest .other")
    assert lines.count() == 2  # as many as the beam has room for
    assert page.locator(".nbest mark, .nbest del").count() > 0
    numbers = page.locator(".nbest .number").all_inner_texts()
    assert numbers[0].endswith(" %")
    assert re.fullmatch(r"\d+\.\d\d ×|< 0\.01 ×", numbers[1])
    other = " ".join(lines.nth(1).inner_text().replace("·", "").split())
    assert copied(page, f"Copy: {other}") == other
    page.get_by_role("button", name=re.compile("^Use: ")).click()
    page.locator(".output .word").first.wait_for()
    assert output(page) == other != best
    marked = """async () => (await import("/studio/nbest.js")).marked("a dog runs on", "a dog is running")
        .map(each => each.outerHTML ?? each).join("")"""
    assert page.evaluate(marked) == "a dog <mark>is</mark> <mark>running</mark> "


def test_languages_have_names_and_are_swapped(page: Any, models: dict[str, transduce.Transducer]) -> None:
    choose(page, "de-en")
    assert page.get_by_label("Model", exact=True).inner_text().split("\n")[2] == "German to English (de-en)"
    assert page.locator("#input-title").inner_text() == "German"
    assert page.locator(".result .title").inner_text() == "English"
    assert page.locator("#source").get_attribute("lang") == "de"
    there = write(page, "abc")
    page.get_by_role("button", name="Swap languages").click()
    page.get_by_label("Output of en-de").wait_for()
    assert page.locator("#source").input_value() == there
    assert output(page) == words_of(models["en-de"], there)
    choose(page, "reverse")
    assert page.locator("#swap").is_hidden()


def test_a_text_is_cleared_saved_and_kept(page: Any, browser: Any) -> None:
    text = write(page, "abc", "sister")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save").click()
    assert Path(saved.value.path()).read_text().strip() == text
    page.get_by_role("button", name="Search tree").click()
    link = copied(page, "Copy a link")
    other = browser.new_page()
    other.set_default_timeout(PATIENCE)
    other.goto(link)
    assert output(other) == text
    other.locator(".branches").wait_for()
    other.close()
    page.reload()
    assert output(page) == text
    page.get_by_role("button", name="Clear").click()
    page.locator(".output .word").first.wait_for(state="detached")
    assert page.locator("#source").input_value() == ""
    assert page.locator("#said").inner_text() == ""  # readers of the screen find no old answer
    page.evaluate("location.hash = '#model=gone'")
    page.get_by_text("The link is for the model gone").wait_for()


def test_a_text_that_no_address_can_hold_survives_a_reload(page: Any) -> None:
    write(page, "abcab " * 700)
    assert "#" not in page.url
    page.reload()
    page.get_by_label("Output of reverse").wait_for()
    assert page.locator("#source").input_value() == "abcab " * 700


def test_the_history_restores_and_forgets(page: Any) -> None:
    text = write(page, "abc")
    write(page, "cab", "sister")
    page.get_by_role("button", name="History").click()
    entries = page.locator(".entry")
    assert entries.count() == 3  # abc, then abc and cab by the other model
    page.get_by_label("Find in the history").fill("CAB")
    assert page.locator(".history li:visible").count() == 1
    page.get_by_label("Find in the history").fill("")
    entries.nth(2).click()
    page.get_by_label("Output of reverse").wait_for()
    assert output(page) == text
    page.get_by_role("button", name="History").click()
    page.get_by_role("button", name="Clear the history").click()
    page.get_by_text("There is nothing yet.").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.id") == "show-history"


def test_two_models_side_by_side(page: Any, models: dict[str, transduce.Transducer]) -> None:
    write(page, "cab")
    page.get_by_label("Compare with").select_option("sister")
    assert output(page, 0) == words_of(models["reverse"], "cab")
    assert output(page, 1) == words_of(models["sister"], "cab")
    page.reload()
    assert output(page, 1) == words_of(models["sister"], "cab")
    page.get_by_label("Compare with").select_option("")
    assert page.locator(".result").count() == 1


# ------------------------------------------------------------- inside


def test_attention_is_drawn_as_lines_and_said_in_words(page: Any) -> None:
    write(page, "abc")
    button = page.get_by_role("button", name="Attention")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    lines = page.locator(".view .link")
    lines.first.wait_for(state="attached")
    assert button.get_attribute("aria-expanded") == "true"
    every = lines.count()
    page.locator(".view .token").first.hover()
    assert 0 < page.locator(".view .dim").count() < every
    page.get_by_text("In words").click()
    assert "% on" in page.locator(".view li").first.inner_text()


def test_attention_by_layer_and_head_has_plain_names(page: Any) -> None:
    found = {"source": ["a", "</s>"], "target": ["b", "</s>"], "weights": [[0.9, 0.1], [0.2, 0.8]]}
    kinds = {"attentions": ["decoder.layers.0.memory", "decoder.layers.1.memory"], "heads": [2, 1]}
    page.route("**/attention", lambda route: route.fulfill(json={**found, **kinds}))
    write(page, "abc")
    page.get_by_role("button", name="Attention").click()
    chosen = page.get_by_label("Attention of")
    names = chosen.locator("option").all_inner_texts()
    assert names == ["mean of all", "layer 1, mean of heads", "layer 1, head 1", "layer 1, head 2", "layer 2"]
    with page.expect_request("**/attention") as asked:
        chosen.select_option("layer 1, head 2")
    asked = asked.value.post_data_json
    assert (asked["attention"], asked["head"]) == ("decoder.layers.0.memory", 1)


def test_the_tree_of_the_beam_folds(page: Any) -> None:
    write(page, "abc")
    page.get_by_role("button", name="Search tree").click()
    page.locator(".branches .best").first.wait_for()
    assert "output 1" in page.locator(".branches").inner_text()
    few = page.locator(".branches li").count()
    page.get_by_label("Show what was pruned").check()
    assert page.locator(".branches li").count() > few
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert page.locator(".branches li:visible").count() == 1
    page.get_by_role("button", name="Unfold all").click()
    assert page.locator(".branches li:visible").count() > few


def test_a_classifier_tells_probabilities_and_the_words_that_speak_for_them(page: Any) -> None:
    assert write(page, "bad day", "moods") == "sad"
    bars = page.locator(".bars li")
    bars.first.wait_for()
    assert bars.all_inner_texts()[0].startswith("sad")
    strong = page.locator(".effect")
    assert strong.first.inner_text().startswith("bad")
    assert float(strong.first.locator("sub").inner_text().replace("−", "-")) > 0
    page.get_by_label("What speaks for").select_option("happy")
    page.get_by_text("speaks for happy").wait_for()
    assert strong.first.locator("sub").inner_text().startswith("−")


def test_what_stands_below_belongs_to_a_line_that_is_named(page: Any, browser: Any) -> None:
    """Several answers, at any number of lines and any width, end above the bars. The bars name their line. An address
    keeps the line and the label.
    """
    lines = ["good fun", "bad day", "a great, great, great deal of fun on a long day " * 4]
    for count, width in ((3, 1440), (3, 390), (40, 390), (40, 1440)):
        page.set_viewport_size({"width": width, "height": 900})
        write(page, "\n".join([f"{count} {width}", *(lines * 20)[: count - 1]]), "moods")
        page.wait_for_function("n => document.querySelectorAll('.output .word').length === n", arg=count)
        page.locator(".bars").first.wait_for()
        assert page.evaluate(BELOW) >= 0
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    write(page, "good fun\nbad day")
    below = page.get_by_label("Labels of line")
    assert below.locator("option:checked").inner_text() == "1: good fun"
    page.locator(".output .word").nth(1).click()
    page.locator(".bars li", has_text="sad").first.wait_for()
    assert below.locator("option:checked").inner_text() == "2: bad day"
    assert page.locator(".output .word[aria-current=true]").all_inner_texts() == ["sad"]
    page.get_by_label("What speaks for").select_option("happy")
    page.get_by_text("speaks for happy").wait_for()
    other = browser.new_page()
    other.set_default_timeout(PATIENCE)
    other.goto(copied(page, "Copy a link"))
    other.get_by_text("speaks for happy").wait_for()
    assert other.get_by_label("Labels of line").locator("option:checked").inner_text() == "2: bad day"
    other.goto(other.url.replace("happy", "gone"))
    other.locator(".why", has_text="speaks for sad,").wait_for()
    other.close()


def test_a_number_that_is_almost_nothing_has_no_sign(page: Any) -> None:
    script = (
        "async () => { const {signed} = await import('/studio/labels.js'); return [-0.001, 0.001, 2, -2].map(signed) }"
    )
    assert page.evaluate(script) == ["0.00", "0.00", "+2.00", "−2.00"]


def test_a_tagger_tells_the_labels_of_a_word(page: Any) -> None:
    assert write(page, "the dog barks", "tags") == "DET NOUN VERB"
    word = page.locator(".tagged").nth(1)
    word.click()
    page.get_by_text("Labels of “dog”").wait_for()
    assert page.locator(".why .bars li").first.inner_text().startswith("NOUN")
    assert page.locator(".effect").all_inner_texts()[0].startswith("the")
    assert word.get_attribute("aria-pressed") == "true"
    page.reload()
    page.get_by_text("Labels of “dog”").wait_for()


def test_the_code_asks_for_what_is_on_the_screen(page: Any) -> None:
    """Each snippet is run, and gives the outputs of the screen, and the words that speak for the chosen label."""
    text = write(page, "it's\nbad day", "moods")
    page.get_by_label("Labels of line").select_option("1")
    page.get_by_label("What speaks for").select_option("happy")
    page.get_by_text("speaks for happy").wait_for()
    effects = [float(each.replace("−", "-")) for each in page.locator(".effect sub").all_inner_texts()]
    page.get_by_role("button", name="Use it from code").click()
    found = {}
    for name in ("curl", "Python", "JavaScript"):
        page.get_by_role("button", name=name).click()
        found[name] = copied(page, "Copy the code")
    shell = subprocess.run(["bash", "-c", found["curl"]], capture_output=True, text=True, timeout=60)
    python = subprocess.run([sys.executable, "-c", found["Python"]], capture_output=True, text=True, timeout=60)
    script = found["JavaScript"].replace("console.log(", "found.push(")
    printed = {
        "curl": json.loads(f"[{shell.stdout.strip().replace('}{', '},{')}]"),
        "Python": [ast.literal_eval(line) for line in python.stdout.splitlines()],
        "JavaScript": page.evaluate(f"async () => {{ const found = []; {script}; return found; }}"),
    }
    for answers, labels in printed.values():
        assert [each["text"] for each in answers["answers"]] == text.split("\n")
        assert labels["label"].strip("<>") == "happy"
        assert [each["effect"] for each in labels["words"]] == pytest.approx(effects, abs=0.006)


def test_the_code_has_the_view_and_the_beginning_that_were_chosen(page: Any) -> None:
    write(page, "abcabc\nabc")
    page.locator(".output .word").last.click()
    page.locator(".alternatives .words button").first.click()
    page.locator(".output .kept").first.wait_for()
    page.get_by_role("button", name="Attention").click()
    page.locator(".view svg").wait_for()
    page.get_by_role("button", name="Use it from code").click()
    code = page.locator(".view code").inner_text()
    assert [line.partition("# ")[2] for line in code.splitlines() if line.startswith("#")] == [
        "Part 1: the answer",
        "Part 2: the answer",
        "Part 2: the attention",
    ]
    assert code.count('"prefix"') == 1
    page.get_by_role("button", name="Attention").click()
    page.get_by_role("button", name="Attention").click()
    page.get_by_role("button", name="Use it from code").click()
    assert "attention" not in page.locator(".view code").inner_text()


def test_the_card_tells_what_the_model_was_trained_on(page: Any) -> None:
    choose(page, "moods")
    page.get_by_role("button", name="About this model").click()
    dialog = page.get_by_role("dialog")
    place = "() => document.querySelector('dialog').scrollTop"
    assert page.evaluate(place) == 0
    dialog.get_by_role("button", name="Data").click()
    assert page.evaluate(place) > 0
    assert "one of 2 labels" in dialog.inner_text()
    assert "86.20" in dialog.inner_text()  # the score on the test split, which was measured earlier
    assert dialog.locator("li", has_text="good fun").count() == 1
    page.keyboard.press("Escape")
    assert dialog.is_hidden()
    page.get_by_role("link", name="API").click()
    page.wait_for_url("**/docs")
    page.locator("h3", has_text="/predict").wait_for()


# ------------------------------------------------------------- files


def test_a_document_is_dropped_and_its_translation_saved(page: Any, models: dict[str, transduce.Transducer]) -> None:
    choose(page, "de-en")
    drop(page, "letter.txt", b"abc\n\ncab\n")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save letter.en.txt").click()
    first, second = (words_of(models["reverse"], each) for each in ("abc", "cab"))
    assert Path(saved.value.path()).read_text() == f"{first}\n\n{second}\n"
    assert "letter.txt is ready" in page.locator("#translated").inner_text()
    page.locator("#translated").get_by_role("button", name="Close").click()
    assert page.locator("#translated").is_hidden()
    drop(page, "picture.gif", b"GIF")
    page.get_by_text("picture.gif: this model reads no such documents. It reads .xliff").wait_for()
    choose(page, "moods")
    drop(page, "letter.txt", b"abc")
    assert page.locator("#input-problem").inner_text() == "letter.txt: this model reads text and no files."


def test_a_drawing_and_a_picture_are_read(page: Any, models: dict[str, transduce.Transducer], tmp_path: Path) -> None:
    choose(page, "pictures")
    box = page.get_by_label("Drawing area").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 220, steps=5)
    with page.expect_response("**/predict") as answered:
        page.mouse.up()
    assert answered.value.status == 200
    assert page.evaluate(INKS) > 1
    page.get_by_role("button", name="Clear").click()
    assert page.evaluate(INKS) == 1
    with page.expect_response("**/predict") as answered:
        page.get_by_role("button", name="Read the drawing").click()
    (tmp_path / "mine.png").write_bytes(picture(3))
    text = models["pictures"](str(tmp_path / "mine.png"))
    with page.expect_response("**/predict") as answered:
        page.locator("#picture-file").set_input_files(tmp_path / "mine.png")
    assert answered.value.json()["answers"][0]["text"] == text
    with page.expect_response("**/predict") as answered:
        drop(page, "mine.png", picture(3), "image/png")
    assert answered.value.json()["answers"][0]["text"] == text
    assert page.locator("#preview img").evaluate("image => image.naturalWidth") == 40
    with page.expect_response("**/predict") as answered:
        page.evaluate(PASTED, base64.b64encode(picture(3)).decode())
    assert answered.value.json()["answers"][0]["source"] == "pasted.png"


def test_the_pen_is_what_the_pictures_have(browser: Any, url: str) -> None:
    """The drawing area is white for a model whose pictures have dark ink, and black for other models."""
    page, corner = (
        browser.new_page(),
        "() => document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data[0]",
    )
    page.set_default_timeout(PATIENCE)
    kinds = {"title": "pictures", "documents": [], "examples": [], "engine": "PyTorch", "labels": None}
    found = {"name": "pictures", "reads": "picture", "writes": "text", "dark_ink": True, **kinds}
    page.route("**/models", lambda route: route.fulfill(json={"models": [found]}))
    for dark, paper in ((True, 255), (False, 0)):
        found["dark_ink"] = dark
        page.goto(url)
        page.get_by_label("Drawing area").wait_for()
        assert page.evaluate(corner) == paper
        page.goto("about:blank")
    page.close()


def test_attention_to_a_picture_is_drawn_on_it(page: Any) -> None:
    choose(page, "pictures")
    found = {"target": ["a", "</s>"], "weights": [[0.9, 0.1], [0.2, 0.8]], "boxes": [[0, 0, 0.5, 1], [0.5, 0, 1, 1]]}
    script = """async ([found, url]) => {
      const {drawSignal} = await import("/studio/signal.js"), image = document.createElement("canvas");
      drawSignal(document.querySelector("#insides"), {...found, attentions: ["x"], heads: [1]}, image, "", () => {});
      document.querySelectorAll("#insides button")[1].click();
      return [...document.querySelectorAll(".box")].map(each => Number(each.style.opacity));
    }"""
    assert page.evaluate(script, [found, ""]) == pytest.approx([0.1875, 0.75])
    assert "from 50 to 100 % across" in page.locator("#insides").inner_text()


def test_a_recording_is_made_and_read(page: Any, corpus: Path, tmp_path: Path) -> None:
    """The model reads 8,000 samples a second. The page converts what the microphone and other files have."""
    choose(page, "tones")
    spoken = corpus / "test" / "wav" / "1.wav"
    assert page.evaluate(CONVERTED) == [True, 44 + 2 * 400]
    faster = bytearray(spoken.read_bytes())
    faster[24:28] = (44100).to_bytes(4, "little")
    (tmp_path / "faster.wav").write_bytes(faster)
    with page.expect_response("**/predict") as answered:
        page.locator("#sound-file").set_input_files(tmp_path / "faster.wav")
    assert answered.value.json()["answers"][0]["source"] == "faster.wav"
    page.get_by_label(re.compile("^Spectrum of")).wait_for()
    with page.expect_response("**/predict") as answered:
        drop(page, "dropped.wav", spoken.read_bytes(), "audio/wav")
    assert answered.value.json()["answers"][0]["source"] == "dropped.wav"
    page.get_by_role("button", name="Record", exact=True).click()
    page.get_by_role("button", name="Stop and read").wait_for()
    page.wait_for_timeout(700)
    with page.expect_response("**/predict") as answered:
        page.get_by_role("button", name="Stop and read").click()
    assert answered.value.json()["answers"][0]["source"] == "recording.wav"
    page.locator("#player").wait_for()
    tone = """() => { // the loudest row of the picture: the microphone hears a tone, and not silence
      const {width, height} = document.querySelector(".spectrum");
      const {data} = document.querySelector(".spectrum").getContext("2d").getImageData(0, 0, width, height);
      return Math.max(...data.filter((_, at) => at % 4 === 0));
    }"""
    assert page.evaluate(tone) > 100


def test_a_microphone_that_is_forbidden_is_told(browser: Any, url: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/#model=tones")
    page.get_by_label("Output of tones").wait_for()
    page.evaluate("""() => { navigator.mediaDevices.getUserMedia = async () => {
        throw new DOMException("no", "NotAllowedError"); } }""")
    page.get_by_role("button", name="Record", exact=True).click()
    page.get_by_text("The browser has no right to use the microphone.").wait_for()
    page.close()


def test_a_series_has_its_interval(page: Any) -> None:
    choose(page, "gaps")
    page.get_by_role("textbox", name="Numbers, separated by spaces").fill(" ".join(map(str, [100, 110, 100, 90] * 3)))
    page.locator("svg .band").wait_for()
    assert page.locator("svg .forecast").count() == 1
    assert page.locator(".drawn svg text").all_text_contents()[0].startswith("1")  # the largest number
    page.get_by_text("forecast, with its 90 % interval").wait_for()
    page.get_by_text("The numbers").click()
    assert "90 % from" in page.locator(".drawn table").inner_text()
    page.locator("#source").fill("\n".join([" ".join(map(str, [100, 110, 100, 90] * 3)), "5 6 5 6 5 6 5 6"]))
    page.get_by_label("Forecast of line").select_option("1")
    page.get_by_text("A series of 8 steps").wait_for(state="attached")


def test_a_language_model_goes_on(page: Any) -> None:
    choose(page, "language")
    with page.expect_response(lambda answer: '"ab"' in (answer.request.post_data or "")):
        page.get_by_role("textbox", name="Beginning of a text").fill("ab")
    assert output(page).startswith("ab")
    page.locator(".output .word").first.click()
    page.locator(".alternatives .words button").first.wait_for()
    names = page.locator(".alternatives .words button").evaluate_all(
        "all => all.map(one => one.firstChild.textContent)"
    )
    number, chosen = next((place, name) for place, name in enumerate(names) if not name.startswith("a"))
    with page.expect_response(lambda answer: "completions" in answer.url):
        page.locator(".alternatives .words button").nth(number).click()
    assert output(page).startswith(chosen)


# ------------------------------------------------------------- for everybody


def test_the_keyboard_is_enough(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the output"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "outputs"
    page.reload()
    page.get_by_label("Output of reverse").wait_for()
    page.keyboard.press("Tab")
    seen = []
    while "source" not in seen and len(seen) < 12:
        page.keyboard.press("Tab")
        seen.append(page.evaluate("() => document.activeElement.id"))
    assert seen[-1] == "source", seen
    with page.expect_response("**/n-best"):
        page.keyboard.type("abc")
    output(page)
    page.locator(".output .word").first.focus()
    page.keyboard.press("Enter")
    page.locator(".words button").first.wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".alternatives").is_hidden()
    assert page.evaluate(FOCUSED) == 0
    page.get_by_role("button", name="Attention").focus()
    page.keyboard.press("Enter")
    page.locator(".view .link").first.wait_for(state="attached")
    assert page.evaluate("() => document.activeElement.textContent") == "Attention"
    last = len(write(page, "abc\ncab\nbca").split()) - 1
    assert last > 1
    page.locator(".output .word").first.focus()
    for key, place in (("End", last), ("ArrowLeft", last - 1), ("Home", 0), ("ArrowRight", 1)):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED) == place, key


def test_each_control_has_a_name(page: Any) -> None:
    write(page, "abc")
    named = """() => [...document.querySelectorAll('button, select, input, textarea, canvas, [role=button]')]
        .filter((each) => each.checkVisibility())
        .filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length
            || each.getAttribute("aria-labelledby")))
        .map((each) => each.outerHTML)"""
    assert page.evaluate(named) == []
    assert page.get_by_role("status").first.text_content().startswith("Answer: ")
    assert page.evaluate("() => document.documentElement.lang") == "en"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(FAINT_TEXTS) == []


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_axe_finds_nothing(page: Any, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="Python below 3.11 has no axe")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour in the middle of a transition
    found = []

    def look(place: str) -> None:
        for each in axe.Axe().run(page).response["violations"]:
            found.append((place, each["id"], each["nodes"][0]["html"]))

    look("empty")
    write(page, "abc\ncab", "de-en")
    for view in ("Other outputs", "Attention", "Search tree", "Use it from code"):
        page.get_by_role("button", name=view).click()
        page.locator(".view > :nth-child(2)").wait_for()
        look(view)
    page.get_by_role("button", name="About this model").click()
    page.get_by_role("dialog").locator("pre").first.wait_for()
    look("card")
    page.keyboard.press("Escape")
    write(page, "bad day", "moods")
    page.locator(".effect").first.wait_for()
    look("moods")
    write(page, "the dog barks", "tags")
    page.locator(".tagged").first.click()
    page.locator(".why .bars").wait_for()
    look("tags")
    assert not found


def test_a_text_from_right_to_left(page: Any) -> None:
    page.locator("#source").fill("שלום")
    direction = "element => getComputedStyle(element).direction"
    assert page.locator("#source").evaluate(direction) == "rtl"
    page.route("**/n-best", lambda route: route.fulfill(json={"answers": [{"text": "שלום עולם", "nbest": []}]}))
    page.route("**/stream", lambda route: route.fulfill(content_type="text/event-stream", body="data: [DONE]\n\n"))
    page.locator("#source").press("Control+Enter")
    page.locator(".output .word", has_text="עולם").wait_for()
    assert page.locator(".output").evaluate(direction) == "rtl"
    page.locator(".output .word").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(FOCUSED) == 1


def test_nothing_moves_for_those_who_do_not_want_it(page: Any) -> None:
    moves = "() => document.getAnimations().length"
    page.emulate_media(reduced_motion="reduce")
    write(page, "abc")
    assert page.evaluate(moves) == 0
    assert page.locator(".output .word").first.evaluate("word => getComputedStyle(word).animationName") == "none"


def test_a_phone_and_a_dark_page(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    write(page, "abcabc\nabc", "de-en")
    page.get_by_label("Compare with").select_option("sister")
    output(page, 1)
    for name in ("Attention", "Use it from code", "Other outputs", "Search tree"):
        page.get_by_role("button", name=name).first.click()
        page.locator(".view > *").first.wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, name
    below = "() => outputs.getBoundingClientRect().top - input.getBoundingClientRect().bottom"
    assert page.evaluate(below) >= 0
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_label("Compare with").select_option("")
    beside = "() => outputs.getBoundingClientRect().left - input.getBoundingClientRect().right"
    assert page.evaluate(beside) >= 0
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    assert page.evaluate(paper) == dark  # the choice stays
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(paper) == light


def test_a_mistake_is_told_where_it_belongs(page: Any) -> None:
    page.locator("#source").fill("a" * 10_001)
    trouble = page.locator("#input-problem")
    trouble.filter(has_text="characters").wait_for()
    assert trouble.inner_text() == "source has 10,001 characters, and the server takes 10,000: divide it"
    assert trouble.get_attribute("role") == "alert"
    assert page.locator("#source").get_attribute("aria-invalid") == "true"
    write(page, "abc")
    assert trouble.inner_text() == ""
    page.route("**/stream", lambda route: route.abort())
    page.locator("#source").fill("cab")
    page.get_by_text("The server does not answer. Is it still running?").wait_for()
    page.unroute("**/stream")
    page.get_by_role("button", name="Try again").click()
    output(page)
    assert "does not answer" not in page.locator(".trouble").inner_text()
    page.route("**/n-best", lambda route: route.fulfill(status=429, json={"error": "256 wait"}))
    page.locator("#source").fill("bca")
    page.get_by_text("The server is busy. Try again in a moment.").wait_for()


def test_an_empty_answer_is_told(page: Any) -> None:
    page.route("**/stream", lambda route: route.fulfill(content_type="text/event-stream", body="data: [DONE]\n\n"))
    page.route("**/n-best", lambda route: route.fulfill(json={"answers": [{"text": "", "nbest": []}]}))
    page.locator("#source").fill("abc")
    page.locator('.output[data-empty="The answer is empty."]:empty').wait_for()


def test_unknown_parts_of_an_input_are_told(page: Any) -> None:
    write(page, "abc§")
    page.get_by_text("The model does not know one part of the input (§).").wait_for()


def test_a_key_is_asked_for(browser: Any, models: dict[str, transduce.Transducer]) -> None:
    listening, ready = bound("127.0.0.1", 0), threading.Event()
    catalogue = Catalogue.of({"reverse": models["reverse"]})
    server = new_server(application(catalogue, Keys.of("secret", "here")), catalogue, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(60)
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address(listening))
    page.get_by_label("This server needs a key").fill("secret")
    page.get_by_role("button", name="Use it", exact=True).click()
    page.get_by_label("Output of reverse").wait_for()
    assert write(page, "abc") == words_of(models["reverse"], "abc")
    page.get_by_role("button", name="Use it from code").click()
    assert "$TRANSDUCE_KEY" in page.locator(".view pre").inner_text()
    assert "secret" not in page.content()
    page.close()
    server.should_exit = True
    thread.join(60)


def test_a_tab_divides_the_columns_of_an_input(browser: Any, url: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)

    def with_columns(route: Any) -> None:
        models = route.fetch().json()["models"]
        route.fulfill(json={"models": [{**each, "columns": 2} for each in models]})

    page.route("**/models", with_columns)
    page.goto(url)
    page.get_by_label("Output of reverse").wait_for()
    page.locator("#source").fill("ab")
    page.get_by_role("button", name="Insert a tab").click()
    page.keyboard.type("c")
    assert page.locator("#source").input_value() == "ab\tc"
    page.close()
