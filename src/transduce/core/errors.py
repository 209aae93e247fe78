"""The errors that a user can correct. All other errors are bugs and keep their traceback."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake that the user can correct: in a setting, a file, an option, an argument or a request.

    Its message names the mistake. The command line prints that message in place of a traceback.
    """


class DataError(UserError):
    """The data or their settings are wrong: a file, a line, a column, a value of a setting, or an id."""


class RequestError(UserError):
    """A mistake in a request to a model. A server reports it as the client's mistake (status 4xx)."""


class MissingPackageError(UserError, ImportError):
    """A package or a module is not installed. For an optional package, the message has the command that installs it."""


class MissingWingError(MissingPackageError):
    """A wing of transduce, a subject with its own folder, is not installed."""


class StoppedError(RuntimeError):
    """The work had to stop, and neither the request nor the program is wrong: training diverged, a process died."""


class BusyError(RuntimeError):
    """Too many requests wait already. The same request may succeed later; a server reports it as status 429."""


NO_MEMORY = ("not enough memory", "allocate", "out of memory", "size calculation overflowed", "Overflow when")


def out_of_memory(error: BaseException) -> bool:
    """True if an allocation has failed, on a GPU or on the processor. PyTorch raises a RuntimeError for that on the
    processor, so this reads the message.
    """
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or any(words in str(error) for words in NO_MEMORY))
    )
