"""``transduce doctor``: the abilities of this machine, and the packages that are missing."""

from __future__ import annotations

from collections.abc import Iterator


def doctor() -> None:
    """Show what this machine can do, and what is missing.

    It tells the processor, the speed of products, the compiled library, the disk and the GPU. It lists the packages of
    each extra that are not installed, with the command that installs them.

    \b
    Examples:
      transduce doctor
    """
    for name, value in facts():
        print(f"{name:<12}{value}")
    print()
    lacking = extras()
    for extra, missing in lacking.items():
        if missing:
            print(f"{extra:<12}lacks {', '.join(missing)}: pip install 'transduce[{extra}]'")
    complete = [extra for extra, missing in lacking.items() if not missing]
    print(f"Extras that are complete: {', '.join(complete) or 'none'}")


def facts() -> Iterator[tuple[str, str]]:
    """Yields the name and the value of each fact about this machine. Takes about two seconds."""
    import os
    import platform
    import shutil

    import torch

    import transduce
    from transduce.compute import library
    from transduce.core.errors import MissingPackageError
    from transduce.wings.records.machine import Machine

    machine = Machine.here()
    yield "transduce", f"{transduce.__version__}, Python {platform.python_version()}, torch {torch.__version__}"
    yield "system", platform.platform()
    yield "processor", f"{machine.processor}, {machine.cores} cores: {' '.join(machine.instructions) or 'no AVX2'}"
    busy = "" if machine.load is None or machine.load < 1 else f"; load {machine.load}, so other processes are busy"
    yield (
        "products",
        f"{machine.float32_gflops:,.0f} GFLOP/s in float32, {machine.bfloat16_gflops:,.0f} in bfloat16, "
        f"{machine.threads} threads{busy}",
    )
    if hasattr(os, "sysconf"):
        size = os.sysconf("SC_PAGE_SIZE")
        free, whole = (size * os.sysconf(name) / 2**30 for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"))
        yield "memory", f"{free:.1f} of {whole:.1f} GiB unused"
    yield "disk", f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free in this folder"
    try:
        yield "kernels", f"compiled: {library.choose(library.built()).name.partition('.')[0].removeprefix('_')}"
    except MissingPackageError as error:
        yield "kernels", str(error)
    yield "GPU", torch.cuda.get_device_name() if torch.cuda.is_available() else "none that PyTorch can use"


def extras() -> dict[str, list[str]]:
    """The packages that each extra lacks here, by the extra's name. Empty if the package is not installed, so that
    nothing says what its extras are.
    """
    import re
    from importlib import metadata

    found = dict[str, list[str]]()
    try:
        requirements = metadata.requires("transduce") or []
    except metadata.PackageNotFoundError:
        return found
    for requirement in requirements:
        package, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"]([\w-]+)", requirement)
        if package is None or extra is None or package[0] == "transduce" or extra[1] in ("dev", "benchmarks"):
            continue
        missing = found.setdefault(extra[1], [])
        try:
            metadata.version(package[0])
        except metadata.PackageNotFoundError:
            missing.append(package[0])
    return found
