"""``python -m transduce`` is ``transduce``."""

from __future__ import annotations

import sys


def run() -> None:
    """The command ``transduce``, also where the distribution transduce-engine was installed without its server."""
    try:
        from transduce.cli.app import main
    except ModuleNotFoundError as error:
        if (error.name or "transduce").startswith("transduce"):
            raise
        sys.exit(
            f"transduce: {error.name} is not installed: pip install 'transduce-engine[serve]', or transduce itself"
        )
    main()


if __name__ == "__main__":
    run()
