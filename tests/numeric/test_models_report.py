"""What a report says first, and when it stops drawing."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import sympy
from sample_models import Perceptron, described, gaussian
from scipy import special

from numeric import models
from numeric.models import advice, networks, pictures, sequential, theory
from numeric.tables import layout


def test_false_alarms_are_no_more_frequent_than_stated():
    """Means of normal numbers, with a rule that stops at once where nothing is alarming, or as late
    as it can. At α = 0.1 the rate is between α/3 and α, to 5 standard errors of 4000 tests."""
    random, alarms, at = np.random.default_rng(0), 0.1, sequential.looks(60)
    assert at == (30, 60)
    samples = random.standard_normal((4000, at[-1]))
    bad = {}
    for groups in at:
        own, bound = samples[:, :groups], -special.stdtrit(groups - 1, alarms / len(at) / 2)
        t = abs(own.mean(axis=1)) / (own.std(axis=1, ddof=1) / math.sqrt(groups))
        bad[groups, alarms / len(at)] = t > bound
    error = 5 * math.sqrt(alarms / len(samples))
    for stop in (lambda found: True, bool):
        rate = np.mean(
            [
                sequential.in_looks(at, lambda *key, k=k: bad[key][k], stop, alarms)
                for k in range(len(samples))
            ]
        )
        assert alarms / 3 - error < rate < alarms + error


def test_drawing_stops_when_it_is_decided():
    seen = []
    sequential.in_looks((20, 40), lambda groups, rate: seen.append((groups, rate)), lambda _: True)
    assert seen == [(20, sequential.FALSE_ALARMS / 2)]


WIDTHS = (6, 20, 20, 20, 20, 2)


def wide(factor, at=(6, 20)):
    """W tanh(z) with weights that are larger by a factor, of matrices with this fan-in."""
    return lambda random, out, fan_in: (
        (factor if fan_in in at else 1) * gaussian(random, out, fan_in)
    )


@pytest.fixture(scope="module")
def exploding():
    """What is said, and the report, where gradients grow."""
    said = []
    made = described(Perceptron(WIDTHS, wide(8)))
    return said, models.report(made, np.ones(6), draws=20, say=said.append)


@pytest.mark.slow
def test_the_gain_that_is_advised_is_the_one_that_works(exploding):
    """The advice, put into the weights, makes the product of χ⊥ 1 to some 2 %, as their variances
    are measured; before it was above 10."""
    said, found = exploding
    _, stable, _, _, change = found.findings
    assert stable.values["gradients"] ** 3 > 10
    assert "explode" in stable.answer
    assert "another gain" in change.answer
    assert said[0] == found.description.heading == str(found).splitlines()[0]
    assert said[0].endswith(": 5 layers of widths 6, 4 times 20, 2.")
    assert len(said) == 5
    assert found.agrees

    def draw(random, out, fan_in):
        hidden = out == fan_in == 20
        return 8 * (change.values["gain"] if hidden else 1) * gaussian(random, out, fan_in)

    again = theory.theory(described(Perceptron(WIDTHS, draw)), np.ones((1, 6)), 0)
    assert np.prod(again.perpendicular[1:-1]) == pytest.approx(1, abs=0.1)


def test_advice_is_exact_for_linear_layers():
    """χ⊥ = C_W: with C_W = 4 the gain is 1/2."""
    scaled = described(Perceptron((3, 8, 8, 8, 2), wide(2, (3, 8))))
    x = np.array([[1e-4, -2e-4, 1e-4]])  # where tanh is linear
    C_W = float(scaled.network.weights_at(2).C_W)
    found = advice._of_gain(scaled, x, theory.theory(scaled, x, 0))
    assert found.values["gain"] == pytest.approx(C_W**-0.5, rel=1e-4)


@pytest.mark.slow
def test_a_wrong_model_is_told_in_the_first_line():
    """The same theory beside a model whose weights are twice as large."""
    true = described(Perceptron((6, 12, 12, 8)))
    other = Perceptron((6, 12, 12, 8), lambda r, o, i: 2 * gaussian(r, o, i))
    wrong = models.Description("numpy", "x", true.network, true.laws, (), true.structure, other)
    found = models.report(wrong)
    assert not found.agrees
    assert found.findings[0].answer.startswith("NO: ")
    assert str(found).index("NO: ") < str(found).index("stable")


@pytest.mark.slow
def test_the_report_as_json(exploding):
    """What is not known is null, and numbers are those of the table."""
    _, found = exploding
    read = json.loads(found.json())
    assert [each["question"] for each in read["findings"]] == [e.question for e in found.findings]
    assert read["layers"][0]["chi_perp"] is None
    assert read["layers"][1]["K"] == float(found.table["K"][1])
    assert read["widths"] == [6, 20, 20, 20, 20, 2]
    page = found.html()
    assert all(each.question in page for each in found.findings)
    assert page.index("What should be changed?") < page.index("How the model was read")


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (1.23456, 0.0123, "1.235 ± 0.012"),
        (17000.4, 260.0, "17000 ± 260"),
        (0.1, 0.0, "0.1"),
        (1e-9, 2e-11, "1e-09 ± 2e-11"),
        (math.nan, 0.0, "–"),
    ],
)
def test_errors_have_two_digits(value, error, told):
    assert advice.short(value, error) == told


def test_numbers_are_readable():
    """No integer of more than six digits stands in a description."""
    long = sympy.Rational(1767766952966369, 5000000000000000)
    z = sympy.Symbol("z")
    assert networks.readable(str(sympy.tanh(long * z))) == "tanh(0.353553*z)"
    assert networks.readable("C_W=123456789123/1000000000000") == "C_W=0.123457"
    assert networks.readable("C_W=17/40, 0.425, 1000 draws") == "C_W=17/40, 0.425, 1000 draws"
    assert networks.readable("1.0507009873554804934") == "1.0507"


def test_pictures_have_every_number_once():
    """A circle for a measured number, at the height of theory where they are equal; a line through
    theory, broken where it is not known; heights of a logarithmic axis are those of log K."""
    K, unknown = np.array([1.0, 10.0, 100.0, 1000.0]), math.nan
    table = layout.table(
        [1, 2, 3, 4],
        K=K,
        K_measured=K,
        K_measured_se=K / 10,
        Theta=np.array([unknown, 2.0, 3.0, unknown]),
        Theta_measured=np.full(4, unknown),
        Theta_measured_se=np.full(4, unknown),
    )
    first, second = ElementTree.fromstring(f"<div>{pictures.pictures(table)}</div>")
    assert [each.get("aria-label")[:1] for each in (first, second)] == ["K", "Θ"]
    space = "{http://www.w3.org/2000/svg}"
    heights = [float(each.get("cy")) for each in first.iter(f"{space}circle")]
    (line,) = (e.get("d") for e in first.iter(f"{space}path") if e.get("stroke-width"))
    assert [float(each.split()[1]) for each in re.split("[ML]", line)[1:]] == heights
    np.testing.assert_allclose(np.diff(heights), np.diff(heights)[0], atol=0.2)
    assert heights[0] > heights[1]
    assert not [*second.iter(f"{space}circle")]
    (line,) = (e.get("d") for e in second.iter(f"{space}path") if e.get("stroke-width"))
    assert len(re.split("[ML]", line)) == 1 + 2


@pytest.mark.slow
def test_skips_around_two_matrices_have_v_as_measured():
    """χ⊥ = 1 + C_1 C_2/4 of ReLU behind each matrix: 2 with He's weights. The branch scale s that
    is advised gives (1 + s²)³ = e over three blocks."""
    torch = pytest.importorskip("torch", reason="needs torch: wickgarten[torch], make test-models")
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Linear(16, 16, bias=False) for _ in range(2))
            nn.init.kaiming_normal_(self.a.weight)
            nn.init.kaiming_normal_(self.b.weight)

        def forward(self, x):
            return x + self.b(torch.relu(self.a(torch.relu(x))))

    def made():
        parts = nn.Linear(4, 16), Block(), Block(), Block(), nn.ReLU(), nn.Linear(16, 8)
        return nn.Sequential(*parts)

    found = models.report(made, np.ones(4), draws=40)
    assert found.agrees
    assert "V" in found.withheld
    assert "as measured" in found.findings[2].answer
    assert found.findings[1].values["gradients"] == pytest.approx(2)
    scale = found.findings[4].values["branch_scale"]
    assert (1 + scale**2) ** 3 == pytest.approx(math.e, rel=1e-2)
