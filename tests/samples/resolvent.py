"""The resolvent of JJᵀ in mpmath: slow, and by another road than the compiled densities.

M = M_JJᵀ(z) solves the master equation (source 002, eq. 14). It is followed from infinity, where
M ~ m_1/z, along a ray to z; each law enters through its own M, evaluated as it is defined.
"""

from __future__ import annotations

import mpmath
import sympy

from derive.spectra import Jacobian, Law, Rational

MAX_STEPS = 4000


def generating_function(law: Jacobian, point: complex | mpmath.mpc, digits: int) -> mpmath.mpc:
    """M_JJᵀ at a point of the upper half plane (source 002, eq. 14).

    The unknowns are M and, for each factor, x_k with M_k(x_k) = s_k M; the equation is

        log z = log((1 + M)/M) + Σ_k n_k [log x_k + log(s_k M) − log(1 + s_k M)].

    Arguments:
        law: of numbers, no symbols.
        point: z, with a positive imaginary part.
        digits: of the result.

    Raises ArithmeticError for a point that is too close to the real axis to be reached.
    """
    with mpmath.workdps(digits + 10):
        z = mpmath.mpc(point)
        path = _Path(law, z / abs(z))
        height = mpmath.log(abs(z))
        scale = mpmath.log(abs(path.mean))
        start = max(height, scale) + mpmath.log(path.spread) + 4
        path.start(start)
        at, step, steps = start, mpmath.mpf(1) / 2, 0
        while at > height:
            target = max(at - step, height)
            steps += 1
            if path.move(target):
                at, step = target, step * mpmath.mpf(1.5)
            else:
                step /= 3
            if steps > MAX_STEPS or step < mpmath.mpf(10) ** -12:
                raise ArithmeticError(f"{point} is too close to the real axis")
        path.polish(height)
        return +path.values[0]


class _Path:
    """The solution (M, x_1, …, x_K) at z = e^{height} · direction, as the height falls."""

    def __init__(self, law: Jacobian, direction: mpmath.mpc) -> None:
        self.angle = mpmath.arg(direction)
        self.factors = [each for each in law.factors if not isinstance(each.law, Rational)]
        self.rational = [each for each in law.factors if isinstance(each.law, Rational)]
        self.mean = _number(law.first_moment)
        self.spread = 1 + abs(_number(law.log_s(1)[1]))
        self.values: list[mpmath.mpc] = []

    def start(self, height: mpmath.mpf) -> None:
        """M ~ m_1/z and x_k ~ mean/(s_k M)."""
        M = self.mean * mpmath.exp(-mpmath.mpc(height, self.angle))
        self.values = [M] + [_number(f.law.mean) / (_number(f.scale) * M) for f in self.factors]
        self.polish(height)

    def move(self, height: mpmath.mpf) -> bool:
        """Solve at a new height from the last solution; False, and nothing changed, if it fails."""
        before = self.values
        try:
            self.polish(height)
        except (ValueError, ZeroDivisionError):
            self.values = before
            return False
        smooth = all(abs(a - b) < 0.7 * abs(b) for a, b in zip(self.values, before, strict=True))
        inside = all(x.imag > 0 for x in self.values[1:]) and self.values[0].imag < 0
        if not (smooth and inside):
            self.values = before
        return bool(smooth and inside)

    def polish(self, height: mpmath.mpf) -> None:
        """Newton's method on all equations at once."""
        target = mpmath.mpc(height, self.angle)
        size = len(self.values)
        for _ in range(30):
            M = self.values[0]
            residual, slope = self.master(M, self.values[1:], target)
            matrix, right = mpmath.zeros(size), mpmath.zeros(size, 1)
            matrix[0, 0], right[0] = slope, -residual
            for k, factor in enumerate(self.factors, start=1):
                x, scale = self.values[k], _number(factor.scale)
                value, derivative = _with_derivative(factor.law, x)
                matrix[0, k] = _number(factor.count) / x
                matrix[k, k], matrix[k, 0] = derivative, -scale
                right[k] = scale * M - value
            change = mpmath.lu_solve(matrix, right)
            shrink = min(1, *(0.5 * abs(v) / (abs(d) or 1) for v, d in zip(self.values, change)))  # noqa: B905
            self.values = [v + shrink * d for v, d in zip(self.values, change, strict=True)]
            if (
                max(abs(d / v) for v, d in zip(self.values, change, strict=True))
                < mpmath.eps * 1000
            ):
                return
        raise ValueError("no convergence")

    def master(
        self, M: mpmath.mpc, xs: list[mpmath.mpc], target: mpmath.mpc
    ) -> tuple[mpmath.mpc, mpmath.mpc]:
        """The equation's residual and its derivative by M alone."""
        value = mpmath.log(1 + M) - mpmath.log(M) - target
        slope = 1 / (1 + M) - 1 / M
        for factor, x in zip(self.factors, xs, strict=True):
            n, s = _number(factor.count), _number(factor.scale)
            value += n * (mpmath.log(x) + mpmath.log(s * M) - mpmath.log(1 + s * M))
            slope += n * (1 / M - s / (1 + s * M))
        for factor in self.rational:
            assert isinstance(factor.law, Rational)
            n, s = _number(factor.count), _number(factor.scale)
            value += n * mpmath.log(_number(factor.law.mean_value))
            for a, e in factor.law.powers:
                value -= n * e * mpmath.log(1 + _number(a) * s * M)
                slope -= n * e * _number(a) * s / (1 + _number(a) * s * M)
        return value, slope


def _with_derivative(law: Law, x: mpmath.mpc) -> tuple[mpmath.mpc, mpmath.mpc]:
    """M(x) and M'(x), the latter by a central difference that Newton's method forgives."""
    step = abs(x.imag) * mpmath.mpf(10) ** (-mpmath.mp.dps // 3)
    rise = law.M_at(x + step) - law.M_at(x - step)
    return law.M_at(x), rise / (2 * step)


def _number(value: sympy.Expr) -> mpmath.mpf:
    return mpmath.mpf(sympy.N(value, mpmath.mp.dps + 5))
