"""The command `wickgarten spectrum`: densities of JJᵀ at a depth, or of a universal limit."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from derive.errors import InputError

from . import options, plots, rows

if TYPE_CHECKING:
    from numeric.spectra import Spectrum

WEIGHTS = ("orthogonal", "gaussian", "low-rank-orthogonal", "low-rank-gaussian", "truncated")
LIMITS = ("bernoulli", "smooth", "leaky")
_PARAMETERS = ("gamma", "ratio")
_DEFAULTS = {"activation": "hard_tanh", "weights": "orthogonal", "depth": 16}


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument("--activation", metavar="NAME", help="φ; hard_tanh by default")
    command.add_argument("--weights", choices=WEIGHTS, help="the ensemble; orthogonal by default")
    command.add_argument("--depth", type=int, help="factors D W of the Jacobian; 16 by default")
    options.one_layer_argument(command)
    command.add_argument("--C_b", metavar="C_b", help="bias variance, of another layer than dense")
    command.add_argument(
        "--q-star", metavar="Q", help="variance of the preactivations; 1/10 if not given"
    )
    command.add_argument("--gamma", metavar="G", help="rank over width, of low-rank weights")
    command.add_argument(
        "--ratio", metavar="R", help="of truncated weights; or the limit's, if leaky"
    )
    command.add_argument("--C_W", metavar="C_W", help="weight variance; critical if left out")
    command.add_argument("--limit", choices=LIMITS, help="a universal law instead of a network")
    command.add_argument("--sigma0", metavar="S", help="its standard deviation; or solves for q*")
    command.add_argument("--moments", type=int, default=4, help="how many to print")
    command.add_argument(
        "--points", type=int, default=0, help="print so many points of the density"
    )
    command.add_argument("--precision", type=int, help="decimal digits; a float's by default")
    plots.argument(command, "the singular values' density")
    rows.arguments(command)


def run(given: argparse.Namespace) -> int:
    """Print edges, atoms, moments and the self-check; 0."""
    if given.moments < 1 or given.moments > 16:
        raise InputError("--moments", given.moments, "1 to 16")
    if given.points < 0 or given.points > 10**6:
        raise InputError("--points", given.points, "0 to 1000000")
    title, spectrum = _spectrum(given)
    if given.precision is not None:
        return _to_digits(given, title, spectrum)
    if not spectrum.has_density and (given.points or given.plot):
        spectrum.density(1.0)  # which says why there is none
    atoms, exact = spectrum.atoms, spectrum.moments(given.moments)
    edges = spectrum.edges if spectrum.has_density else []
    print(title)
    for low, high in edges:
        print(f"density of JJ' on {low:.12g} ... {high:.12g}")
    for at, mass in atoms.items():
        print(f"atom at {at:.12g}, mass {mass:.12g}")
    for k, value in enumerate(exact, start=1):
        print(f"m_{k} = {value:.12g}")
    if spectrum.has_density:
        integrated = spectrum.integrated_moments(given.moments)
        worst = max(abs(integrated[1:] / exact - 1))
        print(f"check: total mass 1 {integrated[0] - 1:+.1e}, moments integrated to {worst:.1e}")
    curve = list(zip(*spectrum.curve(given.points), strict=True)) if given.points else []
    for at, density in curve:
        print(f"{at:.12g} {density:.12g}")
    found: list[tuple[rows.Cell, ...]] = [("edge", float(e), "") for pair in edges for e in pair]
    found += [("atom", float(at), float(mass)) for at, mass in atoms.items()]
    found += [("moment", k, float(value)) for k, value in enumerate(exact, start=1)]
    found += [("density", float(at), float(value)) for at, value in curve]
    rows.are_written(given, ("quantity", "at", "value"), found)
    if given.plot is not None:
        plots.save(spectrum.plot(title), given.plot)
    return 0


def _to_digits(given: argparse.Namespace, title: str, spectrum: Spectrum) -> int:
    """Print the same to as many digits as asked, each number with a bound of its error; 0."""
    lam = spectrum.curve(given.points)[0] ** 2 if given.points else ()
    table = spectrum.table(lam, given.moments, precision=given.precision)
    found: list[tuple[rows.Cell, ...]] = []
    print(title)
    for name, label in (
        ("edges", "end of a density of JJ'"),
        ("atoms", "atom at"),
        ("masses", "mass"),
        ("moments", "moment"),
        ("density", "density of JJ'"),
    ):
        if name in table:
            errors = table[f"{name}_error"].to_numpy().ravel()
            for value, error in zip(table[name].to_numpy().ravel(), errors, strict=True):
                print(f"{label} {value} +- {error:.1e}")
                found.append((name, str(value), float(error)))
    rows.are_written(given, ("quantity", "value", "error"), found)
    if given.plot is not None:
        plots.save(spectrum.plot(title), given.plot)
    return 0


def _spectrum(given: argparse.Namespace) -> tuple[str, Spectrum]:
    from derivations.pennington import universality
    from derive import activations
    from derive.expressions import parse_number
    from numeric import spectra

    sigma0 = None if given.sigma0 is None else parse_number("--sigma0", given.sigma0)
    if given.limit is not None:
        if sigma0 is None:
            raise InputError("--sigma0", None, "the standard deviation of the limit law")
        _refuse_beside_limit(given)
        ratio = None if given.limit != "leaky" else _required("--ratio", given.ratio)
        return f"limit {given.limit}, sigma0 = {sigma0}", spectra.limit(given.limit, sigma0, ratio)
    for name, default in _DEFAULTS.items():
        if getattr(given, name) is None:
            setattr(given, name, default)
    activation = activations.by_name(given.activation)
    C_W = None if given.C_W is None else parse_number("--C_W", given.C_W)
    for name, owners in options.OWNERS.items():
        if name in _PARAMETERS and given.weights in owners:
            _required(f"--{name}", getattr(given, name))
    weights = options.ensemble(given, C_W, _PARAMETERS)
    if sigma0 is not None:
        if given.q_star is not None:
            raise InputError(
                "--q-star", given.q_star, "no --q-star beside --sigma0, which solves for q*"
            )
        q = universality.double_scaling(activation, sigma0, given.depth)
        q_star = parse_number("--q-star", str(q))
    else:
        q_star = parse_number("--q-star", given.q_star or "1/10")
    C_b = None if given.C_b is None else parse_number("--C_b", given.C_b)
    dense = given.layer == "dense"
    layer = None if dense else given.layer
    if dense and C_b:
        raise InputError("--C_b", given.C_b, "no --C_b with dense layers: q* includes the biases")
    spectrum = spectra.jacobian(activation, weights, given.depth, q_star, layer=layer, C_b=C_b)
    of_layers = f"{given.weights} weights" if dense else f"{given.layer}, {given.weights} weights"
    title = f"{activation}, {of_layers}, depth {given.depth}, q* = {float(q_star):.6g}"
    return title, spectrum


def _refuse_beside_limit(given: argparse.Namespace) -> None:
    """Raise InputError for options of a network, which --limit does not use."""
    for name in (*_DEFAULTS, "layer", "C_b", "q_star", "gamma", "ratio", "C_W"):
        value = getattr(given, name)
        unset = value is None or (name, value) == ("layer", "dense")
        if not unset and (name, given.limit) != ("ratio", "leaky"):
            option = f"--{name.replace('q_star', 'q-star')}"
            raise InputError(
                option, value, f"no {option} with --limit {given.limit}, which does not use it"
            )


def _required(name: str, value: str | None) -> str:
    if value is None:
        raise InputError(name, None, "a number, for this choice")
    return value
