"""``python -m transduce`` is ``transduce``."""

from transduce.cli.app import main

if __name__ == "__main__":
    main()
