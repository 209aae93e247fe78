"""Signals end training after a checkpoint; those that the process ignores stay ignored."""

from __future__ import annotations

import os
import signal

import pytest

from transduce.training.interruption import Interruption, raise_again


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_is_noted_and_its_handler_comes_back(name: str) -> None:
    before = signal.getsignal(signal.Signals[name])
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.Signals[name])
        assert interruption.signal == name
    assert signal.getsignal(signal.Signals[name]) == before


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_a_signal_that_is_ignored_stays_ignored(name: str) -> None:
    """A process may ignore signals: a shell's background job, or a process under nohup."""
    before = signal.signal(signal.Signals[name], signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.Signals[name])
            assert interruption.signal is None
    finally:
        signal.signal(signal.Signals[name], before)


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_program_ends_as_the_signal_would_have_it(name: str, status: int) -> None:
    with pytest.raises(SystemExit) as caught:
        raise_again(name)
    assert caught.value.code == status


def test_an_interrupt_from_the_keyboard_is_one_again() -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_again("SIGINT")


@pytest.mark.parametrize("reason", [None, "budget", "patience", "ValueError"])
def test_other_reasons_end_nothing(reason: str | None) -> None:
    raise_again(reason)
