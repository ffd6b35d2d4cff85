"""Kernels that fall like 1/log ℓ: against the flow, and B and m against the averages themselves."""

from __future__ import annotations

import mpmath
import pytest
import sympy

from derive import Network, criticality
from derive import activations as a
from derive.depth import logarithmic_kernel
from derive.errors import InputError
from derive.symbols import ell
from numeric import flow

BENT = a.from_expr("Min(z, z/2 + 3/4)")


@pytest.mark.parametrize(
    ("activation", "start"),
    [(a.hard_tanh, (0.6, 0.7)), (a.shifted_relu, (0.3, 0.3)), (BENT, (1, 1))],
    ids=str,
)
def test_the_flow_at_depth_3000(activation, start):
    """Within its error, without and with the flow's own shift; the error is no empty one."""
    solved = logarithmic_kernel(activation)
    table = flow(Network.critical(activation), start, 3000, ["K"])["K"]
    shift = solved.matched(table.sel(layer=500).item(), 500)
    for layer in (1000, 3000):
        value = table.sel(layer=layer).item()
        for given in (0.0, shift):
            miss = abs(solved.evaluate(layer, given) - value)
            assert miss < solved.error(layer, given) < 0.02 * value
            assert miss > solved.error(layer, given) / 1000


@pytest.mark.parametrize("activation", [a.hard_tanh, a.shifted_relu, BENT], ids=str)
def test_one_step_of_u(activation):
    """u' − u = B √u e^{−u} (1 + (½ − m)/u + O(u^{−2})) at small K, at 60 digits."""
    solved, found = logarithmic_kernel(activation), criticality(activation)
    with mpmath.workdps(60):
        d, B, m = (
            mpmath.mpf(sympy.N(each, 60))
            for each in (solved.distance, solved.rate, solved.correction)
        )
        for u in (30, 60):
            K = d**2 / (2 * mpmath.mpf(u))
            moved = found.kernel_map(K, found.critical[1], digits=55)
            step = d**2 / (2 * moved) - u
            ratio = step / (B * mpmath.sqrt(u) * mpmath.exp(-u))
            assert abs(ratio - 1 - (mpmath.mpf(1) / 2 - m) / u) < mpmath.mpf(30) / u**2


def test_texts_and_refusals():
    solved = logarithmic_kernel("hard_tanh")
    assert solved.leading == 1 / (2 * sympy.log(ell))
    assert str(solved).startswith("hard_tanh: K = 1/2/u, u = log(2/sqrt(pi)*ℓ) + log(u)/2 - 3/2/u")
    assert solved._repr_latex_().startswith("$")
    for other in ("tanh", "relu", "gelu", "sigmoid"):
        with pytest.raises(InputError, match="linear around 0"):
            logarithmic_kernel(other)
    with pytest.raises(InputError, match="deeper"):
        solved.evaluate(3)
    with pytest.raises(InputError, match="between 0 and"):
        solved.matched(2.0, 5)
