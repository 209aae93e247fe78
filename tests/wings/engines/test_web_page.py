"""The page of `transduce export --to web`: it answers in Chromium, and no request leaves it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image
from test_engine_file import SEARCHES, TABLES, content, needs_engine
from test_engine_signals import SOUND, noise, signal_content
from test_engine_signals import TABLES as SIGNAL_TABLES
from test_engine_texts import file_with
from test_engine_texts_on import NAMES, language_model

import transduce_engine
from browsers import FAINT_TEXTS
from transduce.data.tokenizers.text import Bpe
from transduce.wings.engines.web.page import page

pytestmark = needs_engine

OUTPUTS = """[...document.querySelectorAll('#outputs section')].map(
  part => [...part.querySelectorAll('li p')].map(text => text.firstChild.data))"""


class Opened:
    """A page that stands on the disk, and the addresses that it asked for."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda line: self.wrong.append(line.text))
        self.page.goto(address)
        self.page.wait_for_selector("#status :text('ready')")

    def answers(self, text: str, count: int) -> list[list[str]]:
        self.page.fill("#text", text)
        self.page.select_option("#count", str(count))
        self.page.press("#text", "Enter")
        self.page.wait_for_selector("#status :text('Answered in')")
        found: list[list[str]] = self.page.evaluate(OUTPUTS)
        return found


def written(folder: Path, title: str, file: bytes, subwords: bool = False) -> str:
    (folder / "page.html").write_text(page(title, file, subwords))
    return (folder / "page.html").as_uri()


def texts(answers: list[transduce_engine.Answer]) -> list[list[str]]:
    return [[each.text or "(empty)" for each in answer.outputs] for answer in answers]


def test_a_page_on_the_disk_answers_and_asks_nobody(browser: Any, call: Any, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    status, told, _ = call("export", trained, "--to", "web", "--single", "--out", out)
    assert (status, told.startswith(f"{out}: ")) == (0, True)
    status, _, _ = call("export", trained, "--to", "engine", "--out", tmp_path / "some.engine")
    engine = transduce_engine.load(tmp_path / "some.engine")
    opened = Opened(browser, out.as_uri())
    assert opened.page.title() == trained.name
    assert opened.answers("a b c\n\nb", 3) == texts(engine.answer(["a b c", "", "b"], nbest=3))
    assert opened.page.text_content("#card") == engine.note("card")
    assert opened.wrong == []
    assert {address.split(":")[0] for address in opened.asked} == {"file", "blob"}
    assert [address for address in opened.asked if address.startswith("file")] == [out.as_uri()]


@pytest.mark.slow
def test_a_page_fits_on_a_phone_and_can_be_read(browser: Any, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    _, file = content(TABLES["transformer, pre-norm"], SEARCHES["beam 5"])
    address = written(tmp_path, "A <b>long</b> name</script> " + "x" * 60, file)
    for scheme, width in (("light", 1440), ("dark", 390)):
        opened = Opened(browser, address, viewport={"width": width, "height": 844}, color_scheme=scheme)
        assert opened.page.inner_text("h1").startswith("A <b>long</b> name</script> x")
        opened.answers("abc\nZ" + "b" * 120, 5)
        assert "are unknown to the model" in opened.page.inner_text("#outputs")
        opened.page.evaluate("document.querySelector('details').open = true")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.page.evaluate(FAINT_TEXTS) == []
        assert [each["id"] for each in axe.run(opened.page).response["violations"]] == []


def test_subwords_are_read_in_a_page(browser: Any, tmp_path: Path) -> None:
    tokenizer = Bpe(60, minimum_count=1).learn(["low lower lowest new newer newest wide"])
    file = file_with(tokenizer)
    opened = Opened(browser, written(tmp_path, "subwords", file, subwords=True))
    given = ["lower newest", "wider"]
    assert opened.answers("\n".join(given), 1) == texts(transduce_engine.load(file).answer(given))
    assert opened.wrong == []


def test_a_language_model_goes_on_in_a_page(browser: Any, tmp_path: Path) -> None:
    _, file = language_model(NAMES[0])
    opened = Opened(browser, written(tmp_path, "language", file))
    assert opened.page.inner_text("#answer") == "Go on"
    found = opened.answers("ab", 3)
    assert found == [[each.text for each in transduce_engine.load(file).generate("ab", 3, seed=1)]]


def test_a_mistake_stands_in_the_page(browser: Any, tmp_path: Path) -> None:
    limits = json.dumps({"max_source_length": 10_000, "keeps_empty": False})
    _, file = content(TABLES["transformer, learned positions"], SEARCHES["greedy"], limits=limits)
    with pytest.raises(transduce_engine.EngineError, match="the model has positions for") as refused:
        transduce_engine.load(file).answer(["a" * 9000])
    opened = Opened(browser, written(tmp_path, "learned", file))
    opened.page.fill("#text", "a" * 9000)
    opened.page.click("#answer")
    opened.page.wait_for_selector("#status .problem")
    assert opened.page.inner_text("#status") == str(refused.value)
    assert opened.answers("ab", 1) == texts(transduce_engine.load(file).answer(["ab"]))


def test_a_drawing_and_a_picture_are_answered_in_a_page(browser: Any, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    unit = {"type": "picture", "height": 6, "width": 9}
    _, file = signal_content(SIGNAL_TABLES["perceptron"], {"type": "labels", "nbest": 3}, unit=unit)
    engine, address = transduce_engine.load(file), written(tmp_path, "digits", file)
    for scheme, width in (("light", 1440), ("dark", 390)):
        opened = Opened(browser, address, viewport={"width": width, "height": 844}, color_scheme=scheme)
        page = opened.page
        assert page.is_disabled("#answer")
        box = page.locator("#paper").bounding_box()
        page.mouse.move(box["x"] + 60, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 140, steps=5)
        page.mouse.up()
        page.wait_for_selector("#status :text('Answered in')")
        drawn = page.evaluate("(() => { const { pixels } = given[0]; return [...pixels]; })()")
        pixels = np.array(drawn, np.uint8).reshape(280, 280)
        mass = pixels.astype(float)
        middle = [(mass.sum(1 - axis) * (np.arange(280) + 0.5)).sum() / mass.sum() for axis in (0, 1)]
        assert middle == pytest.approx([140, 140], abs=1)
        assert page.evaluate(OUTPUTS) == [[engine(pixels)]]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXTS) == []
        assert [each["id"] for each in axe.run(page).response["violations"]] == []
        page.click("#clear")
        assert page.is_disabled("#answer")
        Image.fromarray(noise(31, 44, 3)).save(tmp_path / "some.png")
        page.set_input_files("#file-of-signal", tmp_path / "some.png")
        page.wait_for_selector("#outputs h2:text('some.png')")
        assert page.evaluate(OUTPUTS)[0][0] == engine(tmp_path / "some.png")
        page.set_input_files("#file-of-signal", {"name": "a.txt", "mimeType": "image/png", "buffer": b"no picture"})
        page.wait_for_selector("#status :text('a.txt is no picture that this browser can read.')")
        assert opened.wrong == []


def test_a_recording_is_answered_in_a_page(browser: Any, tmp_path: Path) -> None:
    _, file = signal_content(SIGNAL_TABLES["ctc, subsampling"], {"type": "prefix-beam", "size": 4}, unit=SOUND)
    opened = Opened(browser, written(tmp_path, "words", file))
    assert opened.page.is_visible("#record")
    for name, rate, kind in (("own.wav", 8000, "PCM_16"), ("other.wav", 44100, "PCM_24")):
        soundfile.write(tmp_path / name, noise(rate // 2) / 256 - 0.5, rate, kind)
        opened.page.set_input_files("#file-of-signal", tmp_path / name)
        opened.page.wait_for_selector(f"#outputs h2:text('{name}')")
    opened.page.set_input_files("#file-of-signal", tmp_path / "own.wav")
    opened.page.wait_for_selector("#outputs h2:text('own.wav')")
    assert opened.page.evaluate(OUTPUTS) == texts(transduce_engine.load(file).answer([tmp_path / "own.wav"]))
    opened.page.set_input_files("#file-of-signal", {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"no sound"})
    opened.page.wait_for_selector("#status :text('a.wav is no recording that this browser can read.')")
    assert opened.wrong == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a server of the folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_folder_has_what_own_pages_need(browser: Any, call: Any, trained: Path, tmp_path: Path, served: str) -> None:
    status, _, wrong = call("export", trained, "--to", "web", "--precision", "int8", "--out", tmp_path / "web")
    assert (status, wrong) == (0, "")
    names = {"index.html", "model.engine", "transduce.mjs", "transduce.d.mts", "engine.wasm"}
    assert {each.name for each in (tmp_path / "web").iterdir()} == names
    engine = transduce_engine.load(tmp_path / "web" / "model.engine")
    own = "import { load } from './web/transduce.mjs'; self.model = await load('web/model.engine');"
    (tmp_path / "own.html").write_text(f"<script type=module>{own}</script>")
    page = browser.new_page()
    page.goto(f"{served}/own.html")
    page.wait_for_function("self.model !== undefined")
    assert page.evaluate("model(['a b', 'b'])") == engine(["a b", "b"])
    assert Opened(browser, (tmp_path / "web" / "index.html").as_uri()).answers("a b", 1) == [[engine("a b")]]


def test_wrong_requests_are_told(call: Any, trained: Path, tmp_path: Path) -> None:
    folder, there, new = tmp_path / "folder", tmp_path / "there.html", tmp_path / "new"
    folder.mkdir()
    there.write_text("mine")
    a_page = "a file whose name ends in .html was expected, such as"
    for options, line in (
        (["web", "--out", folder], f"--out {folder}: it exists; name a new folder"),
        (["web", "--out", f"{new}.html"], f"--out {new}.html: a folder was expected; for one page, add --single"),
        (["web", "--single", "--out", new], f"--single --out {new}: {a_page} {new}.html"),
        (["web", "--single", "--out", folder], f"--single --out {folder}: {a_page} {folder}/{trained.name}.html"),
        (["web", "--single", "--out", there], f"--out {there}: it exists; name a new file"),
        (["engine", "--single"], "--single, --to engine: only an export to web can be one page; leave --single out"),
    ):
        status, _, told = call("export", trained, "--to", *options)
        assert (status, told.splitlines()[-1]) == (2, f"transduce: {line}")
    assert there.read_text() == "mine"
    assert not any(folder.iterdir())
