"""`recursion("V", weights=Orthogonal())`: one tensor at layer ℓ+1 in terms of layer ℓ, derived."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain, permutations
from typing import Any, TypeAlias

import sympy

from .activations.functions import Activation, as_activation
from .arithmetic.polynomials import UNIT, Expansion, atoms_in, of_kind
from .citations import rests_on
from .deep.diffusion import Diffusion, Shape, diffusion
from .depth.asymptotics import Asymptotics, asymptotics
from .depth.criticality import OF_A_BATCH
from .display import lines
from .engine import functionals, skip_closure
from .engine.factored import polynomial
from .engine.fields import AnyField
from .engine.norms import norm_of
from .engine.orbits import orbits, representative
from .engine.scheme import group_of
from .engine.skips import is_skip
from .engine.stages import STEM, Stage
from .engine.step import Composed, Step, check_alone, checked_fields, step
from .engine.taps import MOVED, over_taps
from .engine.tensors import (
    FIRST_ORDER,
    NAMES,
    Name,
    Tensor,
    add_name,
    canonical,
    identify,
    kernel_label,
    named,
    target,
)
from .engine.trees import STREAM
from .engine.variances import unbound
from .errors import InputError, Words, as_integer, as_sequence, flag
from .gaussian.brackets import Average, Bracket, Component, GaussianAverage, unspecified
from .gaussian.kernel_form import kernel_form
from .groups.pairings import Blocks
from .layers import Layer, as_period, dense
from .layers.by_depth import ByDepth, Given, as_layers
from .layers.chain import Activations, GivenActivations
from .network import Network, Pattern
from .symbols import tensor as tensor_symbol
from .weights import Gaussian, WeightEnsemble, as_weights


@dataclass(frozen=True, repr=False)
class Recursion(Step):
    """T^{(ℓ+1)} as a polynomial in hyperparameters, tensors and Gaussian brackets of layer ℓ.

    Attributes:
        target: the cumulant, order and pairing this is the coefficient of.
        weights: the ensemble it was derived for; its C_W stays the symbol C_W.
        samples: the sample label of each subscript of the target.
        activation: the activation, or None for the unspecified σ.
        equal_widths: whether all widths are n; else they are r_in n and, for the Haar matrix,
            r_big n.
        corrections: how many 1/n parts C_W and C_b have: C_W + C_W1/n + C_W2/n² + …
        left_out: which of weights, equal_widths and corrections are defaults that nobody asked for.
        layer: what the network repeats, None for the dense layer.
        stage: the stage that it leads through, None for all of those of the layer.
        ties: of a stage with taps, which pairs of the target have one tap, for one of its `parts`.
        group: the group that keeps the law of all layers: rotations "O" or signed permutations "B".
        along: the layers of the network, where its first or last ones are not those that repeat.

    >>> vertex = recursion("V").single_input()
    >>> vertex.depends_on
    ('K', 'V')
    >>> vertex.expr
    C_W**2*(V*⟨(σ²)''⟩**2/4 - ⟨σ²⟩**2 + ⟨σ⁴⟩)
    """

    along: ByDepth | None = None

    @property
    def first_layer(self) -> bool:
        """True if layer ℓ is the inputs, with the kernel K0 = xᵀx/n_0."""
        return self.stage == STEM

    def kernel_form(self, data: Sequence[int] | None = None) -> sympy.Expr:
        """`expr` with ⟨σσ(zz − K)⟩ and inverse kernels for the derivatives, as in the papers.

        With several inputs the sums run over `data`, or stay raised indices
        (`derive.gaussian.kernel_form`). Behind a layer the brackets are at `kernels`.

        >>> print(recursion("K", layer="normalized(rms)").kernel_form())
        C_W*⟨σ₁ σ₂⟩_y + C_b
        """
        self._check_without_batch("functions of one sample, for this form")
        return kernel_form(self, data)

    def exchangeable(self, m: int | sympy.Symbol | None = None) -> dict[str, OrbitRecursion]:
        """The recursion of each orbit of the tensor's entries, at m exchangeable inputs.

        An entry of layer ℓ is written as the one that represents its orbit, as V[1,1,2,3] for
        V[2,2,1,4], and so is an average. No sum over the batch occurs, so nothing depends on m but
        which orbits there are.

        Arguments:
            m: how many samples there are; by default, and for a symbol, enough for all orbits.

        Raises:
            InputError: behind a skip around one matrix, for layers with positions, and for
                functions of all samples, whose recursions have sums over the batch.

        >>> print(recursion("V").exchangeable()["(11)(22)"])
        V[1,1,2,2](ℓ+1) = C_W**2*(⟨σ₁² σ₂²⟩ + V[1,1,2,2]*⟨∂₁∂₁(σ₁²)⟩**2/4 - ⟨σ₁²⟩**2)
        """
        self._check_without_batch("functions of one sample, for the recursions of orbits")
        positions = any(stage.relates_positions for stage in self.layer_stages)
        if type(self) is not Recursion or positions:
            wanted = "a layer without positions, and without a skip around one matrix"
            raise InputError("layer", str(self.layer), wanted)
        most = len(self.target.subscripts)
        samples = most if m is None or isinstance(m, sympy.Symbol) else as_integer("m", m, 1)
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            label: OrbitRecursion(**known | {"samples": tuple(1 + at for at in own[0])})
            for label, own in orbits(self.target, samples).items()
        }

    def asymptotics(
        self, activation: GivenActivations | None = None, terms: int = 2, **rates: Any
    ) -> Asymptotics:
        """The tensor at large depth and criticality, to so many terms (`derive.depth.asymptotics`).

        Arguments:
            activation: σ, or its name; by default the recursion's own. For "tanh; gelu*", the
                repeated one, gelu, is used; "gelu*; tanh" ends in a layer that applies tanh.
            terms: how many, 1 or more.
            rates: `lambda_b` and `lambda_W`, expressions in `symbols.ell`; 1/ℓ and 1 by default.
                `C_b` and `C_W` of a network that is not critical, or `point`, one of
                `criticality(activation).points`.

        Raises InputError where there is no activation, and as `derive.depth.asymptotics` does.
        """
        sigma = self.activation if activation is None else activation
        if sigma is None:
            raise InputError("activation", None, "an activation of derive.activations")
        repeated = Activations.repeated(sigma)
        self._check_without_batch(OF_A_BATCH)
        stem, head = self.single_input().pattern(sigma).ends
        return asymptotics(self, repeated, terms, stem=stem, head=head, **rates)

    def diffusion(
        self, shape: Shape | None = None, C_W: sympy.Expr | float | str | None = None
    ) -> Diffusion:
        """Of K: its drift and diffusion at a depth in proportion to the width (`derive.deep`).

        dK = b dr + dM in the time r = ℓ/n, with b = lim n(K' − K) and d⟨M, M⟩ = Σ dr, the source
        of V. Derived here; for shaped activations it is that of Li, Nica and Roy (2022).

        Arguments:
            shape: σ, which may have the width n in it, as "sqrt(n)*tanh(z/sqrt(n))". Left out, σ
                stays open, and the drift is n(K' − K).
            C_W: the weight variance, which may have n in it; by default the one at which K = 1 of
                one input stays.

        Raises InputError for other tensors than K, for layers with positions, and where K' − K is
        not of order 1/n.

        >>> print(recursion(["z", "z"]).diffusion("sqrt(n)*tanh(z/sqrt(n))"))
        b[1,2] = -(K[1,1] + K[2,2] - 2)*K[1,2]
        Σ[1,2,3,4] = K[1,3]*K[2,4] + K[1,4]*K[2,3]
        """
        return diffusion(self, shape, C_W)

    def pattern(
        self, activation: GivenActivations, first_weights: WeightEnsemble | None = None
    ) -> Pattern:
        """The schemes of a network of these layers and activations, at any depth; a readout, if
        there is one, is the last layer.

        Arguments:
            first_weights: the ensemble of layer 1, where it is another than the recursion's.
        """
        layers = self.along or self.layer or dense()
        assert isinstance(layers, Layer | ByDepth)
        self._check_without_batch("functions of one sample")
        net = Network(activation, self.weights, first_weights, layer=layers)
        found = net.pattern(1 if self.is_single_input else 2)
        equal_widths, corrections = self.equal_widths, self.corrections
        own = (
            replace(x, equal_widths=equal_widths, corrections=corrections) for x in found.distinct
        )
        return found._replace(distinct=tuple(own)).read_out()


class OrbitRecursion(Recursion):
    """The recursion of one orbit at exchangeable inputs, in terms of those of layer ℓ."""

    is_single_input = False

    @cached_property
    def expr(self) -> sympy.Expr:
        """The right-hand side; each component and each average is the first of its orbit."""
        found = super().expr
        return found.xreplace({each: _first(each.bracket) for each in found.atoms(Average)})

    def _component(self, atom: Tensor) -> sympy.Expr:
        name, samples = identify(atom)
        own = tuple(1 + at for at in representative(name, samples))
        return Component(name.label + self.through.below.mark, own)

    def check_repeats(self, argument: str, got: object, wanted: str) -> None:
        """Raise InputError: what runs or solves recursions takes the one of all entries."""
        cure = "the recursion itself; its kernels may be Exchangeable(m, q, p).kernel(4)"
        raise InputError(argument, Words(f"the orbit {self.samples} of {self.name}"), cure)

    def asymptotics(
        self, activation: GivenActivations | None = None, terms: int = 2, **rates: Any
    ) -> Asymptotics:
        """InputError: only recursions of one input are solved at large depth."""
        wanted = "a recursion of one input: the limits and rates of a batch have numbers alone, in "
        wanted += "`numeric.propagation.fixed_points(net, Exchangeable(m, q, p))`"
        raise InputError("self", Words(f"the orbit {self.samples} of {self.name}"), wanted)

    def _kernel(self, label: str) -> Callable[[int, int], sympy.Expr]:
        return lambda a, b: Component(label, (1, 1 if a == b else 2))


def _first(bracket: Bracket) -> Average:
    """The average with its samples permuted so that it comes first."""
    samples = bracket.samples
    numbers = range(1, 1 + len(samples))
    every = (dict(zip(samples, order, strict=True)) for order in permutations(numbers))
    moved = (bracket.relabelled(to.__getitem__) for to in every)
    alike = (
        each._replace(factors=tuple(sorted(each.factors)), outer=tuple(sorted(each.outer)))
        for each in moved
    )
    return unspecified(min(alike))


class SequenceRecursion(Recursion):
    """G1, V, Θ1, D, F, A, B or P … U behind a skip around one matrix, closed on sequences;
    behind a norm V_e, V_v and V_w are V_s with yσσ', yσ'² and yσ'σ'' in the place of σ².

    V = n Cov(z_i², z_j²), D = n Cov(H_ii, z_j²), F = n E H_ij z_i z_j, A = n Cov(H_ii, H_jj) and
    B = n E H_ij² are of two different neurons. `expr` has beside tensors and brackets the same with
    σ², σσ' and σ'² in the place of a z_i or z_j² or 1, as V_s, D_s, F_u and B_t, and G1_s, n times
    what σ² has beyond its Gaussian average; `sequences` says how those move, with one input.

    >>> made = recursion("V", layer="skip(1/2)").single_input()
    >>> made.depends_on, list(made.sequences)[0]
    (('K', 'V'), V_s)
    """

    @cached_property
    def composed(self) -> Composed:
        """The right-hand side; its brackets are at K, or behind a norm at the kernel of y."""
        label = kernel_label(self.through.argument_kinds[0])
        alike = self.is_single_input or not self.through.taps.moves
        found = polynomial(self._own_terms, self.symbol) if alike else self._over_taps()
        if label == "K":
            return Composed(found, {})

        def kernel(a: int, b: int) -> sympy.Expr:
            scales = self._scale_of(a) * self._scale_of(b)
            return sympy.simplify(scales * self._kernel("K")(a, b))

        if self.through.sigma_at(label, self.activation) is None:
            return Composed(found, {label: kernel(1, 1 if self.is_single_input else 2)})
        if self.is_single_input:
            return Composed(found.subs(tensor_symbol(label), kernel(1, 1)), {})
        entries = {each for each in found.atoms(Component) if str(each.args[0]) == label}
        return Composed(found.xreplace({e: kernel(*map(int, e.args[1])) for e in entries}), {})

    @property
    def _scale(self) -> sympy.Expr:
        """f of y = f z, the argument of σ."""
        return self._scale_of(self.samples[0])

    def _scale_of(self, sample: int) -> sympy.Expr:
        norm = norm_of(self.layer_stages)
        return sympy.Integer(1) if norm is None else self.symbol(norm.scale(sample))

    @property
    def gamma(self) -> sympy.Expr:
        """γ, the skip."""
        right = self.through.equation(STREAM).right
        carried = {(each.parameters, 0): each.coefficient for each in right if not each.weight}
        return polynomial(carried, self.symbol)

    @cached_property
    def _open(self) -> tuple[tuple[Stage, ...], WeightEnsemble]:
        """The stages with a general σ, and the law of the matrix."""
        *before, last = self.layer_stages
        if self.is_single_input:
            self._check_constant(last.taps)
            last = replace(last, taps=last.taps.constant)
        stage, law = unbound(last, self.weights)
        return (*before, stage), law

    @property
    def _own_terms(self) -> Expansion:
        return skip_closure.recursion_of(canonical(self.target), *self._open, self.samples)

    def _over_taps(self) -> sympy.Expr:
        """The right-hand side, each term under a sum over the taps that move samples in it."""
        total, taps = sympy.Integer(0), self.through.taps
        for key, value in self._own_terms.items():
            moved: dict[int, set[int]] = {}
            factors = [sympy.Integer(1), polynomial({(UNIT, 0): value}, self.symbol)]
            for atom, exponent in key[0]:
                found = self.symbol(atom) ** exponent
                parts = found.atoms(Component, Average, GaussianAverage)
                labels = {int(n) for each in parts for n in each.atoms(sympy.Integer) if n > MOVED}
                for label in labels:
                    moved.setdefault(label // MOVED, set()).add(label % MOVED)
                to = {sympy.Integer(n): sympy.Integer(n % MOVED) for n in labels}
                factors[not labels] *= found.xreplace({each: each.xreplace(to) for each in parts})
            if moved and taps.past is not None:
                wanted = "K and Theta alone, with a skip past one matrix from positions to others"
                raise InputError("tensors", str(self.name), wanted)
            scale = sympy.Rational(1, taps.count) ** len(moved)
            blocks = [sorted(moved[tap]) for tap in sorted(moved)]
            total += scale * factors[1] * over_taps(factors[0], taps, blocks)
        return total

    def symbol(self, atom: object) -> sympy.Expr:
        """The expression of an atom in `expr`."""
        found = functionals.symbol_of(atom, self.samples)
        return super().symbol(atom) if found is None else found

    @cached_property
    def _closure(self) -> dict[str, set[tuple[tuple[int, int], ...]]]:
        """The functionals that are needed, with the products that each is taken of."""
        found = functionals.kinds_in([self._own_terms])
        while True:
            terms = [self._moves(kind) for kind in found]
            grown = functionals.kinds_in([self._own_terms, *terms])
            if grown == found:
                return {kind: found[kind] for kind in skip_closure.SEQUENCES if kind in found}
            found = grown

    def _moves(self, kind: str) -> Expansion:
        return skip_closure.functional_of(kind, *self._open)

    @property
    def sequences(self) -> dict[sympy.Expr, sympy.Expr]:
        """Sequences and their values, with one input: D_s, … as sums over b, the known members,
        and how a member moves; empty with several samples."""
        if not self.is_single_input:
            return {}
        found: dict[sympy.Expr, sympy.Expr] = {}
        for kind, products in self._closure.items():
            sequence, terms, scale = functionals.SEQUENCE[kind], self._moves(kind), self._scale
            for factors in sorted(products):
                value = functionals.value_of(kind, factors, scale)
                found[tensor_symbol(functionals.value_name(kind, factors))] = value
            if kind in skip_closure.MEMBERS:
                name, degree = skip_closure.MEMBERS[kind]
                found[sequence[degree]] = tensor_symbol(str(name))
            for b in (*functionals.special(kind, terms), None):
                left = sequence[functionals.B if b is None else b]
                above = functionals.member(terms, self.gamma, self.symbol, scale, b)
                found[_above(left)] = above
        return found

    @property
    def needs(self) -> tuple[Name, ...]:
        """The tensors of `depends_on`."""
        terms = [self._own_terms, *map(self._moves, self._closure)]
        atoms = of_kind(chain.from_iterable(map(atoms_in, terms)), Tensor)
        found = {identify(atom)[0] for atom in atoms}
        members = (kind for kind in self._closure if kind in skip_closure.MEMBERS)
        found |= {named("K"), *(skip_closure.MEMBERS[kind][0] for kind in members)}
        return tuple(name for name in NAMES.values() if name in found)

    def asymptotics(
        self, activation: GivenActivations | None = None, terms: int = 2, **rates: Any
    ) -> Asymptotics:
        """InputError: a sequence has no end, and is not solved at large depth but by `flow`."""
        wanted = "another layer for asymptotics; `flow` goes to any depth, also with a sequence"
        raise InputError("layer", str(self.layer), wanted)

    def __str__(self) -> str:
        stated = (lines.text(f"{left} = {right}") for left, right in self.sequences.items())
        return "\n  with ".join([super().__str__(), *stated])

    def latex(self, expr: sympy.Expr | None = None, width: int | None = lines.WIDTH) -> str:
        """The equation in LaTeX, and the sequences."""
        parts = [super().latex(expr, width)]
        for left, right in self.sequences.items():
            name = sympy.latex(left)
            if left in _ABOVE:
                name = rf"{sympy.latex(_ABOVE[left])}^{{(\ell+1)}}"
            parts.append(rf"{name} = {sympy.latex(right)}")
        return r",\quad ".join(parts)


def _above(member: sympy.Expr) -> sympy.Symbol:
    """A member of a sequence in the layer above."""
    return sympy.Symbol(f"{member}(ℓ+1)")


_ABOVE = {
    _above(sequence[b]): sequence[b]
    for kind, sequence in functionals.SEQUENCE.items()
    for b in (1, 2, 3, 4, functionals.B)
}


def _closed(
    given: str | Name | Sequence[str | AnyField],
    pairing: Blocks | str | None,
    order: int,
    stages: Sequence[Stage],
) -> Name | None:
    """G1, V or what is closed of the tower, where that is what is meant."""
    if not is_skip(stages) or not skip_closure.closes(tuple(stages)):
        return None
    behind = norm_of(stages) is not None
    known = [
        each
        for each in skip_closure.SKIP_TENSORS
        if not (behind and each in skip_closure.SKIP_TENSORS_WITH_DDH)
    ]
    if isinstance(given, str | Name):
        check_alone(pairing, order)
        name = named(given) if isinstance(given, str) else given
    else:
        name = target(checked_fields(given), pairing, order)
    return next((each for each in known if each == canonical(name)), None)


@rests_on("day2025", "roberts2022")
def recursion(
    tensor_name: str | Name | Sequence[str | AnyField],
    weights: WeightEnsemble | str | None = None,
    *,
    pairing: Blocks | str | None = None,
    order: int = 0,
    activation: Activation | str | None = None,
    first_layer: bool = False,
    equal_widths: bool | None = None,
    corrections: int | None = None,
    layer: Given | None = None,
    square: bool | None = None,
) -> Recursion:
    """Derive how a tensor moves from layer ℓ to ℓ+1, from the forward equation alone.

    Arguments:
        tensor_name: a name, "K", "G1", "V", … or "kappa(z,z,H|01 23)"; "V_y" of a layer's own
            variable y, through the stage that makes it; or a list of fields,
            ["z", "z", "H"], whose joint cumulant is n^{1−m} Σ_p δ_p(i) Σ_g n^{−g} T^g_p. A field
            is "z", "H", "dH", "ddI", "ddII", a tree of derivatives (`engine.fields.Field`) or
            a forward equation of one's own (`derive.Equation`).
        weights: the ensemble of layer ℓ+1, or its name; `Gaussian()` by default. C_W stays a
            symbol.
        pairing: for a list of fields, the pairing p of their neural indices, such as "01 23" or
            ((0, 1), (2, 3)); it may be left out where all pairings are alike. Under weights that
            permutations alone keep also a set partition into even blocks, "0123", in which all
            indices of a block are equal.
        order: for a list of fields, the relative order g in 1/n.
        activation: specialise at once; otherwise σ is unspecified.
        first_layer: layer 1 in terms of the inputs' K0 = xᵀx/n_0 (n_0 = r_in n).
        equal_widths: False keeps unequal widths: n_ℓ = r_in n; True by default.
        corrections: give C_W and C_b so many 1/n parts, 0 by default: C_W + C_W1/n + … (source
            000, eq. 5.28).
        layer: what the network repeats, of `derive.layers`, or its text, such as
            "residual(skip=1, norm=rms)"; the dense layer by default. Of "dense; residual*; dense"
            it is the residual one; asymptotics and written modules take the others, too.
        square: the name of `equal_widths` before 1.0; deprecated.

    Derived here by `cumulants`; source 000 eqs. (5.3), (5.16), (5.25) are what K, V, G1 must meet.

    Raises:
        InputError: unknown tensor or field, an odd number of neural indices, an ambiguous pairing.

    >>> recursion("K")
    K[1,2](ℓ+1) = C_W*⟨σ₁ σ₂⟩ + C_b
    >>> recursion(["z", "z", "H"], pairing="02 13").name
    'F'
    """
    if square is not None:
        warnings.warn("square is called equal_widths", DeprecationWarning, stacklevel=2)
        equal_widths = square
    repeated = None if layer is None else as_period(layer).staged
    layers = as_layers(layer) if isinstance(layer, str) else layer
    along = layers if isinstance(layers, ByDepth) and layers.block != layers.entries else None
    stage = STEM if flag("first_layer", first_layer) else None
    if stage is not None and repeated is not None:
        wanted = "no layer with first_layer=True: layer 1 is always z = b + W x"
        raise InputError("layer", str(repeated), wanted)
    if repeated is not None:
        name = _closed(tensor_name, pairing, order, repeated.stages)
        if name is not None:
            if equal_widths is False or corrections:
                wanted = (
                    "equal widths and variances without corrections, with a skip around one matrix"
                )
                raise InputError("equal_widths, corrections", (equal_widths, corrections), wanted)
            own = Gaussian() if weights is None else as_weights("weights", weights)
            left_out = frozenset({"weights"} if weights is None else ())
            sigma = None if activation is None else as_activation(activation)
            given = name, own, tuple(range(1, 2 * len(name.pairing) + 1)), sigma
            group = group_of(own, repeated)
            return SequenceRecursion(
                *given, left_out=left_out, layer=repeated, stage=None, group=group
            )
    made = step(
        tensor_name,
        weights,
        pairing=pairing,
        order=order,
        activation=activation,
        equal_widths=equal_widths,
        corrections=corrections,
        layer=repeated,
        stage=stage,
    )
    known = {each.name: getattr(made, each.name) for each in fields(made)}
    return Recursion(**known, along=along if along and along.block else None)


Wanted: TypeAlias = "str | Name | Recursion"
"""A tensor, by its label, as it is, or as what a recursion has on its left."""


def wanted(
    tensors: Wanted | Iterable[Wanted], net: Network | None = None, depth: int = 1
) -> tuple[Name, ...]:
    """The tensors that were asked for, each once: names, recursions (what is on their left), "all".

    "all" are those of order 1/n, `engine.tensors.FIRST_ORDER`. Raises InputError for what is no
    tensor, and for a recursion of another network than `net`, to this depth.
    """
    known = f"one or more of {', '.join(NAMES)}"
    kinds = (str, Name, Recursion)
    items = [tensors] if isinstance(tensors, kinds) else as_sequence("tensors", tensors, known)
    found: dict[str, Name] = {}
    for item in items:
        if not isinstance(item, kinds):
            raise InputError("tensors", item, "names of tensors, or recursions")
        if isinstance(item, Recursion) and net is not None:
            _check_same(item, net, depth)
        for each in FIRST_ORDER if isinstance(item, str) and item == "all" else (item,):
            add_name(found, _name_of(each))
    if not found:
        raise InputError("tensors", items, known)
    return tuple(found.values())


def _name_of(item: Wanted) -> Name:
    if isinstance(item, Recursion):
        return item.target
    return named(item) if isinstance(item, str) else item


def _check_same(made: Recursion, net: Network, depth: int) -> None:
    """Refuse a recursion that was derived for another network: the network's own would be run.

    What was left out when it was derived differs from nothing, and symbols among the ensemble's
    parameters stand for any number.
    """
    depth = max(depth, 2)
    own, hidden = dense() if made.layer is None else made.layer, range(2, depth + 1)
    layers = {net.layer_at(layer, depth) for layer in hidden}
    laws = {net.weights_at(layer, depth=depth) for layer in hidden}
    used = {net.activation_at(layer - 1, depth) for layer in hidden}
    wanted = "one of a hidden layer, behind all stages, or a name"
    above = f"a recursion of {made.name} at layer {made.through.below.above}"
    made.check_repeats("tensors", above, wanted)
    if not all(own.equations == each.equations for each in layers):
        what, wanted = f"layer {own}", f"the network's {net.layer}"
    elif "weights" not in made.left_out and not all(_covers(made.weights, law) for law in laws):
        what, wanted = f"weights {made.weights}", f"the network's {net.weights}"
    elif made.activation is not None and not all(_equal(made.activation, each) for each in used):
        what, wanted = f"activation {made.activation}", f"the network's {net.activation}"
    elif "corrections" not in made.left_out and made.corrections != net.corrections:
        what, wanted = f"corrections={made.corrections}", f"the network's {net.corrections}"
    elif (
        "equal_widths" not in made.left_out
        and made.equal_widths
        and not net.has_equal_widths(depth)
    ):
        what, wanted = "equal_widths=True", "equal_widths=False, for the network's unequal widths"
    else:
        return
    raise InputError("tensors", f"a recursion of {made.name} with {what}", f"{wanted}, or a name")


def _equal(one: Activation, other: Activation) -> bool:
    return one.expr == other.expr or bool(sympy.simplify(one.expr - other.expr) == 0)


def _covers(own: WeightEnsemble, other: WeightEnsemble) -> bool:
    """True if both are equal, apart from a C_W and parameters that are symbols or left out."""

    variance = sympy.sympify(own.C_W)
    if own.is_scaled and variance.is_number and variance != other.C_W:
        return False

    def matches(name: str) -> bool:
        value, number = getattr(own, name), getattr(other, name)
        symbolic = sympy.Tuple(*value) if type(value) is tuple else value
        return value in (number, ()) or bool(getattr(symbolic, "free_symbols", ()))

    same = type(own) is type(other)
    return same and all(matches(each.name) for each in fields(own) if each.name != "C_W")
