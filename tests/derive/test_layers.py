"""Layers: norms, residual blocks, gates and equations of one's own, derived as stages."""

import pickle

import numpy as np
import pytest
import sympy
from layer_ensembles import matrix, moments, normed, predicted
from scipy.special import erf

from derive import (
    Gaussian,
    InputError,
    Network,
    Orthogonal,
    activations,
    layers,
    recursion,
    symbols,
)
from derive.engine import (
    DENSE,
    NAMES,
    Field,
    Scheme,
    canonical,
    closures,
    cumulants,
    named,
    step,
    target,
)
from derive.gaussian import Average, Bracket, normal_form
from derive.layers import Layer, read
from derive.symbols import C_W, C_b, K, tensor
from numeric import flow

GAMMA, EPS = sympy.symbols("gamma eps", positive=True)
SKIP = ("h[i] = W1[i,a] z[a]", "z[i] = gamma z[i] + W2[i,a] h[a]")


def single(name, layer, weights=None):
    return recursion(name, weights or Gaussian(), layer=layer).single_input()


def behind(layer, stage, name, variable):
    """A tensor of a variable behind a stage, one input."""
    kind = next(kind for kind, _ in layer.stages[stage].equations if kind.name == variable)
    plain = named(name)
    fields = [Field(f.nodes, f.edges, (kind,) * f.nodes) for f in plain.fields]
    wanted = canonical(target(fields, plain.pairing, plain.order))
    scheme = Scheme(Gaussian(), single=True, layer=layer)
    return step.through(wanted, scheme, layer.stages[stage]).expr


def test_the_dense_layer_is_a_stage_with_one_equation():
    assert layers.dense().stages == (DENSE,)
    for name in ("V", "D", "T"):
        assert recursion(name, layer=layers.dense()).expr == recursion(name).expr


SPHERE = layers.normalized("rms")


@pytest.mark.parametrize(
    ("name", "value"),
    [("K", 1), ("G1", 0), ("G2", 0), ("V", -2), ("V2", 4), ("U6", 16), ("D", 0), ("Q", 0)],
)
def test_the_rms_norm_is_a_point_on_the_sphere(name, value):
    """E y_i² y_j² = n/(n+2), E y_i² y_j² y_k² = n²/((n+2)(n+4)), in powers of 1/n."""
    assert sympy.simplify(behind(SPHERE, 0, name, "y") - value) == 0


def test_the_sphere_itself():
    """The values above, from the exact moments."""
    n = sympy.Symbol("n", positive=True)
    four, six = n / (n + 2), n**2 / ((n + 2) * (n + 4))
    x = sympy.Symbol("x", positive=True)
    vertex = sympy.series((four - 1).subs(n, 1 / x), x, 0, 3)
    assert vertex.coeff(x, 1), vertex.coeff(x, 2) == (-2, 4)
    joint = (six - 3 * four + 2).subs(n, 1 / x)
    assert sympy.series(joint, x, 0, 3).coeff(x, 2) == 16


@pytest.mark.parametrize(("name", "value"), [("K", 1), ("G1", 1), ("V", -2)])
def test_the_layer_norm_before_its_mean_is_taken_off(name, value):
    """y = z/√v of Gaussian z: Σ y²/n = 1 + m²/v, χ²_1 over χ²_{n−1}, whose mean is 1/(n − 3)."""
    expr = behind(layers.normalized("layer"), 0, name, "y")
    gaussian = dict.fromkeys(expr.free_symbols - {K}, 0)
    assert sympy.simplify(expr.subs(gaussian) - value) == 0


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()])
@pytest.mark.parametrize("make", [layers.residual, layers.gated])
@pytest.mark.parametrize("name", ["K", "V", "G1"])
def test_behind_a_matrix_one_input_cannot_tell_the_norms_apart(name, make, weights):
    """W y knows y by its length alone, √n with either norm: the laws are the same at any n."""
    made = [single(name, make(norm=norm), weights).expr for norm in ("rms", "layer")]
    assert sympy.expand(made[0] - made[1]) == 0


def test_what_a_norm_does_to_the_kernel_it_cannot_see():
    """z ↦ c z leaves y: with ε = 0 the tensors do not depend on V, G1 in any way but through Θ."""
    for name in ("V", "G1", "D"):
        assert not behind(SPHERE, 0, name, "y").has(tensor("V"), tensor("G1"))


def test_the_ntk_through_a_norm():
    """∂y/∂z = (1 − y yᵀ/n)/√K: Θ_y = Θ/K, and F_y = −Θ/K is κ(y_i, y_j, H_ij)."""
    theta = tensor("Theta")
    assert sympy.simplify(behind(SPHERE, 0, "Theta", "y") - theta / K) == 0
    assert sympy.simplify(behind(SPHERE, 0, "F", "y") + theta / K) == 0


def test_two_inputs_have_their_correlation_as_kernel():
    made = recursion("K", layer=layers.normalized("rms"))
    assert str(made.kernels["K_y"]) == "K[1,2]/(sqrt(K[1,1])*sqrt(K[2,2]))"


def test_a_linear_residual_block_is_exact():
    """z' = γ z + W₂ W₁ z with Gaussian weights, by Wick's theorem at finite n.

    q = |z|²/n: given z, E q'  = (γ² + C₁C₂) q, and E q'² = a q², of which n Var is the vertex:
    W₂ W₁ z = √(C₁C₂ q χ²/n) g with χ² the square length of n independent Gaussians.
    """
    layer = Layer(*SKIP)
    n, c = sympy.Symbol("n", positive=True), C_W**2
    chi4 = 1 + 2 / n
    # E|γz + u|⁴/n² given |z|² = n q, u = s g, s² = c q χ²/n
    a = GAMMA**4 + 2 * GAMMA**2 * c + 4 * GAMMA**2 * c / n + c**2 * chi4 * chi4
    q2 = K**2 * (1 + (2 + tensor("V") / K**2) / n)
    variance = a * q2 - ((GAMMA**2 + c) * K) ** 2
    expected = sympy.limit(n * variance, n, sympy.oo) - 2 * ((GAMMA**2 + c) * K) ** 2
    assert sympy.expand(single("V", layer).expr - expected) == 0
    assert sympy.expand(single("K", layer).expr - (GAMMA**2 + c) * K) == 0
    assert sympy.expand(single("G1", layer).expr - (GAMMA**2 + c) * tensor("G1")) == 0


def test_an_orthogonal_linear_block_is_exact():
    """O₂O₁ is Haar: E|γz + Oz|⁴ = (γ² + 1)² |z|⁴ + 4γ² |z|⁴/n."""
    layer = Layer(*SKIP)
    expr = single("V", layer, Orthogonal()).expr.subs({C_W: 1})
    whole = (GAMMA**2 + 1) ** 2 * (2 * K**2 + tensor("V")) + 4 * GAMMA**2 * K**2
    expected = whole - 2 * ((GAMMA**2 + 1) * K) ** 2
    assert sympy.expand(expr - expected) == 0


def test_an_orthogonal_block_of_two_widths_is_exact():
    """W₂ W₁ z is √(4 B) |z| times a point on the sphere, B the share of n among 2n coordinates.

    W₁, 2n by n, has orthogonal columns, and W₂ orthogonal rows: n Var (2B) → 1.
    """
    layer = Layer(*SKIP, ratio={"h": 2})
    expr = single("V", layer, Orthogonal()).expr.subs({C_W: 1})
    expected = (GAMMA**2 + 1) ** 2 * tensor("V") + (4 * GAMMA**2 + 1) * K**2
    assert sympy.expand(expr - expected) == 0


def test_skips_may_be_any_number():
    """An irrational one stays as it is."""
    made = single("K", layers.residual(skip="sqrt(1/2)")).expr
    assert (
        sympy.expand(made - single("K", layers.residual(skip=GAMMA)).expr.subs(GAMMA**2, 0))
        == K / 2
    )


def test_a_bilinear_gate_is_exact():
    """z' = W₃[(W₁ z) ∘ (W₂ z)], Gaussian: E q' = C³ q², E q'² = (1 + 2/n)(1 + 8/n) C⁶ q⁴."""
    layer = Layer("h[i] = W1[i,a] z[a]", "g[i] = W2[i,a] z[a]", "z[i] = W3[i,a] h[a] g[a]")
    vertex, n = tensor("V"), sympy.Symbol("n", positive=True)
    w = (2 + vertex / K**2) / n
    second = (1 + 2 / n) * (1 + 8 / n) * C_W**6 * K**4 * (1 + 6 * w)
    mean = C_W**3 * K**2 * (1 + w)
    expected = sympy.limit(n * (second - mean**2), n, sympy.oo) - 2 * C_W**6 * K**4
    assert sympy.expand(single("V", layer).expr - expected) == 0
    first = C_W**3 * (2 * K * tensor("G1") + 2 * K**2 + vertex)
    assert sympy.expand(single("G1", layer).expr - first) == 0


def test_residual_networks_at_infinite_width():
    """Yang and Schoenholz 2017: q' = q + σ_w² ⟨φ(√(C₁ q) ·)²⟩ + σ_b², and the NTK along with it."""
    made = single("K", layers.residual(skip=GAMMA))
    slope = single("Theta", layers.residual(skip=GAMMA))
    square = Average(((1, 0), (1, 0)), (), "K_h")
    slopes = Average(((1, 1), (1, 1)), (), "K_h")
    assert made.expr == GAMMA**2 * K + C_W * square + C_b
    assert made.kernels == {"K_h": C_W * K}
    theta, (w, b) = tensor("Theta"), sympy.symbols("lambda_W lambda_b", nonnegative=True)
    names = {str(symbol): symbol for symbol in slope.expr.free_symbols}
    w, b = names["lambda_W"], names["lambda_b"]
    expected = GAMMA**2 * theta + b + w * square + C_W * slopes * (C_W * theta + w * K)
    assert sympy.expand(slope.expr - expected) == 0


def test_pre_norm_blocks_add_the_same_to_the_kernel_at_each():
    """Doshi, He and Gromov 2111.12143: with a norm before σ the kernel grows linearly at γ = 1."""
    made = single("K", layers.residual(norm="layer"))
    assert made.expr - K == C_W * Average(((1, 0), (1, 0)), (), "K_h") + C_b
    assert made.kernels == {"K_h": C_W}


def test_a_layer_without_a_skip_may_change_the_width():
    assert not layers.normalized("layer").keeps_width
    assert not layers.gated().keeps_width
    assert layers.gated(skip=1).keeps_width
    assert layers.residual().keeps_width
    wide = Network("tanh", layer="gated; residual(norm=rms)*", width_ratio=[1, 2, 2, 2])
    assert wide.schemes(4, 1).order == (0, 1, 1)
    with pytest.raises(InputError, match="layers 1 and 2, around which residual"):
        Network("tanh", layer="residual(norm=rms); gated", width_ratio=[1, 2, 2]).schemes(3, 1)


def test_the_larger_width_of_a_rectangle_is_that_of_its_haar_matrix():
    """W₁ from r_in n neurons to 3n, W₂ to r_out n: K_h² (2/r − 2/r_big) of V is W₂'s alone."""
    layer = Layer("h[i] = W1[i,a] s(z[a])", "z[i] = W2[i,a] h[a]", ratio={"h": 3})
    ((first,), (second,)) = (
        [made for made in of_stage if made.name.startswith("V")]
        for of_stage in recursion("V", Orthogonal(), layer=layer, equal_widths=False).stages
    )
    first, second = first.single_input(), second.single_input()
    square = Average(((1, 0), (1, 0)), ())
    assert first.expr.expand().coeff(square**2).has(sympy.Max(3, symbols.r_in))
    expected = C_W**2 * (sympy.Rational(2, 3) - 2 / sympy.Max(3, symbols.r_out))
    assert sympy.expand(second.expr.expand().coeff(tensor("K_h") ** 2) - expected) == 0


def test_the_width_of_the_hidden_layer_divides_its_fluctuations():
    """What a finite hidden layer adds to V is 1/ratio of what one of n neurons adds."""
    wide = single("V", layers.residual(ratio=4, C=(2, 1))).expr
    square = single("V", layers.residual(C=(2, 1))).expr
    fourth = Average(((1, 0),) * 4, (), "K_h")
    assert wide.expand().coeff(fourth) == sympy.Rational(1, 4)
    assert square.expand().coeff(fourth) == 1


def test_layers_that_differ_in_their_variances_have_one_derivation(monkeypatch):
    gate = "z[i] = W1[i,a] z[a] + W2[i,a] s(z[a]) z[a]"
    one, other = sympy.symbols("one other", positive=True)
    symbolic = single("V", Layer(gate, C={"W1": one, "W2": other})).expr.expand()
    begins = "derive.engine.step.coefficients.layer_cumulant"  # what a derivation begins with
    monkeypatch.setattr(begins, None)
    for C in ((2, 3), (0, sympy.Rational(7, 11)), (sympy.sqrt(2), 1)):
        numbers = single("V", Layer(gate, C=dict(zip(("W1", "W2"), C, strict=True)))).expr
        expected = symbolic.subs({one: C[0], other: C[1]}, simultaneous=True)
        assert sympy.expand(numbers - expected) == 0, C


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("orthogonal", [False, True])
def test_an_ensemble_meets_normalized_layers(norm, orthogonal):
    def step(rng, z):
        return matrix(rng, np.tanh(normed(z, norm)), orthogonal)

    _meets(layers.normalized(norm), activations.tanh, step, orthogonal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "sigma", "orthogonal"),
    [
        ("residual(skip=1, norm=rms)", "tanh", True),
        ("gated(norm=rms)", "gelu", False),
        ("gated(skip=1, norm=layer)", "tanh", True),
    ],
)
def test_an_ensemble_meets_blocks(text, sigma, orthogonal):
    made = {"tanh": np.tanh, "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2}[sigma]
    norm, skip = "layer" if "layer" in text else "rms", float("skip" in text)

    def step(rng, z):
        y = normed(z, norm)
        hidden = made(matrix(rng, y, orthogonal))
        if text.startswith("gated"):
            hidden = hidden * matrix(rng, y, orthogonal)
        return skip * z + matrix(rng, hidden, orthogonal)

    _meets(read(text), getattr(activations, sigma), step, orthogonal)


def _meets(layer, activation, step, orthogonal, samples=100_000, depth=3):
    """V and G1 at 1/n → 0 from two widths, each within five standard errors."""
    weights = Orthogonal() if orthogonal else Gaussian()
    kernel, vertex, first = predicted(layer, activation, weights, depth)
    small, large = (moments(step, n, samples, depth, 1.0, n) for n in (32, 64))
    found = (
        2 * large[0][0] - small[0][0],
        128 * (large[1][0] - kernel) - 32 * (small[1][0] - kernel),
    )
    errors = np.hypot(2 * large[0][1], small[0][1]), np.hypot(128 * large[1][1], 32 * small[1][1])
    assert abs(found[0] - vertex) < 5 * errors[0]
    assert abs(found[1] - first) < 5 * errors[1]


def test_stages_are_cumulants_of_the_engine():
    """K of y from the engine's own function, all samples different."""
    stage = layers.normalized("rms", eps=EPS).stages[0]
    kind = stage.equations[0][0]
    field = Field(1, (), (kind,))
    found = cumulants.layer_cumulant((field, field), (1, 2), Gaussian(), 0, stage=stage)
    ((mono, at),) = found[(0, 1),]
    assert at == 0
    assert len(mono) == 3


@pytest.mark.parametrize(
    ("orders", "outer"),
    [((0, 1), ()), ((0, 2), ()), ((0, 0, 1, 2), ()), ((1, 3), (1,)), ((2,), ())],
)
def test_the_normal_form_of_a_bracket_is_the_bracket(orders, outer):
    """By the product rule, for σ a polynomial."""
    z = sympy.Symbol("z")
    sigma = 1 + 2 * z + 3 * z**2 - z**3 + z**5

    def product(bracket):
        factors = [sympy.diff(sigma, z, order) for _, order in bracket.factors]
        return sympy.diff(sympy.prod(factors), z, len(bracket.outer))

    given = Bracket(tuple((1, order) for order in orders), outer)
    form = normal_form(given)
    total = sum(value * product(each) for each, value in form.items())
    assert sympy.expand(total - product(given)) == 0
    tops = [sorted(order for _, order in each.factors) for each in form]
    assert all(not each[-1] or each.count(each[-1]) > 1 for each in tops)


def test_kinked_activations_have_layer_norms():
    for name in ("V", "G1"):
        made = single(name, layers.normalized("layer")).specialise("relu").expr
        assert made.free_symbols <= {C_W, C_b, K}
        assert not made.atoms(Average)


def test_a_layer_of_ones_own_is_the_shipped_one():
    own = Layer(
        "q = z[a] z[a]/n",
        "y[i] = z[i]/sqrt(q)",
        "h[i] = W1[i,b] y[b]",
        "z[k] = z[k] + b[k] + W2[k,a]*s(h[a])",
    )
    shipped = layers.residual(norm="rms")
    for name in ("V", "G1", "Theta1"):
        assert single(name, own).expr == single(name, shipped).expr


def test_a_norm_in_the_text_of_the_argument():
    """σ of what is no variable is σ of a new one."""
    own = Layer("q = z[a]^2/n", "z[i] = b[i] + W[i,a] s(z[a]/sqrt(q + eps))", eps=0)
    made = single("V", own)
    expected = single("V", layers.normalized("rms"))
    assert str(made.expr).replace("_u1", "_y") == str(expected.expr)


@pytest.mark.parametrize(
    "lines",
    [
        (  # a norm between the two matrices
            "h[i] = W1[i,a] z[a]",
            "q = h[a] h[a]/n",
            "g[i] = h[i]/sqrt(q)",
            "z[i] = z[i] + W2[i,a] s(g[a])",
        ),
        (  # two skips
            "h[i] = W1[i,a] z[a]",
            "y[i] = W2[i,a] s(h[a])",
            "g[i] = y[i] + W3[i,a] z[a]",
            "z[i] = gamma z[i] + W4[i,a] s(g[a])",
        ),
        (  # two blocks, one after another
            "h[i] = W1[i,a] z[a]",
            "z[i] = z[i] + W2[i,a] s(h[a])",
            "h[i] = W3[i,a] z[a]",
            "z[i] = z[i] + W4[i,a] s(h[a])",
        ),
        (  # a norm to a power of its own
            "q = z[a] z[a]/n",
            "y[i] = z[i] (q + 1/10)^(-3/4)",
            "z[i] = b[i] + W[i,a] s(y[a])",
        ),
        (  # a gate of one's own, two σ's at one neuron
            "h[i] = W1[i,a] z[a]",
            "g[i] = W2[i,a] z[a]",
            "z[i] = z[i] + W3[i,a] s(h[a]) s(g[a])",
        ),
    ],
)
def test_layers_that_nobody_named(lines):
    layer = Layer(*lines)
    scheme = Scheme(Gaussian(), single=True, layer=layer)
    (names,) = closures(["K", "V", "G1", "Theta"], [scheme])
    assert len(names) == len(layer.stages)
    assert {"K", "V", "G1", "Theta"} <= {name.label for name in names[-1]}
    assert set(single("V", layer).depends_on) <= {"K", "V"}


def test_two_blocks_are_one_block_twice():
    """The kernel through two residual blocks, the second's bracket at the first's kernel."""
    two = Layer(
        "h[i] = W1[i,a] z[a]",
        "z[i] = z[i] + W2[i,a] s(h[a])",
        "g[i] = W3[i,a] z[a]",
        "z[i] = z[i] + W4[i,a] s(g[a])",
    )
    one = Layer("h[i] = W1[i,a] z[a]", "z[i] = z[i] + W2[i,a] s(h[a])")
    first = predicted(one, activations.tanh, Gaussian(), depth=2)
    second = predicted(two, activations.tanh, Gaussian(), depth=1)
    assert np.allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("m = z[a]/n", "z[i] = z[i]/m"), "vanish"),
        (("q = z[a] z[a]/n", "z[i] = z[i]/sqrt(q - 1/2)"), "vanish"),
        (("q = z[a] z[a]/n", "z[i] = z[i]/(q - q)"), "division by 0"),
        (("h[i] = W[i,a] z[a]", "z[i] = W[i,a] s(h[a])"), "one place"),
        (("q = z[a] z[a]", "z[i] = z[i]/sqrt(q)"), "1/n"),
        (("z[i] = W[i,a] x[a]",), "defined above"),
        (("z[i] = W[i,a] s(z[a]",), "closed"),
        (("h[i] = W[i,a] z[a]",), "equation of z"),
        (("h[i] = W1[i,a] z[a]", "z[i] = W[i,a] s(z[a])"), "used"),
        (("m = z[a]/n", "z[i] = z[i] - m"), "mean"),
        (("h[i] = W1[i,a] z[a]", "c = h[a]^3/n", "z[i] = c W2[i,a] s(h[a])"), "means of"),
        (("z[i] = W[i,a] W1[a,b] z[b]",), "one matrix"),
        (("z[i] = z[i] + 1",), "no index"),
        (("z[i] = W[i,a] s(q)",), "neuron"),
        (("__import__('os')",), "equations"),
        (("z[i] = W[i,a] s(z[a]); import os",), "equations"),
    ],
)
def test_what_is_no_layer_is_refused_with_the_reason(lines, says):
    with pytest.raises(InputError, match=says) as error:
        Layer(*lines)
    assert error.value.argument == "layer"


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: layers.normalized("rms", eps=-1), "eps"),
        (lambda: layers.normalized("instance"), "norm"),
        (lambda: layers.normalized(None), "norm"),
        (lambda: layers.residual(ratio=0), "ratio"),
        (lambda: layers.residual(C=(1,)), "C"),
        (lambda: layers.residual(C=(1, -1)), "W2"),
        (lambda: layers.residual(skip="x"), "skip"),
        (lambda: layers.read("residual(skip=1, width=3)"), "layer"),
        (lambda: layers.read("os.system(1)"), "layer"),
        (lambda: layers.read("normalized()"), "layer"),
        (lambda: Layer("z[i] = W[i,a] s(z[a])", gamma=1), "layer"),
        (lambda: Layer(*SKIP, ratio={"g": 2}), "ratio"),
        (lambda: Layer("h[i] = W1[i,a] z[a]", "z[i] = h[i]", ratio={"h": 2}), "ratio"),
        (lambda: recursion("V", layer="nothing"), "layer"),
        (lambda: single("G2", layers.normalized("layer")).expr, "fields"),
        (lambda: recursion("V", layer=SPHERE).terms, "layer"),
        (lambda: Network("tanh", widths=[3, 8, 9], layer="residual").scheme(2, 1), "widths"),
    ],
)
def test_bad_arguments_are_named(make, argument):
    with pytest.raises(InputError) as error:
        make()
    assert error.value.argument in argument.split("|")


@pytest.mark.parametrize(
    "text",
    [
        "dense()",
        "normalized(rms)",
        "normalized(layer, eps=1/100000)",
        "residual(skip=1, norm=rms)",
        "residual(skip=1/2, norm=layer, eps=1/10, ratio=4, C=(1, 2))",
        "gated(norm=rms)",
        "gated(skip=1, C=(1, 1, 2))",
    ],
)
def test_layers_are_read_back(text):
    layer = read(text)
    assert str(layer) == text
    assert read(str(layer)) == layer
    assert pickle.loads(pickle.dumps(layer)) == layer


def test_symbols_that_a_function_of_means_may_hide_are_known():
    """(1 − q) is 0 at q = 1, and lambda_c with it: it is a symbol of the layer all the same."""
    layer = Layer("q = z[a] z[a]/n", "z[i] = b[i] + lambda_c (1 - q) W[i,a] s(z[a])")
    assert {str(each) for each in layer.free_symbols} == {"lambda_c"}


def test_a_network_has_its_layer():
    net = Network("tanh", "orthogonal", layer="residual(skip=1, norm=rms)")
    assert net.layer == layers.residual(norm="rms")
    assert "layer=residual(skip=1, norm=rms)" in str(net)
    assert net.scheme(3, 1).stages == net.layer.stages
    assert "residual" in net.latex()
    assert Network("tanh").layer.is_dense
    assert Network("tanh").scheme(3, 1).layer is None


def test_a_layers_own_variables_have_tensors_by_name():
    """K_y, V_y, G1_h through the stage that makes the variable; they are no tensors of z."""
    block = layers.residual(norm="rms", eps=EPS)
    for name, stage, variable in (("K", 0, "y"), ("V", 0, "y"), ("V", 1, "h"), ("G1", 1, "h")):
        assert single(f"{name}_{variable}", block).expr == behind(block, stage, name, variable)
    assert str(single("K_h", block)) == "K_h(ℓ+1) = C_W*K_y"
    assert single("V_h", block, Orthogonal()).latex() == r"V_{h}^{(\ell+1)} = C_{W}^{2} V_{y}"
    for name, layer in (("V_x", block), ("V_h", layers.dense()), ("W_h", block), ("V_", block)):
        with pytest.raises(InputError, match="tensor"):
            recursion(name, layer=layer)
    with pytest.raises(InputError, match="behind all stages"):
        flow(Network("tanh", layer="residual"), [1.0], 2, recursion("V_h", layer="residual"))


def test_a_specialised_bracket_says_at_which_kernel_it_is():
    made = single("K", layers.normalized("rms")).specialise("tanh")
    assert str(made) == "K(ℓ+1) = C_W*⟨tanh(z)**2⟩_(1) + C_b"
    assert r"\right\rangle_{1}" in made.latex()
    two = recursion("K", layer=layers.normalized("rms")).specialise("tanh")
    assert "⟩_(1, K[1,2]/(sqrt(K[1,1])*sqrt(K[2,2])), 1)" in str(two)
    assert "⟩_" not in str(recursion("K").specialise("tanh"))


def test_printed():
    made = single("V", layers.normalized("rms", eps=EPS))
    assert made.kernels == {"K_y": K / (K + EPS)}
    assert ", with ⟨…⟩_y at K_y = " in str(made)
    assert r"K_{y} = \frac{K}{K + \varepsilon}" in made.latex()
    steps = made.stages
    assert [[step.name for step in part] for part in steps] == [["K_y", "V_y"], ["V"]]
    assert NAMES["V"] == steps[1][0].target


def test_averages_of_several_inputs_are_printed_with_their_samples():
    """Behind a norm of W s(z) stand averages over one sample each."""
    over = Layer("h[i] = W1[i,a] s(z[a])", "q = h[a] h[a]/n", "z[i] = h[i]/sqrt(q + 1)")
    two = recursion("K", layer=over)
    norms = "sqrt(C_W*⟨σ₁²⟩ + 1)*sqrt(C_W*⟨σ₂²⟩ + 1)"
    assert str(two) == f"K[1,2](ℓ+1) = C_W*⟨σ₁ σ₂⟩/({norms})"
    for sample in (1, 2):
        assert rf"\left\langle \sigma_{{\alpha_{sample}}}^{{2}}\right\rangle" in two.latex()
    assert str(two.single_input()) == "K(ℓ+1) = C_W*⟨σ²⟩/(C_W*⟨σ²⟩ + 1)"
    inner = Layer("h[i] = W1[i,a] s(z[a])", "q = h[a] h[a]/n", "y[i] = h[i]/sqrt(q + 1)",
                  "z[i] = W2[i,a] s(y[a])")  # fmt: skip
    assert f"at K_y[1,2] = C_W*⟨σ₁ σ₂⟩/({norms})" in str(recursion("K", layer=inner))
    derivatives = str(recursion("V", layer=over))
    assert "⟨∂₂∂₂(σ₂²)⟩" in derivatives
    assert "⟨σ²⟩" not in derivatives


def test_a_negative_power_divides():
    over, power = (
        Layer("q = z[a] z[a] / n", f"z[i] = W[i,a] s(z[a] {by})") for by in ("/ q", "* q^-1")
    )
    assert over.stages == power.stages
