"""Packed runs: equal outputs anywhere, no trace of the machine, and nothing of a stranger's run can do harm."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_output_file import full_after

import transduce
from hub import served
from transduce.core import config
from transduce.core.errors import UserError
from transduce.data.corpora import DataError
from transduce.data.preparation import origin_folder
from transduce.models.weights import load_tensors
from transduce.runs.from_model import write_run
from transduce.runs.hub import Address
from transduce.runs.packed import MOST_FILES, PACK, check_folder, check_names, digest
from transduce.runs.received import received
from transduce.runs.run import Run
from transduce.wings.engines.sharing import exchange
from transduce.wings.engines.sharing.card import Card, parameters_of
from transduce.wings.engines.sharing.exchange import pull
from transduce.wings.engines.sharing.packing import pack
from transduce.wings.records.scores import Score

Call = Callable[..., tuple[int, str, str]]
SOURCES = ["abc", "hello", "zz", "a"]
FILES = {
    "README.md",
    "config.toml",
    "pack.json",
    "tokenizers/source.json",
    "tokenizers/target.json",
    "checkpoints/best/model.safetensors",
    "checkpoints/best/state.json",
    "checkpoints/best/checksums.sha256",
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def outputs(run: str | Path) -> list[Any]:
    return [(one.text, one.log_prob) for outputs in transduce.load(run).predict(SOURCES) for one in outputs]


@pytest.mark.parametrize(("number", "kind"), [(errno.EACCES, UserError), (errno.EROFS, UserError), (28, OSError)])
def test_a_cache_that_cannot_be_written_is_told_with_what_to_do(
    number: int, kind: type[Exception], trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack(trained, tmp_path / "reverse.zip")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "no", "x")

    monkeypatch.setattr("transduce.runs.packed.make_folder", refuse)
    with pytest.raises(kind, match="set the environment variable XDG_CACHE_HOME" if kind is UserError else "no: 'x'"):
        received(packed)


@pytest.mark.parametrize("name", ["reverse", "reverse.zip"])
def test_a_packed_run_answers_alike(name: str, trained: Path, tmp_path: Path) -> None:
    packed = pack(trained, tmp_path / name)
    assert outputs(packed) == outputs(trained)
    copy = pull(packed, tmp_path / "elsewhere" / "mine")
    assert files_of(copy) == FILES
    shutil.rmtree(packed) if packed.is_dir() else packed.unlink()
    assert outputs(copy) == outputs(trained)
    with pytest.raises(UserError, match="not empty"):
        pull(copy, copy)


def test_equal_runs_give_equal_bytes(trained: Path, tmp_path: Path) -> None:
    for place in ("one", "two"):
        run = tmp_path / place / "reverse"
        shutil.copytree(trained, run)
        os.utime(run / "config.toml", (1e9, 1e9)) if place == "two" else (run / "config.toml").chmod(0o600)
        pack(run, tmp_path / place / "packed.zip")
    assert (tmp_path / "one/packed.zip").read_bytes() == (tmp_path / "two/packed.zip").read_bytes()


def test_nothing_of_training_and_of_the_machine_is_packed(trained: Path, tmp_path: Path) -> None:
    folder = pack(trained, tmp_path / "packed", "average")
    assert files_of(folder) == FILES
    for name in FILES - {"checkpoints/best/model.safetensors"}:
        assert str(tmp_path.parent) not in (folder / name).read_text(encoding="utf-8")
    settings = config.read(folder / "config.toml")
    assert "cache" not in settings["data"]
    assert settings["model"] == Run.open(trained).settings["model"]
    average = load_tensors(trained / "checkpoints/average/model.safetensors")
    assert all((average[name] == each).all() for name, each in Run.open(folder).model().state_dict().items())


def test_paths_become_names(own_run: Path, tmp_path: Path) -> None:
    settings = config.read(own_run / "config.toml")
    settings["data"]["train"] = {"path": "/home/me/secret/train.tsv"}
    settings["data"]["valid"] = {"path": "data/valid.tsv"}
    settings["data"]["cluster"] = "tcp://mine:1"
    settings["init"] = {"run": "../private/mother+father"}
    (own_run / "config.toml").write_text(config.write(settings))
    packed = config.read(pack(own_run, tmp_path / "packed") / "config.toml")
    assert packed["data"]["train"]["path"] == "train.tsv"
    assert packed["data"]["valid"]["path"] == "data/valid.tsv"
    assert packed["init"]["run"] == "mother+father"
    assert "cluster" not in packed["data"]


def test_a_language_model_is_packed_too(own_run: Path, sister: Path, tmp_path: Path) -> None:
    named = {"type": "language-model", "language_model": str(sister), "weight": 0.5}
    settings = config.read(own_run / "config.toml")
    settings["search"] = {"type": "beam", "size": 2, "max_length": 6, "filters": [named]}
    (own_run / "config.toml").write_text(config.write(settings))
    packed = pack(own_run, tmp_path / "packed.zip")
    folder = received(packed)
    assert config.read(folder / "config.toml")["search"]["filters"][0]["language_model"] == "sister"
    assert "language-models/sister/checkpoints/best/model.safetensors" in files_of(folder)
    assert Run.open(folder / "language-models" / "sister").tokenizers.fingerprints


def test_only_packed_runs_are_replaced(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    with pytest.raises(UserError, match="is no packed run"):
        pack(trained, tmp_path / "mine")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file"):
        pack(trained, tmp_path / "file")
    assert pack(trained, pack(trained, tmp_path / "again")).is_dir()
    with pytest.raises(UserError, match="not several"):
        pack(f"{trained}+{trained}", tmp_path / "two")
    with pytest.raises(UserError, match="is no packed run"):
        pull(trained, tmp_path / "copy")


# --------------------------------------------------------------- strangers


@pytest.fixture(scope="module")
def packed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a packed run."""
    folder = pack(trained, tmp_path_factory.mktemp("packed") / "first")
    return {name: (folder / name).read_bytes() for name in sorted(FILES)}


def listed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with the checksums of a stranger who knows the format."""
    table = json.loads(files[PACK])
    sums = {}
    for name, content in files.items():
        if name != PACK:
            path = Path(os.environ["XDG_CACHE_HOME"]) / "one"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            sums[name] = digest(path)
    return {**files, PACK: json.dumps({**table, "files": sums}).encode()}


def zipped(path: Path, files: dict[str, bytes], mode: int = 0o100644, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = compression
            entry.external_attr = (mode if name == "README.md" else 0o100644) << 16
            archive.writestr(entry, content)
    return path


NAMES = [
    "../outside.txt",
    "/tmp/outside.txt",
    "tokenizers/../../outside.txt",
    "..\\outside.txt",
    "C:\\outside.txt",
    "language-models/../config.toml",
    "language-models/a/../../config.toml",
    "plugin.py",
    "checkpoints/best/optimizer.safetensors",
    "config.toml\0.py",
    "checkpoints/best/model.safetensors\n",
    "CONFIG.TOML",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_other_name_is_written(name: str, packed: dict[str, bytes], tmp_path: Path, own_cache: Path) -> None:
    file = zipped(tmp_path / "x.zip", listed({**packed, name: b"hello"}) if "\0" not in name else packed)
    before = files_of(tmp_path)
    if "\0" in name:
        with pytest.raises(UserError, match="which no packed run has"):
            check_names({**dict.fromkeys(packed, 1), name: 1}, "x")
        return
    for use in (transduce.load, lambda run: pull(run, tmp_path / "deep" / "folder" / "out")):
        with pytest.raises(UserError, match="which no packed run has"):
            use(file)
    assert files_of(tmp_path) == before
    assert not (own_cache / "transduce").exists() or not any((own_cache / "transduce" / "packs").iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": stat.S_IFLNK | 0o777}, "is a link"),
        ({"compression": zipfile.ZIP_DEFLATED}, "is compressed"),
    ],
)
def test_links_and_bombs_are_refused(
    change: dict[str, int], message: str, packed: dict[str, bytes], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        transduce.load(zipped(tmp_path / "x.zip", packed, **change))


def test_sizes_and_numbers_of_files_are_bounded(packed: dict[str, bytes]) -> None:
    sizes = {name: len(content) for name, content in packed.items()}
    check_names(sizes, "x")
    for name in ("config.toml", "tokenizers/source.json", "README.md"):
        with pytest.raises(UserError, match=f"{name} has .* bytes"):
            check_names({**sizes, name: 2**40}, "x")
    many = {f"language-models/{number}/config.toml": 1 for number in range(MOST_FILES)}
    with pytest.raises(UserError, match="at most"):
        check_names({**sizes, **many}, "x")
    with pytest.raises(UserError, match="no packed run: it has no config"):
        check_names({name: size for name, size in sizes.items() if name != "config.toml"}, "x")


def huge_header(content: bytes) -> bytes:
    return (2**62).to_bytes(8, "little") + content[8:]


def other_shape(content: bytes) -> bytes:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [2**40, 2**40]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("checkpoints/best/model.safetensors", huge_header, "no whole safetensors file"),
        ("checkpoints/best/model.safetensors", other_shape, "no whole safetensors file"),
        ("config.toml", lambda text: text.replace(b'"encoder-decoder"', b'"os:system"', 1), "os:system"),
        ("config.toml", lambda text: text.replace(b"width = 12", b"width = 9000000000", 1), "width"),
        ("tokenizers/source.json", lambda _: b'{"kind": "os:system"}', "os:system"),
        ("tokenizers/source.json", lambda _: b"[" * 10**6, "nested too deep"),
    ],
)
def test_hostile_content_is_an_error(
    name: str, change: Callable[[bytes], bytes], message: str, packed: dict[str, bytes], tmp_path: Path
) -> None:
    changed = change(packed[name])
    assert changed != packed[name]
    file = zipped(tmp_path / "x.zip", listed({**packed, name: changed}))
    (received(file) / "checkpoints/best/checksums.sha256").write_text("")
    with pytest.raises(UserError, match=message):
        transduce.load(file)


def test_a_settings_file_cannot_name_code(
    packed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("open('executed', 'w')")
    text = b'plugin = "evil.py"\nplugins = ["evil.py"]\nbase = "evil.py"\n' + packed["config.toml"]
    file = zipped(tmp_path / "x.zip", listed({**packed, "config.toml": text}))
    assert outputs(file) == outputs(trained)
    assert not Path("executed").exists()


def with_settings(packed: dict[str, bytes], file: Path, **tables: Any) -> Path:
    """A packed run in a .zip file, with other tables in its settings. Its units stay."""
    own = config.parse(packed["config.toml"], "config.toml")
    settings = {**own, **tables, "data": {"units": own["data"]["units"], **tables.get("data", {})}}
    return zipped(file, listed({**packed, "config.toml": config.write(settings).encode()}))


@pytest.mark.parametrize("corpora", [True, False])
def test_a_packed_run_reads_no_data_of_other_machines(
    corpora: bool, packed: dict[str, bytes], tmp_path: Path, call: Call
) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe("/strangers/test.tsv", b"abc\tcba\n")
    place = {"path": "memory://strangers/test.tsv"}
    data = {"test": {"corpora": [place]} if corpora else place}
    file = with_settings(packed, tmp_path / "x.zip", data=data)
    assert outputs(file)
    for run in (file, pull(file, tmp_path / "pulled")):
        status, _, told = call("evaluate", run, "--device", "cpu")
        assert status == 2
        assert "'memory://strangers/test.tsv', on the network" in told
        assert "transduce pull --trust" in told
    status, _, _ = call("pull", file, "--out", tmp_path / "mine", "--trust")
    assert status == 0
    assert call("evaluate", tmp_path / "mine", "--device", "cpu")[0] == 0
    assert files_of(tmp_path / "mine") == FILES - {PACK}
    system.rm("/strangers", recursive=True)


def test_a_packed_run_downloads_nothing(
    packed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = {"type": "multi30k", "source": "de", "target": "en"}
    run = Run.open(pull(with_settings(packed, tmp_path / "x.zip", data={"origin": origin}), tmp_path / "run"))
    monkeypatch.setattr(socket, "socket", None)  # a request would be another error
    for use in (lambda: run.examples("test"), run.prepared):
        with pytest.raises(DataError, match=r"would be downloaded.*--trust"):
            use()
    folder = origin_folder(run._data.origin, run.cache)
    folder.mkdir(parents=True)  # it was downloaded before, for another run
    assert Run.open(run.path).data.origin == run._data.origin


def test_a_packed_run_asks_no_cluster(packed: dict[str, bytes], tmp_path: Path) -> None:
    run = Run.open(with_settings(packed, tmp_path / "x.zip", data={"cluster": "tcp://strangers:1"}))
    with pytest.raises(DataError, match="'tcp://strangers:1', on the network"):
        run.prepared()


@pytest.mark.parametrize("table", ["init", "search"])
def test_a_packed_run_names_no_other_run(table: str, packed: dict[str, bytes], tmp_path: Path) -> None:
    named = {"type": "language-model", "language_model": "mine+hf:evil/spy", "weight": 0.5}
    tables: dict[str, Any] = {"init": {"run": "hf:evil/spy"}, "search": {"type": "beam", "filters": [named]}}
    file = with_settings(packed, tmp_path / "x.zip", **{table: tables[table]})
    with pytest.raises(UserError, match=r"names the run '.*hf:evil/spy', and a packed run names none"):
        transduce.load(file)


@pytest.mark.parametrize("content", [b"[" * 10**6, b"{}", b'{"format": 9, "files": {}}', b'{"format": 1, "files": 3}'])
def test_a_damaged_list_is_an_error(content: bytes, packed: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pack\.json"):
        transduce.load(zipped(tmp_path / "x.zip", {**packed, PACK: content}))


def test_a_changed_file_is_noticed(packed: dict[str, bytes], tmp_path: Path) -> None:
    changed = {**packed, "README.md": b"other"}
    with pytest.raises(UserError, match=r"README\.md is damaged"):
        transduce.load(zipped(tmp_path / "x.zip", changed))
    whole = zipped(tmp_path / "y.zip", packed).read_bytes()
    (tmp_path / "z.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"no whole \.zip file"):
        transduce.load(tmp_path / "z.zip")
    twice = zipfile.ZipFile(tmp_path / "y.zip", "a")
    with twice, pytest.warns(UserWarning, match="Duplicate"):
        twice.writestr("README.md", b"again")
    with pytest.raises(UserError, match="twice"):
        transduce.load(tmp_path / "y.zip")


def test_links_in_a_folder_are_refused(trained: Path, tmp_path: Path) -> None:
    """Commands that write into the folder could be led elsewhere."""
    folder = pack(trained, tmp_path / "packed")
    (tmp_path / "home").mkdir()
    (folder / "exports").symlink_to(tmp_path / "home")
    for use in (transduce.load, Run.open, lambda run: pull(run, tmp_path / "out")):
        with pytest.raises(UserError, match="is a link"):
            use(folder)
    check_folder(folder, tmp_path)
    pretended = tmp_path / "snapshots" / "packed"
    shutil.copytree(folder, pretended, symlinks=True)
    with pytest.raises(UserError, match="is a link"):
        received(pretended)


# --------------------------------------------------------------------- hub


@pytest.mark.parametrize("text", ["hf:", "hf:name", "hf:a/b/c", "hf:../b", "hf:a/..", "hf:a/b@", "hf:a b/c"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="hf:owner/name"):
        received(text)


def test_addresses() -> None:
    assert Address.of("hf:a/b-c.d@v1/x") == Address("a/b-c.d", "v1/x")
    assert str(Address.of("hf:a/b@main")) == "hf:a/b@main"


STEPS = """
import json, sys, warnings
from pathlib import Path
from transduce.core.errors import UserError
from transduce.wings.engines.sharing.exchange import pull, push
run, folder = sys.argv[1:]
print(push(run, "hf:me/mine", private=True))
pull("hf:me/mine", Path(folder) / "pulled")
for name in ("hf:me/evil", "hf:me/none"):
    try:
        pull(name, Path(folder) / "evil")
    except UserError as error:
        print(error)
print("torch" in sys.modules)
import transduce
model = transduce.load("hf:me/mine")
print(json.dumps(model(["abc", "hello"])))
"""


@pytest.mark.parametrize("offline", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_push_and_pull(offline: bool, trained: Path, packed: dict[str, bytes], tmp_path: Path) -> None:
    """Runs in a separate process, because huggingface_hub reads the address of the hub when it is imported."""
    pytest.importorskip("huggingface_hub")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": "hf_secret", "TQDM_DISABLE": "1"}
    with served() as hub:
        hub.put("me/evil", {**packed, "README.md": b"other", "setup.py": b"import os"})
        ask = [sys.executable, "-c", STEPS, str(trained), str(tmp_path)]
        done = subprocess.run(
            ask, env={**environment, "HF_ENDPOINT": hub.url}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        page, evil, missing, torch, found = done.stdout.splitlines()
        assert page.startswith(f"{hub.url}/me/mine/commit/")
        assert hub.commits["me/mine"][-1].keys() == FILES
        assert "me/mine" in hub.private
        assert "README.md is damaged" in evil
        assert not any("setup.py" in line for line in hub.seen)
        assert "hf:me/none" in missing
        assert torch == "False"
        assert json.loads(found) == transduce.load(trained)(["abc", "hello"])
        assert files_of(tmp_path / "pulled") == FILES
        assert not (tmp_path / "evil").exists()
        card = hub.commits["me/mine"][-1]["README.md"].decode()
        assert 'transduce.load("hf:me/mine")' in card
        assert "hf_secret" not in str(hub.commits)
    if not offline:
        return
    again = [sys.executable, "-m", "transduce", "predict", "hf:me/mine"]
    closed = {**environment, "HF_ENDPOINT": hub.url, "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
    offline = subprocess.run(again, env=closed, input="abc\n", capture_output=True, text=True, timeout=120)
    assert offline.stdout == f"{transduce.load(trained)('abc')}\n", offline.stderr


def test_push_without_a_network_is_told_in_a_line(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_: Any, **__: Any) -> None:
        raise ConnectionError("Name or service\nnot known")

    monkeypatch.setattr(hub.HfApi, "create_repo", offline)
    with pytest.raises(UserError, match=r"hf:me/mine: the hub cannot be reached \(Name or service not known\)"):
        exchange.push(trained, "hf:me/mine")


def test_a_full_disk_leaves_no_half_of_a_run_that_is_made_at_once(trained: Path, tmp_path: Path) -> None:
    """As by `ngram --out`, `heads --save` and `import`."""
    run = Run.open(trained)
    with full_after(2000), pytest.raises(OSError, match=r"File too large: .*/new"):
        write_run(tmp_path / "new", run.settings, run.tokenizers, run.model(), {"step": 0})
    assert not list(tmp_path.iterdir())
    write_run(tmp_path / "new", run.settings, run.tokenizers, run.model(), {"step": 0})
    assert transduce.load(tmp_path / "new")("abc") == transduce.load(trained)("abc")
    with pytest.raises(UserError, match="new exists and is not empty"):
        write_run(tmp_path / "new", run.settings, run.tokenizers, run.model(), {"step": 0})


def test_a_full_disk_leaves_no_half_of_a_packed_run(trained: Path, tmp_path: Path) -> None:
    for name in ("folder", "pack.zip"):
        with full_after(4000), pytest.raises(OSError, match="File too large") as caught:
            pack(trained, tmp_path / name)
        assert str(trained) not in str(caught.value)
        assert not (tmp_path / name).exists()


# -------------------------------------------------------------------- cards


def test_the_card_has_scores_with_intervals(trained: Path, tmp_path: Path, call: Call) -> None:
    status, out, err = call("pack", str(trained), "--out", str(tmp_path / "packed"), "--evaluate", "valid")
    assert (status, out.strip()) == (0, str(tmp_path / "packed")), err
    card = (tmp_path / "packed" / "README.md").read_text()
    row = next(line for line in card.splitlines() if line.startswith("| exact | valid |"))
    assert " to " in row
    assert "reverse" in card
    assert f"| parameters | {parameters_of(trained / 'checkpoints/best/model.safetensors'):,} |" in card
    status, out, err = call("pull", str(tmp_path / "packed"), "--out", str(tmp_path / "pulled"))
    assert (status, out.strip()) == (0, str(tmp_path / "pulled")), err
    status, _, err = call("pack", str(trained), "--out", str(tmp_path / "p2"), "--checkpoint", "worst")
    assert status == 2
    assert "best, last or average" in err


def test_a_card_tells_a_split_of_other_data_and_one_that_is_missing() -> None:
    data = {"train": {"path": "welsh.tsv"}, "origin": {"type": "cmudict"}}
    card = str(Card("x", {"model": {}, "data": data}, "1", 3, [Score("per", 111.2, 110, 112, "test", 6405)]))
    assert "| test | cmudict: other data than the training data |" in card
    assert "**These are no scores of the task that was learned**" in card
    own = str(Card("x", {"model": {}, "data": {"train": {"path": "welsh.tsv"}}}, "1", 3))
    assert "| test | none was given |" in own
    assert "no scores of the task" not in own


def test_a_card_shows_text_as_text() -> None:
    settings = {"model": {"type": "x"}, "data": {"train": {"path": "a|b<script>`[x](y)"}}}
    card = str(Card("<b>name</b>", settings, "1", 3, [Score("bleu", 1.0, 0.5, 1.5, "test", 7, "a|b")]))
    assert "<script>" not in card
    assert "<b>" not in card
    assert "| bleu | test | 7 | 1.00 | 0.50 to 1.50 | higher | a&#124;b |" in card
