"""What a session shows: text at a prompt, LaTeX in a notebook, figures, names, and citations."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
import sympy
import xarray
from keyword_groups import parameters
from matplotlib.figure import Figure

import derive
import numeric
from derivations.verify import Check
from derive import (
    BiInvariant,
    Equation,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
    cite,
    criticality,
    propagation,
    recursion,
)
from derive import spectra as symbolic
from derive.citations import SOURCES, entries
from derive.engine import NAMES, H
from numeric import compare, flow, plot, spectra

TANH = activations.tanh
JACOBIAN = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
SHOWN = {
    "a recursion": lambda: recursion("V", Orthogonal()).single_input(),
    "a recursion of several inputs": lambda: recursion("K"),
    "a recursion with a field of one's own": lambda: recursion([JACOBIAN], pairing="01"),
    "a tensor's name": lambda: NAMES["Theta1"],
    "a network": lambda: Network(TANH, Orthogonal(), lambda_b=lambda layer: 1 / layer),
    "a mixed network": lambda: Network(
        TANH, Orthogonal(), Gaussian(), width_ratio=2, C_W_corrections=(1,)
    ),
    "an activation": lambda: TANH,
    "Gaussian weights": lambda: Gaussian("1/3"),
    "low-rank weights": lambda: LowRankGaussian(gamma=0.5),
    "bi-invariant weights": lambda: BiInvariant(moments=(1, 2)),
    "truncated weights": lambda: Truncated(ratio=2),
    "an equation": lambda: JACOBIAN,
    "asymptotics": lambda: recursion("V").asymptotics(TANH),
    "a term": lambda: recursion("V").asymptotics(TANH).terms[0],
    "a system": lambda: recursion("V").asymptotics(TANH).system,
    "criticality": lambda: criticality(TANH),
    "a critical point": lambda: criticality(TANH).points[0],
    "a susceptibility": lambda: criticality(activations.relu).chi_perp,
    "a Jacobian's law": lambda: symbolic.jacobian(
        activations.hard_tanh, LowRankOrthogonal(gamma=0.5), 4, 0.1
    ),
    "slopes": lambda: symbolic.slope_law(TANH, 0.1),
    "a limit law": lambda: symbolic.limit("smooth", 0.5),
    "a product of laws": lambda: symbolic.Atomic({0: 0.5, 2: 0.5}) * symbolic.Moments([1, 2]) * 3,
    "a power of a law": lambda: symbolic.Rational(sympy.Integer(1)) ** 3,
    "a fixed point": lambda: propagation.depth_scales(Network(TANH, Gaussian(2), C_b=0.1)),
    "a spectrum": lambda: spectra.limit("smooth", 0.5),
}


@pytest.mark.parametrize("made", SHOWN.values(), ids=SHOWN.keys())
def test_every_object_shows_itself(made):
    shown = made()
    for text in (repr(shown), str(shown)):
        assert 0 < len(text) < 1500
        assert not re.search(r"object at 0x|<function|Name\(|Field\(nodes|sympy\.", text)
    latex = shown._repr_latex_()
    assert latex.startswith(r"$\displaystyle ")
    assert latex.endswith("$")
    body = latex[1:-1]
    assert "$" not in body
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")
    assert len(re.findall(r"\\left\b", body)) == len(re.findall(r"\\right\b", body))


def test_a_prompt_shows_the_mathematics():
    assert repr(recursion("K").single_input()) == "K(ℓ+1) = C_W*⟨σ²⟩ + C_b"
    assert repr(recursion("V").asymptotics(TANH).terms) == "(1/(6*ℓ), 5*log(ℓ)/(72*ℓ**2))"
    assert repr(NAMES["V"]) == "<tensor V: kappa(z,z,z,z|01 23)>"
    assert repr(H) == "Field(2, [(0, 1)])"
    edge = propagation.edge_of_chaos(TANH, points=2)
    assert repr(edge).startswith("edge of chaos of tanh, 2 points (C_b, C_W): (0, 1), (")


def test_a_network_shows_all_of_itself():
    net = Network(TANH, Orthogonal(C_W=2), Gaussian(), 0.1, lambda layer: 1 / (layer + 1), 0.5)
    assert str(net) == (
        "Network(tanh, Orthogonal(C_W=2), first_weights=Gaussian(C_W=1), C_b=0.1, "
        "lambda_b=1/(l + 1), lambda_W=0.5)"
    )
    text = repr(net)
    for part in ("tanh(z)", "E[W_ij²] = 2/n_in", "Gaussian(C_W=1)", "C_b = 0.1", "1/(l + 1)"):
        assert part in text
    assert "n at every layer" in text
    assert r"\lambda_b = \frac{1}{\ell + 1}" in net._repr_latex_()


def test_a_function_that_branches_shows_its_values():
    net = Network(TANH, lambda_b=lambda layer: 0 if layer == 1 else 1 / layer)
    assert "lambda_b=(0, 0.5, 0.333333, …)" in str(net)
    assert "lambda_b=(1, 2)" in str(Network(TANH, lambda_b=[1, 2]))


@pytest.fixture(scope="module")
def table():
    return flow(Network(TANH), [[1.0, 0.2], [0.3, 0.4]], 3, ["K", "V"])


@pytest.fixture(scope="module")
def sampled(table):
    kept = {"K": table["K"], "V": table["V"]}
    errors = {f"{name}_se": xarray.full_like(values, 0.1) for name, values in kept.items()}
    return xarray.Dataset(kept | errors, attrs={"width": 10, "blocks": 256})


def test_tables_plot(table, sampled):
    for shown, drawn in ((table, 3), (sampled, 3)):
        figure = plot(shown)
        assert isinstance(figure, Figure)
        assert [axes.get_title() for axes in figure.axes] == ["K", "V"]
        labels = figure.axes[0].get_legend_handles_labels()[1]
        assert labels == ["K_11", "K_12", "K_22"]
        assert len(labels) == drawn
    (axes,) = table.wickgarten.plot("K").axes
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), table["K"][:, 0, 1])
    assert len(plot(sampled, ["V"]).axes[0].containers) == 6
    assert "<svg" in table.wickgarten.plot()._repr_svg_()
    assert list(table[["K", "V"]].wickgarten.normalise()) == ["V_tilde"]
    for wrong in ("A", ["K", "A"], [], 5):
        with pytest.raises(InputError, match="names among K, V"):
            plot(table, wrong)
    with pytest.raises(InputError, match="a table from flow or simulate"):
        plot(xarray.Dataset())


def test_comparisons_show_and_plot(table, sampled):
    found = compare(table, sampled)
    assert repr(found) == str(found)
    assert re.match(r"weak: \d\d comparisons at n = 10; largest \|z\| 0\.00", str(found))
    html = found._repr_html_()
    assert html.count("<tr>") == 11
    assert "<th>tensor</th>" in html
    assert [axes.get_title() for axes in found.plot().axes] == ["K", "V"]
    assert "weak" in repr(Check(None, found))


def test_spectra_plot():
    spectrum = spectra.jacobian(activations.hard_tanh, Orthogonal(), 4, 0.1)
    figure = spectrum.plot("hard tanh")
    (axes,) = figure.axes
    values, density = axes.lines[0].get_data()
    np.testing.assert_allclose(density, spectrum.singular_density(values))
    assert axes.get_title() == "hard tanh"
    assert len(axes.texts) == len(spectrum.atoms) == 2
    text = str(spectrum)
    assert "atom at 0" in text
    assert "moments 1, " in text


MODULES = (
    "derive",
    "derive.activations",
    "derive.batchnorm",
    "derive.exact",
    "derive.linear",
    "derive.propagation",
    "derive.spectra",
    "numeric",
    "numeric.spectra",
)


@pytest.mark.parametrize("name", MODULES)
def test_names_complete_and_help_teaches(name):
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert len(inspect.getdoc(module) or "") > 40
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isroutine(value):
            text = inspect.getdoc(value) or ""
            assert len(text) > 25, public
            assert not text.startswith(f"{public}("), f"{public} has a made-up docstring"
            if inspect.isroutine(value):
                assert list(inspect.signature(value).parameters) != ["args", "kwargs"], public
        if inspect.isclass(value):
            for each, member in vars(value).items():
                if not each.startswith("_") and inspect.isfunction(member):
                    assert inspect.getdoc(member), f"{public}.{each}"


@pytest.mark.parametrize(
    "function",
    [
        derive.recursion,
        derive.haar_moment,
        derive.weingarten,
        derive.Network,
        derive.Equation,
        derive.cite,
        numeric.flow,
        numeric.simulate,
        numeric.compare,
        numeric.write_module,
        numeric.plot,
    ],
    ids=lambda value: value.__name__,
)
def test_the_entry_points_say_what_they_take_and_raise(function):
    text = inspect.getdoc(function)
    for name in parameters(function):
        assert re.search(rf"\b{name}\b", text), name
    assert "InputError" in text


IN_A_SESSION = """
from derive import *
before = str(cite())
recursion("V", Orthogonal()).expr
{more}
print([line for line in cite().splitlines() if line.startswith("@")])
assert before.count("@") == 1
"""


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ("", ["day2025", "roberts2022", "collins2017"]),
        ("batchnorm.contraction_rate()", ["daneshmand2021"]),
        ("LowRankGaussian(gamma=0.5)", ["naitsaada2023"]),
        ("spectra.limit('smooth', 0.5)", ["pennington2018"]),
    ],
)
def test_cite_names_what_was_used(more, keys):
    code = IN_A_SESSION.format(more=more)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert "@software{wickgarten," in run.stdout
    for key in keys:
        assert f"{{{key}," in run.stdout
    assert ("daneshmand2021" in run.stdout) == ("batchnorm" in more)


def test_cite_by_name():
    assert set(SOURCES.values()) <= set(entries())
    for key, entry in entries().items():
        assert re.fullmatch(rf"@\w+\{{{key},\n(  \w+ = \{{.*\}},\n)+\}}", entry), key
        assert str(cite(key)).count("\n@") == 1
    assert repr(cite("002")) == str(cite("pennington2018"))
    assert str(cite("all")).count("\n@") == len(entries())
    for wrong in ("005", "x", None, 2, []):
        with pytest.raises(InputError, match='"all" or among 000'):
            cite(wrong)
