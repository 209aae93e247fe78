"""Which errors are a user's to correct. All others are bugs and keep their traceback."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake that the user can correct: in a setting, a file, an option, an argument or a request.

    Every check in this package raises it, and its message names the thing, its value, what was expected and the fix.
    The command line prints that message in one line. A ValueError that is not a UserError is a bug.
    """


class RequestError(UserError):
    """A request that a model cannot answer as it is: a server reports it as the client's mistake (4xx)."""


class MissingPackageError(UserError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class StoppedError(RuntimeError):
    """The work had to stop, and neither the request nor the program is wrong: training diverged, a process died."""
