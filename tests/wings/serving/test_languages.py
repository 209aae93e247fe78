"""Languages in the server: detection, names, and the choice of a run by the language of a text; translated files."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from test_serve_connections import model  # noqa: F401

import transduce
from transduce.wings.serving.app import application
from transduce.wings.serving.catalogue import Catalogue
from transduce.wings.serving.kept_files import KeptFiles
from transduce.wings.serving.keys import Keys
from transduce.wings.serving.languages import detect, known, name_of
from transduce.wings.serving.limits import Limits

SENTENCES = {
    "de": "Zwei Männer stehen vor einem Haus.",
    "en": "Two men are standing in front of a house.",
    "fr": "Deux hommes se tiennent devant une maison.",
    "es": "Dos hombres están de pie delante de una casa.",
    "it": "Due uomini stanno in piedi davanti a una casa.",
    "nl": "Twee mannen staan voor een huis en kijken naar ons.",
    "pl": "Dwóch mężczyzn stoi przed domem.",
    "ru": "Двое мужчин стоят перед домом.",
    "uk": "Двоє чоловіків стоять перед будинком.",
    "el": "Δύο άντρες στέκονται μπροστά σε ένα σπίτι.",
    "ja": "二人の男が家の前に立っています。",
    "zh": "两个男人站在房子前面。",
    "ko": "두 남자가 집 앞에 서 있다.",
    "ar": "رجلان يقفان أمام المنزل.",
    "he": "שני גברים עומדים לפני בית.",
    "hi": "दो आदमी घर के सामने खड़े हैं।",
    "tr": "İki adam bir evin önünde duruyor.",
    "fi": "Kaksi miestä seisoo talon edessä.",
    "hu": "Két férfi áll egy ház előtt.",
    "sv": "Två män står framför ett hus och tittar på oss.",
}


@pytest.fixture(scope="module")
def client(model: transduce.Transducer) -> Iterator[TestClient]:
    models = {"de-en": model, "fr-en": model, "en-de": model}
    keys = Keys.of("secret", "here")
    with TestClient(application(Catalogue.of(models, Limits(upload=3000)), keys)) as client:
        yield client


@pytest.mark.parametrize("code", SENTENCES)
def test_the_language_of_a_sentence(code: str) -> None:
    (best, probability), *_ = detect(SENTENCES[code])
    assert best == code
    assert 0.4 < probability <= 1


def test_what_is_not_known_of_a_language() -> None:
    assert detect("123 ...") == detect("") == []
    assert detect("der Hund", {"xx"}) == []
    assert detect("der Hund", {"fr", "xx"})[0] == ("fr", 1.0)
    total = sum(probability for _, probability in detect("a"))
    assert 0.5 < total <= 1.0001
    assert detect("a")[0][1] < 0.5  # one letter says little
    assert (name_of("de"), name_of("xx")) == ("German", "xx")
    assert "af" not in known()
    assert len(known()) == 37


@pytest.mark.skipif("TRANSDUCE_DATA" not in os.environ, reason="real data are needed: set TRANSDUCE_DATA")
@pytest.mark.parametrize("code", ["de", "en", "fr"])
def test_most_real_sentences_are_detected(code: str) -> None:
    path = Path(os.environ["TRANSDUCE_DATA"]) / "multi30k" / f"test_2016_flickr.{code}.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(100), strict=False)]
    assert sum(detect(line)[0][0] == code for line in lines) >= 96


def test_the_run_follows_from_the_language(client: TestClient) -> None:
    for text, run in ((SENTENCES["de"], "de-en"), (SENTENCES["fr"], "fr-en")):
        before = counted(client, run)
        answer = client.post("/translate", json={"q": text, "target": "en", "api_key": "secret"})
        detected = answer.json()["detectedLanguage"]
        assert detected["language"] == run[:2]
        assert detected["confidence"] > 80
        assert counted(client, run) == before + 1
    answer = client.post("/translate", json={"q": SENTENCES["ru"], "target": "en", "api_key": "secret"})
    assert answer.json()["detectedLanguage"]["confidence"] < 5  # the best of two wrong ones
    found = client.post("/detect", data={"q": SENTENCES["ru"], "api_key": "secret"}).json()
    assert found[0]["language"] == "ru"
    assert client.post("/detect", json={"q": "..", "api_key": "secret"}).json() == [{"language": "en", "confidence": 0}]
    assert client.post("/detect", json={"q": "a"}).status_code == 401
    long = client.post("/detect", json={"q": "a" * 10_001, "api_key": "secret"})
    assert "q has 10,001 characters" in long.json()["error"]


def counted(client: TestClient, run: str) -> float:
    text = client.get("/metrics", headers={"x-api-key": "secret"}).text
    lines = [line for line in text.splitlines() if f'transduce_model_requests_total{{model="{run}"' in line]
    return sum(float(line.split()[-1]) for line in lines)


def test_a_file_is_translated_and_fetched(client: TestClient, model: transduce.Transducer) -> None:
    fields = {"source": "de", "target": "en", "api_key": "secret"}
    sent = {"file": ("../my text.txt", b"abc\ncab\n")}
    answer = client.post("/translate_file", data=fields, files=sent, headers={"host": "here:80"})
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://here:80/download_file/")
    assert url.endswith(".my_text_en.txt")
    fetched = client.get(url.removeprefix("http://here:80"))
    assert fetched.text.splitlines() == model(["abc", "cab"])
    assert fetched.headers["content-disposition"] == "attachment; filename=my_text_en.txt"
    assert client.get("/download_file/0000.my_text_en.txt").status_code == 404
    assert client.post("/translate_file", data={"target": "en"}, files=sent).status_code == 401
    none = client.post("/translate_file", data=fields)
    assert none.json()["error"].startswith("0 files are in the form")
    other = client.post("/translate_file", data=fields | {"target": "fr"}, files=sent)
    assert "de to fr is not translated here" in other.json()["error"]
    assert client.post("/translate_file", data=fields, files={"file": ("a.txt", bytes(3000))}).status_code == 413


def test_files_are_kept_for_a_while_and_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptFiles(10)
    first, second = kept.keep("a.txt", b"12345"), kept.keep("b/../c d.txt", b"12345")
    assert (kept.find(first), second.partition(".")[2]) == (b"12345", "c_d.txt")
    third = kept.keep("e", b"1")
    assert [kept.find(each) for each in (first, second, third)] == [None, b"12345", b"1"]
    monkeypatch.setattr("transduce.wings.serving.kept_files.SECONDS", -1)
    kept = KeptFiles(10)
    assert kept.find(kept.keep("f", b"")) is None
