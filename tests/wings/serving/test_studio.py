"""The studio in a headless Chromium: each interaction, as a person would do it. No request leaves the machine."""

from __future__ import annotations

import re
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
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.server import address, bound, new_server

pytest.importorskip("fastapi")
pytest.importorskip("PIL")
pytestmark = pytest.mark.slow
FOCUSED = "() => [...document.querySelectorAll('.word')].indexOf(document.activeElement)"  # the index of the word
CONVERTED = """async () => {
  // Whether a file with the model's rate stays as it is, and the bytes of one with twice the rate.
  const {converted, wav} = await import("/studio/sound.js"), samples = [new Float32Array(800)];
  const same = new File([wav(samples, 8000)], "a.wav");
  return [(await converted(same, 8000)) === same, (await converted(wav(samples, 16000), 8000)).size];
}"""
PATIENCE = 60_000  # milliseconds, for a machine that is busy


@pytest.fixture(scope="module")
def models(
    trained: Path,
    sister: Path,
    pictures: transduce.Transducer,
    language: transduce.Transducer,
    tones: Path,
    gaps: Any,
) -> dict[str, transduce.Transducer]:
    return {
        "reverse": transduce.load(trained, device="cpu"),
        "sister": transduce.load(sister, device="cpu"),
        "pictures": pictures,
        "language": language,
        "tones": transduce.load(tones, device="cpu"),
        "gaps": transduce.load(gaps, device="cpu") if isinstance(gaps, Path) else gaps,
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
    context = browser.new_context(permissions=["microphone"])
    page, asked, failed = context.new_page(), [], []
    page.set_default_timeout(PATIENCE)
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(url)
    page.get_by_label("Output of reverse").wait_for()
    yield page
    context.close()
    assert not failed
    assert [each for each in asked if not each.startswith((url, "blob:", "data:"))] == []


def output(page: Any, number: int = 0) -> str:
    """The finished output of a panel, when it is there."""
    page.locator(".panel").nth(number).locator(".output[aria-busy=false] .word").first.wait_for()
    return str(page.locator(".output").nth(number).inner_text()).strip()


def choose(page: Any, name: str) -> None:
    page.locator("select.model").first.select_option(name)


def words_of(model: transduce.Transducer, source: str, prefix: str = "") -> str:
    return " ".join(next(model.predict([source], prefix=prefix))[0].text.split())


def test_an_output_grows_and_goes_on_from_another_word(page: Any, models: dict[str, transduce.Transducer]) -> None:
    page.get_by_label("Text").fill("abc")
    assert output(page) == words_of(models["reverse"], "abc")
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
        page.get_by_role("button", name="Tree of the beam").click()
    assert asked.value.post_data_json["prefix"] == word
    page.get_by_role("button", name="Begin again").click()
    page.locator(".output .kept").wait_for(state="detached")
    assert output(page) == words_of(models["reverse"], "abc")


def test_a_new_user_is_told_what_to_do(page: Any) -> None:
    assert page.get_by_label("Text").get_attribute("placeholder") == "Type here"
    empty = "() => getComputedStyle(document.querySelector('.output'), '::before').content"
    assert page.evaluate(empty) == '"The output appears here."'
    hint, alone = page.get_by_text("Click a word to see"), page.get_by_text("The server has no second model")
    assert hint.is_hidden()
    assert alone.is_hidden()
    page.get_by_label("Text").fill("abc")
    output(page)
    assert hint.is_visible()
    choose(page, "tones")
    alone.wait_for()
    assert page.get_by_label("Two models side by side").is_disabled()


def test_attention_is_drawn_as_lines_and_said_in_words(page: Any) -> None:
    page.get_by_label("Text").fill("abc")
    output(page)
    button = page.get_by_role("button", name="Attention")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    lines = page.locator(".attention .link")
    lines.first.wait_for(state="attached")
    assert button.get_attribute("aria-expanded") == "true"
    every = lines.count()
    page.locator(".attention .token").first.hover()
    assert 0 < page.locator(".attention .dim").count() < every
    page.get_by_text("In words").click()
    assert "% on" in page.locator(".attention li").first.inner_text()


def test_the_tree_of_the_beam(page: Any) -> None:
    page.get_by_label("Text").fill("abc")
    output(page)
    page.get_by_role("button", name="Tree of the beam").click()
    page.locator(".tree .best").first.wait_for()
    assert "output 1" in page.locator(".tree").inner_text()
    few = page.locator(".tree li").count()
    page.get_by_label("Show what was pruned").check()
    assert page.locator(".tree li").count() > few


def test_two_models_side_by_side(page: Any, models: dict[str, transduce.Transducer]) -> None:
    page.get_by_label("Text").fill("cab")
    page.get_by_label("Two models side by side").check()
    assert output(page, 0) == words_of(models["reverse"], "cab")
    assert output(page, 1) == words_of(models["sister"], "cab")
    page.get_by_label("Two models side by side").uncheck()
    assert page.locator(".panel").count() == 1


def test_a_drawing_and_a_picture_are_read(page: Any, models: dict[str, transduce.Transducer], tmp_path: Path) -> None:
    choose(page, "pictures")
    box = page.get_by_label("Drawing area").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 220, steps=5)
    page.mouse.up()
    with page.expect_response("**/predict") as answered:
        page.get_by_role("button", name="Read the drawing").click()
    assert answered.value.status == 200
    page.get_by_role("button", name="Clear").click()
    (tmp_path / "mine.png").write_bytes(picture(3))
    with page.expect_response("**/predict") as answered:
        page.locator("#picture-file").set_input_files(tmp_path / "mine.png")
    text = models["pictures"](str(tmp_path / "mine.png"))
    assert answered.value.json()["answers"][0]["text"] == text


def test_the_pen_is_what_the_pictures_have(browser: Any, url: str) -> None:
    """The drawing area is white for a model whose pictures have dark ink, and black for other models."""
    page, corner = (
        browser.new_page(),
        "() => document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data[0]",
    )
    page.set_default_timeout(PATIENCE)
    found = {"name": "pictures", "reads": "picture", "writes": "text", "dark_ink": True}
    page.route("**/models", lambda route: route.fulfill(json={"models": [found]}))
    for dark, paper in ((True, 255), (False, 0)):
        found["dark_ink"] = dark
        page.goto(url)
        page.get_by_label("Drawing area").wait_for()
        assert page.evaluate(corner) == paper
    page.close()


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
    page.get_by_role("button", name="Record", exact=True).click()
    page.get_by_role("button", name="Stop and read").wait_for()
    page.wait_for_timeout(700)
    with page.expect_response("**/predict") as answered:
        page.get_by_role("button", name="Stop and read").click()
    assert answered.value.json()["answers"][0]["source"] == "recording.wav"
    page.locator("#player").wait_for()


def test_a_series_has_its_interval(page: Any) -> None:
    choose(page, "gaps")
    page.get_by_label("Numbers, separated by spaces").fill(" ".join(map(str, [100, 110, 100, 90] * 3)))
    page.locator("svg .band").wait_for()
    assert page.locator("svg .forecast").count() == 1
    assert page.locator(".series svg text").all_text_contents()[0].startswith("1")  # the largest number
    page.get_by_text("forecast, with its 90 % interval").wait_for()
    page.get_by_text("The numbers").click()
    assert "90 % from" in page.locator(".series table").inner_text()


def test_a_language_model_goes_on(page: Any) -> None:
    choose(page, "language")
    with page.expect_response(lambda answer: '"ab"' in (answer.request.post_data or "")):
        page.get_by_label("Beginning of a text").fill("ab")
    assert output(page).startswith("ab")


def test_the_keyboard_is_enough(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the output"
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.id") == "source"
    page.keyboard.type("abc")
    output(page)
    page.locator(".word").first.focus()
    page.keyboard.press("Enter")
    page.locator(".words button").first.wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".alternatives").is_hidden()
    assert page.evaluate(FOCUSED) == 0
    choose(page, "gaps")
    page.get_by_label("Numbers, separated by spaces").fill(" ".join(map(str, [100, 110, 100, 90] * 3)))
    page.locator("svg .band").wait_for()
    page.locator(".word").first.focus()
    for key, place in (("End", 3), ("ArrowLeft", 2), ("Home", 0), ("ArrowRight", 1)):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED) == place, key


def test_each_control_has_a_name(page: Any) -> None:
    page.get_by_label("Text").fill("abc")
    output(page)
    named = """() => [...document.querySelectorAll('button, select, input, textarea, canvas')]
        .filter((each) => each.checkVisibility())
        .filter((each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length))
        .map((each) => each.outerHTML)"""
    assert page.evaluate(named) == []
    assert page.locator(".output").first.get_attribute("aria-live") == "polite"
    assert page.evaluate("() => document.documentElement.lang") == "en"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(FAINT_TEXTS) == []


def test_a_phone_and_a_dark_page(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_label("Text").fill("abcabc")
    output(page)
    page.get_by_label("Two models side by side").check()
    for name in ("Attention", "Tree of the beam"):
        page.get_by_role("button", name=name).first.click()
    page.locator(".tree .best").first.wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(paper) != light
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(paper) == light
    page.emulate_media(color_scheme="dark")
    page.reload()
    page.get_by_label("Output of reverse").wait_for()
    assert page.evaluate(paper) != light


def test_a_mistake_is_told(page: Any) -> None:
    page.get_by_label("Text").fill("a" * 10_001)
    trouble = page.locator(".trouble").first
    trouble.filter(has_text="characters").wait_for()
    assert trouble.inner_text() == "source has 10,001 characters, and the server takes 10,000: divide it"
    assert trouble.get_attribute("role") == "alert"


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
    page.get_by_role("button", name="Use it").click()
    page.get_by_label("Text").fill("abc")
    assert output(page) == words_of(models["reverse"], "abc")
    page.close()
    server.should_exit = True
    thread.join(60)
