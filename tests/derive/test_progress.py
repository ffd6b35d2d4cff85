"""Word of what takes long: nothing of what is fast, one line of what is not."""

from __future__ import annotations

import io
import os
import threading
import time
from types import SimpleNamespace

import pytest

from derive.errors import InputError
from derive.work import check_time, duration, progress, quiet, telling


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def speaking(monkeypatch):
    """What is said of everything that takes a hundredth of a second."""
    monkeypatch.delenv("WICKGARTEN_QUIET")
    monkeypatch.setattr(progress, "SLOW", 0.01)
    said = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=said))
    return said


def until(said, text):
    """Wait for a text, for as long as it takes."""
    while text not in said.getvalue():
        time.sleep(0.001)


def test_what_is_fast_says_nothing(speaking, monkeypatch):
    monkeypatch.setattr(progress, "SLOW", 1e6)
    for _ in range(3):
        with telling("adding", seconds=1e5, total=3) as work:
            work.advance()
    assert not speaking.getvalue()
    assert [thread.name for thread in threading.enumerate()].count("progress") <= 1


def test_works_of_two_threads_are_both_told_of(speaking):
    def other():
        with telling("multiplying"):
            until(speaking, "multiplying, 0 s so far\n")
            until(speaking, "adding, 0 s so far\n")

    thread = threading.Thread(target=other)
    with telling("adding"):
        thread.start()
        thread.join()
    assert [each.name for each in threading.enumerate()].count("progress") == 1


def test_work_that_begins_after_a_pause_is_told_of(speaking):
    """The thread that looks at the clock sleeps for good in between."""
    for what in ("adding", "multiplying", "dividing"):
        with telling(what):
            until(speaking, f"{what}, 0 s so far\n")
        time.sleep(0.03)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX's")
def test_a_forked_process_has_a_thread_of_its_own(speaking):
    with telling("adding"):
        until(speaking, "adding")
    child = os.fork()
    if not child:
        with telling("multiplying"):
            until(speaking, "multiplying")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_an_estimate_is_told_before_the_work(speaking):
    with telling("pairing 8 points", seconds=40):
        assert speaking.getvalue() == "pairing 8 points, about 40 s\n"


def test_the_innermost_work_speaks_and_counts_its_steps(speaking):
    with telling("deriving"), telling("averaging", total=8) as work:
        work.advance(2)
        until(speaking, "averaging, 2 of 8, 0 s so far, about 0 s left\n")
    assert "deriving" not in speaking.getvalue()


def test_a_terminals_line_is_gone_at_the_end(speaking, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal))

    def interrupted():
        with telling("compiling"):
            until(terminal, "compiling")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert terminal.getvalue().endswith("\r\033[K")
    assert "\n" not in terminal.getvalue()


def test_quiet_is_quiet(speaking, monkeypatch):
    with quiet(), telling("loud", seconds=1e3):
        pass
    with telling("loud", seconds=0.0), quiet(), telling("louder", seconds=1e3):
        pass
    monkeypatch.setenv("WICKGARTEN_QUIET", "1")
    with telling("loud", seconds=1e3):
        pass
    assert "louder" not in speaking.getvalue()
    assert "about" not in speaking.getvalue()


def test_what_takes_longer_than_a_day_is_refused():
    check_time("depth", 5, 86_400, "5 layers")
    with pytest.raises(InputError, match="depth: got 6; wanted less: 6 layers would take 3 days"):
        check_time("depth", 6, 3 * 86_400, "6 layers")
    with pytest.raises(InputError, match=r"would take 10\^392 years"):
        check_time("depth", 6, 10**400, "6 layers")


def test_durations_are_in_words():
    spans = {3.2: "3 s", 90: "90 s", 3600: "60 min", 10_800: "3 h", 10**6: "11 days"}
    assert {each: duration(each) for each in spans} == spans
