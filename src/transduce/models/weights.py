"""A model's parameters as a safetensors file: names, shapes and numbers, and nothing that can be executed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import can
from transduce.models.tables import TableError, Tabulated


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes a safetensors file that other users may read, as far as the umask allows; a file that is replaced keeps
    its permissions. ``metadata`` is text for the file's header. Raises OSError if it cannot.
    """
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:  # how the library reports a full disk, too
        raise OSError(f"{path} cannot be written: {error}") from error
    path.chmod(mode)  # the library lets only the owner read its files


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors by name. Raises FileNotFoundError if there is no file, and UserError if it is incomplete."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} is no whole safetensors file ({error}); copy or make it again") from error


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Each parameter by its name, without gradient, in the model's own memory. A tied parameter occurs once, by its
    first name. No buffers.
    """
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_weights(model: nn.Module, path: Path) -> None:
    save_tensors(weights(model), path)


@torch.no_grad()
def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: str, mapped: bool = False) -> None:
    """Copies ``tensors`` into the model, in place. ``origin`` names their file in errors. If ``mapped`` is True, the
    parameters use the memory of ``tensors`` instead, where the types are equal.

    Raises UserError unless all names and shapes fit, and all trained numbers are finite. Numbers must be of the same
    type, or both of a floating-point type; then they become the model's type. A parameter that is empty in the model
    takes any length. Parameters without gradient, such as counts, may have infinite numbers, but no NaN. After one of
    these errors the model is unchanged. Then raises UserError for a counted table that does not fit the others
    (models/tables.py); such a model must not be used.
    """
    own = dict(model.named_parameters())
    missing, unknown = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or unknown:
        raise UserError(
            f"{origin} does not fit this model: missing {missing[:5] or 'nothing'}, "
            f"unknown {unknown[:5] or 'nothing'}; was config.toml changed since these weights were trained?"
        )
    for name, parameter in own.items():
        _check_numbers(name, parameter, tensors[name], origin)
        if parameter.shape != tensors[name].shape and not _takes_any_length(parameter, tensors[name]):
            raise UserError(
                f"{origin}: {name} is {tuple(tensors[name].shape)}, the model expects {tuple(parameter.shape)}; "
                "was config.toml or a vocabulary changed since these weights were trained?"
            )
    for name, parameter in own.items():
        if mapped or _takes_any_length(parameter, tensors[name]):
            parameter.data = tensors[name].to(parameter)
        else:
            parameter.copy_(tensors[name])
    for place, module in reversed([*model.named_modules()]):  # inner tables before those that use them
        if can(type(module), Tabulated):
            try:
                module.check_tables()
            except TableError as error:
                within = f"in {place}, " if place else ""
                raise UserError(f"{origin}: {within}{error}; copy the file again, or count the model again") from error


def _takes_any_length(parameter: nn.Parameter, tensor: Tensor) -> bool:
    """True for a parameter without numbers that may become ``tensor``: a table of counts of any length."""
    return not parameter.numel() and parameter.shape[1:] == tensor.shape[1:]


def _check_numbers(name: str, parameter: nn.Parameter, tensor: Tensor, origin: str) -> None:
    """Raises UserError unless the tensor has the parameter's type or both are floating-point, and if a number is NaN
    or, in a parameter with gradient, infinite.
    """
    same_kind = parameter.is_floating_point() and tensor.is_floating_point()
    if tensor.dtype != parameter.dtype and not same_kind:
        raise UserError(
            f"{origin}: {name} has numbers of type {tensor.dtype}, the model expects {parameter.dtype}; copy the file "
            "again, or train again"
        )
    check_finite(name, tensor, origin, infinite=not parameter.requires_grad)


def check_finite(name: str, tensor: Tensor, origin: str, infinite: bool = False) -> None:
    """Raises UserError if a number of a tensor is NaN or, unless ``infinite`` is allowed, infinite. ``origin`` names
    the file.
    """
    broken = tensor.isnan() if infinite else ~tensor.isfinite()
    if broken.any():
        raise UserError(
            f"{origin}: {name} has {int(broken.sum()):,} numbers that are not finite (NaN or infinite), with which a "
            "model predicts nonsense; use another checkpoint, or train again"
        )


def prefixes(name: str) -> Iterator[str]:
    """Yields the dotted names of the modules that contain a parameter, outermost first, and then the parameter's own
    name.
    """
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def summarise(names: Collection[str], every: Collection[str]) -> list[str]:
    """The parameter ``names`` in short: each becomes the outermost module all of whose parameters are in ``names``, or
    stays.

    ``every`` has the names of all parameters of the model. Each module is named once, in the order of ``names``.
    """
    mixed = {prefix for name in every if name not in names for prefix in prefixes(name)}
    return list(dict.fromkeys(next(prefix for prefix in prefixes(name) if prefix not in mixed) for name in names))


def load_weights(model: nn.Module, path: Path) -> None:
    set_weights(model, load_tensors(path), str(path))
