"""An integral in balls that is stopped on its way says so; it never has another value."""

from __future__ import annotations

import signal
import sys
from itertools import count

import numpy as np
import pytest
from flint import acb, arb

from derive import Network, activations
from derive.arithmetic import balls
from numeric import flow


def integrand(x: acb, analytic: bool) -> acb:
    total = acb(1)
    for k in range(5):
        total = total * x + arb(k) * 3 + x.exp() ** 2 / (1 + x * x)
    return total


@pytest.mark.parametrize("place", [1, 2, 5, 20])
def test_an_exception_in_the_function_is_raised(place: int) -> None:
    calls = count(1)

    def stopped(x: acb, analytic: bool) -> acb:
        if next(calls) == place:
            raise KeyboardInterrupt
        return integrand(x, analytic)

    with pytest.raises(KeyboardInterrupt):
        balls.integral(stopped, acb(0), acb(1))
    assert next(calls) > place


def test_an_exception_that_was_passed_over_is_raised() -> None:
    """As that of a signal which is handled before the function's first line: here one that C code
    leaves set, its own check being what says so."""
    calls = count(1)

    def broken(x: acb, analytic: bool) -> acb:
        if next(calls) == 3:
            acb.integral(raising, acb(0), acb(1))
        return integrand(x, analytic)

    def raising(x: acb, analytic: bool) -> acb:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        balls.integral(broken, acb(0), acb(1))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_leaves_no_wrong_value() -> None:
    def stop(*_: object) -> None:
        raise TimeoutError

    exact = balls.integral(integrand, acb(0), acb(1)).real
    before = signal.signal(signal.SIGALRM, stop)
    stopped = 0
    try:
        for part in np.random.default_rng(1).random(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + 5e-4 * part)
                value = balls.integral(integrand, acb(0), acb(1)).real
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert value.overlaps(exact)
                assert value.rad() < 1e-10
            except TimeoutError:
                stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert stopped


def test_a_flow_after_one_that_was_interrupted_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    net, inputs = Network(activations.hard_tanh), [[1.0, 0.5], [0.3, 0.8]]
    exact = flow(net, inputs, 3, ["V"], precision=18)
    calls, given = count(1), balls.integral

    def interrupted(function: balls.Ball, *ends: acb, **limits: object) -> acb:
        def values(x: acb, analytic: bool) -> acb:
            if next(calls) == 700:
                raise KeyboardInterrupt
            return function(x, analytic)

        return given(values, *ends, **limits)

    with monkeypatch.context() as patched:
        patched.setattr(balls, "integral", interrupted)
        with pytest.raises(KeyboardInterrupt):
            flow(net, inputs, 3, ["V"], precision=18)
    assert flow(net, inputs, 3, ["V"], precision=18).identical(exact)
