"""Marian and OPUS-MT checkpoints in their real formats, with random weights: equal logits and beams, or a refusal."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.testing import assert_close

import transduce
from selection import mostly_slow
from transduce.cli.app import main
from transduce.core.errors import MissingPackageError, UserError
from transduce.core.types import BOS, EOS, SPECIALS, UNK, Padded
from transduce.data.corpora import DataError
from transduce.data.tokenizers import storage
from transduce.wings.documents.npz_arrays import read_npz
from transduce.wings.engines.foreign import marian
from transduce.wings.engines.foreign.original import Original
from transduce.wings.engines.importing import hugging_face, marian_checkpoint
from transduce.wings.engines.importing import run as importing
from transduce.wings.engines.importing.agreement import logits
from transduce.wings.engines.importing.building import build
from transduce.wings.engines.importing.run import import_run
from transduce.wings.engines.sentencepiece import SentencePiece, SentencePieceTokenizer

TEXTS = ["ein hund läuft", "eine katze schläft", "zwei hunde spielen im schnee", "der mann liest ein buch"]
LANGUAGE = ">>deu<<"
LONGEST = 30
SEEDS = {"untied": 5}  # seeds of random weights whose outputs often end; otherwise 2


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small SentencePiece model."""
    trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
    path = tmp_path_factory.mktemp("sentencepiece") / "source.spm"
    with path.open("wb") as file:
        trainer.train(sentence_iterator=iter(TEXTS), model_writer=file, vocab_size=32, minloglevel=3)
    return path


def tokens_of(model: Path) -> list[str]:
    """The tokens of a vocabulary in the order of OPUS-MT: </s>, <unk>, pieces, a language, and padding at the end."""
    pieces = SentencePiece(model).learn(()).entries[len(SPECIALS) :]
    return ["</s>", "<unk>", *pieces[::-1], LANGUAGE, "<pad>"]


def write_texts(folder: Path, model: Path, target: list[str] | None = None) -> int:
    folder.mkdir()
    for side in ("source", "target"):
        shutil.copy(model, folder / f"{side}.spm")
    for name, tokens in (("vocab.json", tokens_of(model)), ("target_vocab.json", target)):
        if tokens is not None:
            (folder / name).write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    return len(tokens_of(model))


def opus(folder: Path, model: Path, seed: int = 0, target: list[str] | None = None, **changes: Any) -> Any:
    """Writes a checkpoint in OPUS-MT's format with random weights. Returns the model of transformers."""
    from transformers import MarianConfig, MarianMTModel

    size = write_texts(folder, model, target)
    options = {"activation_function": "swish", "scale_embedding": True, **changes}
    settings = MarianConfig(
        vocab_size=size,
        decoder_vocab_size=size,
        d_model=16,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=20,
        max_position_embeddings=64,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
        **options,
    )
    theirs = randomised(MarianMTModel(settings), seed)
    rules = {"num_beams": 3, "max_length": LONGEST + 1, "bad_words_ids": [[size - 1]], "renormalize_logits": True}
    theirs.generation_config.update(**rules)
    theirs.save_pretrained(folder)
    return theirs


def randomised(theirs: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "layer_norm.weight" in name:
                parameter.uniform_(0.7, 1.3)
            elif "embed_positions" not in name:
                parameter.uniform_(-0.6, 0.6)
        theirs.model.decoder.layers[-1].final_layer_norm.weight.mul_(3)  # certain enough for outputs that vary
        theirs.final_logits_bias.uniform_(-0.8, 0.8)
        theirs.final_logits_bias[0, 0] += 4  # some outputs are short
    return theirs.eval()


KINDS: dict[str, dict[str, Any]] = {
    "OPUS-MT": {},
    "relu, unscaled": {"activation_function": "relu", "scale_embedding": False},
    "apart": {"share_encoder_decoder_embeddings": False},
    "untied": {"tie_word_embeddings": False, "activation_function": "gelu"},
}


@pytest.mark.parametrize("kind", mostly_slow(KINDS, fast=["OPUS-MT"]))
def test_logits_and_beams_are_the_originals(kind: str, model: Path, tmp_path: Path) -> None:
    target = [*tokens_of(model)[:2], *tokens_of(model)[-2:1:-1], "<pad>"] if kind == "apart" else None
    theirs = opus(tmp_path / "opus", model, seed=SEEDS.get(kind, 2), target=target, **KINDS[kind])
    done = import_run(tmp_path / "opus", tmp_path / "run")
    assert done.agreement is not None
    assert done.agreement.largest < 1e-4
    assert done.agreement.magnitude > 1
    ours = transduce.load(tmp_path / "run", settings={"search.nbest": 3, "search.unknown": True})
    generator = random.Random(1)
    texts = [*TEXTS, *("".join(generator.choices("abcdehnistuz ", k=9)) for _ in range(40))]
    expected = target or tokens_of(model)
    source = ours.padded(ours.source_tokenizer.encode(texts), torch.long)
    names = [ours.source_tokenizer.tokens(row[:length]) for row, length in zip(*arrays(source), strict=True)]
    theirs_ids = Padded.of([[tokens_of(model).index(name) for name in row] for row in names])
    found = theirs.generate(
        theirs_ids.values, attention_mask=theirs_ids.mask.long(), num_return_sequences=3, early_stopping=False
    )
    kept = [row for row in found.tolist() if row.count(0)]
    assert len(kept) == 3 * len(texts)
    beams = [[expected[i] for i in row[1 : row.index(0)]] for row in kept]
    mine = [list(output.tokens[:-1]) for outputs in ours.predict(texts) for output in outputs]
    pairs = [(mine[place : place + 3], beams[place : place + 3]) for place in range(0, len(mine), 3)]
    # the longest outputs are left out: there Hugging Face gives the forced end the score 0
    ended = [pair for pair in pairs if max(len(row) for rows in pair for row in rows) < LONGEST - 1]
    assert len(ended) >= 8
    assert all(one == two for one, two in ended)


def arrays(rows: Padded) -> tuple[list[Any], list[int]]:
    return rows.values.tolist(), rows.lengths.tolist()


def test_without_renormalisation_padding_keeps_its_probability(model: Path, tmp_path: Path) -> None:
    opus(tmp_path / "opus", model)
    (tmp_path / "opus" / "generation_config.json").unlink()
    built = build(hugging_face.read(tmp_path / "opus"))
    ours, theirs = logits(built, Padded.of([[5, 6, EOS]]), torch.tensor([[BOS, 7]]), Original(tmp_path / "opus"))
    assert ours.shape[-1] == len(tokens_of(model))
    assert_close(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Recommended")  # sacremoses, which the tokenizer no longer uses
def test_ids_are_those_of_hugging_faces_tokenizer(model: Path, tmp_path: Path) -> None:
    from transformers import MarianTokenizer

    opus(tmp_path / "opus", model)
    (tmp_path / "opus" / "tokenizer_config.json").write_text('{"source_lang": "de", "target_lang": "en"}')
    theirs: Any = MarianTokenizer.from_pretrained(tmp_path / "opus", local_files_only=True)
    ours = build(hugging_face.read(tmp_path / "opus")).source
    for text in [*TEXTS, f"{LANGUAGE} ein hund", "Hund ☃ x", "", "  zwei  "]:
        ids = ours.tokenizer.encode([text])[0]
        assert [ours.rows[i] for i in ids] == theirs(text).input_ids
        if UNK not in ids:
            assert ours.tokenizer.decode(ids) == theirs.decode(theirs(text).input_ids, skip_special_tokens=True)


# ------------------------------------------------------------------- .npz


def marian_npz(folder: Path, model: Path, seed: int = 0) -> Any:
    """Writes a checkpoint in Marian's format. Returns Hugging Face's model with Marian's positions and norms."""
    theirs = opus(folder / "hugging", model, seed) if folder.mkdir() is None else None
    assert theirs is not None
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    state["model.shared.weight"][-1] = 0
    state["final_logits_bias"][0, -1] = 0
    heads = {
        "type": "transformer",
        "dim-emb": 16,
        "enc-depth": 2,
        "dec-depth": 3,
        "transformer-heads": 2,
        "transformer-ffn-activation": "swish",
        "transformer-dim-ffn": 20,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "tied-embeddings-all": True,
    }
    text = yaml.safe_dump(heads).encode() + b"\0"
    arrays: dict[str, Any] = {"special:model.yml": np.frombuffer(text, dtype=np.int8)}
    arrays["Wemb"] = state["model.shared.weight"][:-1]
    arrays["decoder_ff_logit_out_b"] = state["final_logits_bias"][:, :-1]
    for side, count in (("encoder", 2), ("decoder", 3)):
        for number in range(count):
            theirs_name, ours = f"model.{side}.layers.{number}.", f"{side}_l{number + 1}_"
            blocks = [("self_attn", "self")] + ([("encoder_attn", "context")] if side == "decoder" else [])
            for block, short in blocks:
                for letter, name in zip("qkvo", ("q", "k", "v", "out"), strict=True):
                    arrays[f"{ours}{short}_W{letter}"] = state[f"{theirs_name}{block}.{name}_proj.weight"].T
                    arrays[f"{ours}{short}_b{letter}"] = state[f"{theirs_name}{block}.{name}_proj.bias"][None]
                arrays[f"{ours}{short}_Wo_ln_scale"] = state[f"{theirs_name}{block}_layer_norm.weight"][None]
                arrays[f"{ours}{short}_Wo_ln_bias"] = state[f"{theirs_name}{block}_layer_norm.bias"][None]
            for digit in "12":
                arrays[f"{ours}ffn_W{digit}"] = state[f"{theirs_name}fc{digit}.weight"].T
                arrays[f"{ours}ffn_b{digit}"] = state[f"{theirs_name}fc{digit}.bias"][None]
            arrays[f"{ours}ffn_ffn_ln_scale"] = state[f"{theirs_name}final_layer_norm.weight"][None]
            arrays[f"{ours}ffn_ffn_ln_bias"] = state[f"{theirs_name}final_layer_norm.bias"][None]
    np.savez(folder / "model.npz", **arrays)
    tokens = tokens_of(model)[:-1]
    (folder / "opus.vocab.yml").write_text(
        yaml.safe_dump({token: place for place, token in enumerate(tokens)}, allow_unicode=True)
    )
    for side in ("source", "target"):
        shutil.copy(model, folder / f"{side}.spm")
    return theirs


def marian_positions(positions: int, width: int) -> torch.Tensor:
    """sin(p / 10000^(i / (width / 2 - 1))) for each i, then the cosines, one number at a time."""
    angles = [[p / 10000 ** (i / (width // 2 - 1)) for i in range(width // 2)] for p in range(positions)]
    table = torch.tensor(angles, dtype=torch.float64)
    return torch.cat([table.sin(), table.cos()], 1).float()


@pytest.fixture
def npz_folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Any]:
    from transformers import MarianConfig

    real = MarianConfig.__init__

    def equal_sides(self: Any, **options: Any) -> None:  # Marian has one setting for both sides
        real(self, **{**options, "encoder_attention_heads": 2, "encoder_ffn_dim": 20})

    monkeypatch.setattr(MarianConfig, "__init__", equal_sides)
    return tmp_path / "marian", marian_npz(tmp_path / "marian", model)


def test_a_checkpoint_of_marian_itself(npz_folder: tuple[Path, Any], tmp_path: Path) -> None:
    folder, theirs = npz_folder
    with torch.no_grad():
        theirs.model.shared.weight[-1] = 0
        theirs.final_logits_bias[0, -1] = 0
        for stack in (theirs.model.encoder, theirs.model.decoder):
            stack.embed_positions.weight.data = marian_positions(64, 16)
        for module in theirs.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
    done = import_run(folder, tmp_path / "run")
    assert done.agreement is not None
    assert done.agreement.largest < 1e-4
    built = build(marian_checkpoint.read(folder))
    source, target = Padded.of([[5, 6, 9, EOS], [7, EOS]]), torch.tensor([[BOS, 7, 8], [BOS, 30, 11]])
    original = Original.__new__(Original)
    original.model = theirs
    ours, expected = logits(built, source, target, original)
    assert ours.shape[-1] == theirs.config.vocab_size - 1  # all but padding
    assert_close(ours, expected, rtol=0, atol=1e-4)
    assert transduce.load(tmp_path / "run").settings["search"]["size"] == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transformer-postprocess": "da"}, "transformer-postprocess = 'da'"),
        ({"type": "s2s"}, "type = 's2s'"),
        ({"dim-emb": None}, "dim-emb"),
    ],
)
def test_other_models_of_marian_are_refused(
    change: dict[str, Any], message: str, npz_folder: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, _ = npz_folder
    with np.load(folder / "model.npz") as file:
        arrays = dict(file)
    settings = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0").decode())
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(settings | change).encode(), dtype=np.int8)
    np.savez(folder / "model.npz", **arrays)
    with pytest.raises(UserError, match=message):
        import_run(folder, tmp_path / "run")


def test_files_of_another_kind_are_refused(npz_folder: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = npz_folder
    (folder / "decoder.yml").write_text("- beam-size\n")
    with pytest.raises(UserError, match=r"decoder\.yml is no table of settings"):
        import_run(folder, tmp_path / "run")
    (folder / "decoder.yml").write_text("")
    arrays = read_npz(folder / "model.npz")
    np.savez(folder / "model.npz", **arrays | {"Wemb": arrays["Wemb"].astype(str)})
    with pytest.raises(UserError, match="no matrix Wemb of real numbers"):
        import_run(folder, tmp_path / "run")


# ---------------------------------------------------------------- refusals


class Dangerous:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("executed"),)


def test_a_pickle_with_code_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opus(tmp_path / "opus", model)
    (tmp_path / "opus" / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Dangerous()}, tmp_path / "opus" / "pytorch_model.bin")
    with pytest.raises(UserError, match="can run code"):
        import_run(tmp_path / "opus", tmp_path / "run")
    np.savez(tmp_path / "x.npz", np.array([Dangerous()], dtype=object))
    with pytest.raises(UserError, match=r"not an \.npz file that can be read: Object arrays"):
        read_npz(tmp_path / "x.npz")
    assert not Path("executed").exists()
    assert not (tmp_path / "run").exists()
    for wrong in (1, torch.empty(2, device="meta"), torch.eye(2).to_sparse()):
        torch.save({"a": wrong}, tmp_path / "opus" / "pytorch_model.bin")
        with pytest.raises(UserError, match="table of dense tensors"):
            hugging_face.read_tensors(tmp_path / "opus")


def test_a_pickle_of_tensors_is_read(model: Path, tmp_path: Path) -> None:
    theirs = opus(tmp_path / "opus", model)
    (tmp_path / "opus" / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "opus" / "pytorch_model.bin")
    done = import_run(tmp_path / "opus", tmp_path / "run")
    assert done.agreement is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mbart"}, "model_type = 'mbart'"),
        ({"activation_function": "tanh"}, "activation_function = 'tanh'"),
        ({"normalize_before": True}, "normalize_before = True"),
        ({"encoder_layers": 10**9}, "encoder_layers"),
        ({"encoder_layers": 3}, "no parameter model.encoder.layers.2"),
        ({"encoder_ffn_dim": 10**9}, "do not belong together"),
        ({"d_model": 32}, "of width 32 were expected|width 32 was expected"),
        ({"pad_token_id": 900}, "pad_token_id = 900"),
        ({"decoder_attention_heads": 3}, "heads"),
        ({"num_beams": "many"}, "generation_config.json: num_beams = 'many': a whole number from 1"),
        ({"max_length": -5}, "max_length = '-5': a whole number"),
        ({"dropout": [0.1]}, r"dropout = '\[0.1\]': a finite number"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings = 'yes': true or false"),
        ({"activation_function": ["relu"]}, "activation_function = .*: a word was expected"),
        ({"bad_words_ids": 3}, "bad_words_ids = '3': a list"),
    ],
)
def test_other_configurations_are_refused(change: dict[str, Any], message: str, model: Path, tmp_path: Path) -> None:
    opus(tmp_path / "opus", model)
    for name in ("config.json", "generation_config.json"):  # the latter wins, where both have a key
        path = tmp_path / "opus" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=message):
        import_run(tmp_path / "opus", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_wrong_import_is_not_written(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opus(tmp_path / "opus", model)
    monkeypatch.setattr("transduce.wings.engines.importing.building.feature_order", torch.arange)
    with pytest.raises(UserError, match="does not compute what the original does"):
        import_run(tmp_path / "opus", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_transformers_the_import_says_so(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opus(tmp_path / "opus", model)

    def missing(*_: Any) -> None:
        raise MissingPackageError("transformers is not installed")

    monkeypatch.setattr(importing, "Original", missing)
    done = import_run(tmp_path / "opus", tmp_path / "run")
    assert done.agreement is None
    assert "not compared" in done.notes[-1]
    with pytest.raises(UserError, match="not empty"):
        import_run(tmp_path / "opus", tmp_path / "run")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["dict.de.txt", "model.pt"], "fairseq"),
        (["model.txt"], "no checkpoint that can be imported"),
    ],
)
def test_other_toolkits_are_refused(files: list[str], message: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=message):
        import_run(tmp_path, tmp_path / "run")


def test_every_missing_file_is_named(model: Path, tmp_path: Path) -> None:
    opus(tmp_path / "whole", model)
    for name in ("source.spm", "vocab.json", "model.safetensors"):
        folder = tmp_path / name
        shutil.copytree(tmp_path / "whole", folder)
        (folder / name).unlink()
        with pytest.raises(FileNotFoundError, match=name):
            import_run(folder, tmp_path / "run")


# --------------------------------------------------------------- tokenizers


def test_sentencepiece_keeps_its_laws(model: Path, tmp_path: Path) -> None:
    tokenizer = SentencePiece(model).learn(())
    for text in ["ein hund", "  zwei   hunde ", "ﬁ ①", "", "</s> <s>", "a\nb"]:
        ids = tokenizer.encode([text])[0]
        assert ids[-1] == EOS
        assert len(tokenizer.spans(text)) == len(ids)
        if UNK not in ids:
            assert tokenizer.decode(ids) == tokenizer.normalize(text)
    tokenizer.save(tmp_path / "source.json")
    again: Any = storage.load(tmp_path / "source.json")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert tokenizer.decode([UNK, 4]) != tokenizer.decode([4])
    with pytest.raises(DataError, match="surrogate"):
        tokenizer.encode(["\ud800"])
    with pytest.raises(DataError, match="cannot be extended"):
        tokenizer.extended(tokenizer)


def test_spans_are_characters_of_the_text(model: Path) -> None:
    tokenizer = SentencePiece(model).learn(())
    text = "hund ☃ läuft"
    for name, (start, end) in zip(tokenizer.tokens(tokenizer.encode([text])[0]), tokenizer.spans(text), strict=True):
        if name not in SPECIALS:
            assert text[start:end].strip() == name.strip("▁")


def test_a_language_token_is_one_id(model: Path) -> None:
    tokenizer = SentencePieceTokenizer(model.read_bytes(), [*SentencePiece(model).learn(()).entries[4:], LANGUAGE])
    row = tokenizer.encode([f"{LANGUAGE} ein hund"])[0]
    assert row == [len(tokenizer) - 1, *tokenizer.encode([" ein hund"])[0]]
    assert tokenizer.spans(f"{LANGUAGE} ein hund")[0] == (0, len(LANGUAGE))
    assert len(tokenizer) - 1 not in tokenizer.encode([f"ein {LANGUAGE}", ">>fra<< ein"])[0]


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_other_files_are_no_models(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.spm").write_bytes(content)
    with pytest.raises(DataError, match="no SentencePiece model"):
        SentencePiece(tmp_path / "x.spm").learn(())
    with pytest.raises(DataError, match="cannot be read"):
        SentencePiece(tmp_path / "y.spm").learn(())


@pytest.mark.parametrize("text", ["[]", '{"a": 0, "b": 2}', '{"a": "x"}', "[" * 100_000])
def test_other_files_are_no_vocabularies(text: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(text)
    with pytest.raises(DataError, match="no vocabulary in JSON"):
        SentencePiece(model, tmp_path / "vocab.json").learn(())


def test_the_unit_notices_another_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "a": 1}')
    before = repr(SentencePiece(model, tmp_path / "vocab.json"))
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "b": 1}')
    assert repr(SentencePiece(model, tmp_path / "vocab.json")) != before


def test_parts_cover_every_parameter(model: Path, tmp_path: Path) -> None:
    theirs = opus(tmp_path / "opus", model)
    named = {name for part in marian.parts({"encoder": 2, "decoder": 3}) for name in part.theirs}
    assert named == {name for name, _ in theirs.named_parameters() if "embed" not in name and "shared" not in name}


def test_the_command_line_imports(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opus(tmp_path / "opus", model)
    monkeypatch.setattr("sys.argv", ["transduce", "import", str(tmp_path / "opus"), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "logits of up to" in capsys.readouterr().out
    assert (tmp_path / "run" / "checkpoints" / "best" / "model.safetensors").exists()
