# %% [markdown]
# # Finding roots
#
# The master equation has as many roots as layers, and one of them is $G$. The source's Algorithm 1
# walks down from $\lambda + ib^N$, where $G \approx 1/z$, to $\lambda + ib^{-N}$, each time to the
# nearest root. It works if the steps are short enough for the depth; nothing in it says whether
# they were.

# %%
"""Algorithm 1 of source 002 beside the compiled densities, which certify their branch."""

from __future__ import annotations

import numpy as np
import sympy
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from derivations.claims import Verdict, both, claim, close, observed
from derive import Orthogonal, activations, spectra
from numeric import spectra as compiled


def bernoulli_equation(z: complex, p: float, depth: int) -> NDArray[np.complex128]:
    """(15) for M_{D²} = p/(z − 1) and orthogonal weights at χ = 1, a polynomial in G:

    (zG − 1 + p)^L = z p^L (zG)^{L−1} (zG − 1).
    """
    left = polynomial.polypow([p - 1, z], depth)
    right = z * p**depth * polynomial.polymul(polynomial.polypow([0, z], depth - 1), [-1, z])
    return np.asarray(polynomial.polysub(left, right))


def algorithm(eigenvalue: float, p: float, depth: int, b: float, N: int) -> float:
    """ρ(λ) as Algorithm 1 finds it: 2N steps of the factor b."""
    G = 1 / complex(eigenvalue, b**N)
    for k in range(1, 2 * N + 1):
        roots = polynomial.polyroots(
            bernoulli_equation(complex(eigenvalue, b ** (N - k)), p, depth)
        )
        G = complex(roots[np.argmin(np.abs(roots - G))])
    return float(-G.imag / np.pi)


@claim("002", "Algorithm 1", "root finding from infinity, for hard tanh")
def root_finding() -> Verdict:
    r"""The density of $JJ^T$ for hard tanh, orthogonal weights and $q^* = 1/2$ at four eigenvalues
    in the bulk. With $b = 1.2$, $N = 90$ Algorithm 1 finds it for 2, 4 and 8 layers. With $b =
    2$, $N = 16$ it does for 2 layers; from 4 on it ends on roots that are not the resolvent, some
    with a negative density."""
    p = float(sympy.erf(1))
    exact, fine, coarse = [], [], []
    for depth in (2, 4, 8):
        law = spectra.jacobian(activations.hard_tanh, Orthogonal(), depth, sympy.Rational(1, 2))
        spectrum = compiled.Spectrum(law)
        places = spectrum.edges[0][1] * np.array([0.05, 0.2, 0.5, 0.9])
        exact.append(spectrum.density(places))
        fine.append([algorithm(at, p, depth, 1.2, 90) for at in places])
        coarse.append([algorithm(at, p, depth, 2, 16) for at in places])
    wrong = np.abs(np.array(coarse) / np.array(exact) - 1).max(axis=1)
    return both(
        close(np.concatenate(fine).tolist(), np.concatenate(exact).tolist(), 5, "b = 1.2, N = 90"),
        observed((wrong > 0.5).tolist() == [False, True, True], "b = 2 fails from 4 layers on"),
        detail="with b = 2 off by "
        + ", ".join(f"{100 * each:.0f} %" for each in wrong)
        + " at 2, 4 and 8 layers",
    )
