"""Hypothesis strategies for networks, so that users' own tests try them all.

    @given(net=networks(ensembles=just(Orthogonal(1))), x=inputs(samples=2))
    def test_my_theory(net, x): ...

They draw from the lists of `examples` and shrink towards dense linear networks with Gaussian
weights and no biases. `flow` and, at any width, `simulate` support every drawn network. Low-rank
weights, whose rank must be an integer, are drawn only if a strategy is given `widths`.

The first flow or simulation of a network takes 0.1 to 20 seconds, more than hypothesis' deadline of
0.2 seconds. `given` and `settings` of this module have no deadline.
Hypothesis, of the extra `wickgarten[test]`, is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from derive.activations.functions import Activation
from derive.errors import InputError, as_integer, as_sequence
from derive.layers.layer import Layer
from derive.network import Network
from derive.weights import WeightEnsemble
from derive.work.faces import public

from . import examples as drawing
from .arrays import Array
from .examples import Choose, Example

if TYPE_CHECKING:
    import hypothesis
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = [
    "activations",
    "ensembles",
    "examples",
    "given",
    "inputs",
    "layers",
    "networks",
    "sample",
    "settings",
]

T = TypeVar("T")
Option = TypeVar("Option")

_LARGEST = 2.0  # component of an input
_SMALLEST = 0.1  # norm of an input


def given(
    *arguments: Any, **strategies: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`hypothesis.given` for a test without a deadline.

    Arguments:
        arguments, strategies: those of `hypothesis.given`.

    If a test needs settings, use `settings` of this module with `hypothesis.given`. Errors are
    those of hypothesis. Nothing is derived here.

    >>> @given(net=networks(), x=inputs())
    ... def test_inputs_are_vectors(net, x):
    ...     assert x.ndim == 1
    >>> test_inputs_are_vectors()
    """
    import hypothesis  # noqa: PLC0415

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        unsettled: Any = hypothesis.given(*arguments, **strategies)
        return cast("Callable[..., None]", settings()(unsettled(test)))

    return decorated


def settings(**options: Any) -> hypothesis.settings:
    """`hypothesis.settings` without a deadline, unless one is given. Nothing is derived here.

    Arguments:
        options: those of `hypothesis.settings`, which also raises the errors.

    >>> settings(max_examples=3).deadline is None
    True
    """
    import hypothesis  # noqa: PLC0415

    return hypothesis.settings(**{"deadline": None, **options})


def activations(*, smooth: bool = False) -> SearchStrategy[Activation]:
    """Named activations and random smooth expressions. The lists are chosen, not derived here.

    Arguments:
        smooth: leave out those with kinks.

    >>> all(sigma.is_smooth for sigma in sample(activations(smooth=True), count=5, seed=0))
    True
    """
    found = _strategy(lambda choose, _: drawing.draw_activation(choose))
    return found.filter(lambda sigma: sigma.is_smooth) if smooth else found


def ensembles(widths: Sequence[int] | None = None) -> SearchStrategy[WeightEnsemble]:
    """Weight ensembles of every kind, with C_W = n_in E[W_ij²] near 1 (source 000, eq. 3.2).

    Arguments:
        widths: the widths of the networks. Ranks n/2 and 2n/3 are drawn if they are integers at all
            widths. By default only ensembles of full rank are drawn, which work at any width.

    Raises InputError for invalid widths.

    >>> all(isinstance(each, WeightEnsemble) for each in sample(ensembles(), count=5, seed=0))
    True
    """
    at = _widths(widths)
    return _strategy(lambda choose, _: drawing.draw_ensemble(choose, at))


def layers() -> SearchStrategy[Layer]:
    """Layers of `derive.layers`: the dense one, norms, residual blocks and gates, with numbers for
    all that they have. The lists are chosen, not derived here.

    >>> all(not layer.free_symbols for layer in sample(layers(), count=5, seed=0))
    True
    """
    return _strategy(lambda choose, _: drawing.draw_layer(choose))


def networks(
    activations: SearchStrategy[Activation] | None = None,
    ensembles: SearchStrategy[WeightEnsemble] | None = None,
    layers: SearchStrategy[Layer] | None = None,
    widths: Sequence[int] | None = None,
) -> SearchStrategy[Network]:
    """Networks of source 000, eq. (3.1), or of other layers, with numbers for all their parameters.

    Arguments:
        activations: a strategy for σ; `activations()` by default.
        ensembles: a strategy for the weights; `ensembles()` by default. Biases, learning rates and
            the first layer's weights are drawn anyway.
        layers: a strategy for the layer; by default `layers()`, but the dense one for weights that
            are neither Gaussian nor blocks of orthogonal ones, and no LayerNorm with kinks.
        widths: the widths at which the networks are simulated; they allow low-rank weights, as in
            `ensembles`.

    Raises InputError for invalid widths.

    >>> from hypothesis.strategies import just
    >>> from derive import Orthogonal
    >>> nets = sample(networks(ensembles=just(Orthogonal())), count=3, seed=0)
    >>> {str(net.weights) for net in nets}
    {'Orthogonal(C_W=1)'}
    """

    at = _widths(widths)

    def build(choose: Choose, draw: DrawFn) -> Network:
        sigma = None if activations is None else draw(activations)
        weights = None if ensembles is None else draw(ensembles)
        layer = None if layers is None else draw(layers)
        return drawing.draw_network(choose, sigma, weights, layer, at)

    return _strategy(build)


def inputs(samples: int | None = 1, size: int | None = None) -> SearchStrategy[Array]:
    """Inputs (n_0,), or (m, n_0) for m = `samples` > 1; 1 or 2 of them and n_0 ≤ 8 if None.

    Components lie between −2 and 2; no input is smaller than 0.1, where tensors vanish: bounds
    chosen, not derived here.

    Arguments:
        samples: m, 1 or more.
        size: n_0, 1 or more.

    Raises InputError for other numbers.

    >>> [x.shape for x in sample(inputs(samples=2, size=3), count=2, seed=0)]
    [(2, 3), (2, 3)]
    """
    from hypothesis import strategies as st  # noqa: PLC0415
    from hypothesis.extra.numpy import arrays  # noqa: PLC0415

    if samples is not None:
        samples = as_integer("samples", samples, 1)
    if size is not None:
        size = as_integer("size", size, 1)
    counts = st.sampled_from((1, 2)) if samples is None else st.just(samples)
    sizes = st.sampled_from(drawing.SIZES) if size is None else st.just(size)
    shapes = st.tuples(counts, sizes).map(lambda shape: shape[1:] if shape[0] == 1 else shape)
    numbers = st.floats(-_LARGEST, _LARGEST)
    return shapes.flatmap(lambda shape: arrays(float, shape, elements=numbers)).filter(
        lambda x: bool((np.linalg.norm(x, axis=-1) >= _SMALLEST).all())
    )


def examples(
    networks: SearchStrategy[Network] | None = None, widths: Sequence[int] | None = None
) -> SearchStrategy[Example]:
    """The examples of `verify`: a network, inputs, a depth, tensors and a seed.

    The tensors are names of source 000's, the leading ones among them.

    Arguments:
        networks: a strategy; `networks(widths=widths)` by default.
        widths: as in `networks`.

    Raises InputError for invalid widths.

    >>> drawn = sample(examples(), count=2, seed=0)
    >>> all(example.depth >= 2 for example in drawn)
    True
    """
    from hypothesis import strategies as st  # noqa: PLC0415

    at = _widths(widths)

    def build(choose: Choose, draw: DrawFn) -> Example:
        net = None if networks is None else draw(networks)
        seed = draw(st.integers(0, drawing.LARGEST_SEED))
        return drawing.draw_example(choose, seed, net, widths=at)

    return _strategy(build)


def sample(strategy: SearchStrategy[T], count: int, seed: int) -> list[T]:
    """The first values that hypothesis draws with this seed: its own choice, not derived here.

    Arguments:
        strategy: what to draw from.
        count: how many; fewer come where the strategy has fewer.
        seed: a whole number; equal seeds give equal values under one version of hypothesis.

    Raises:
        InputError: for what is no strategy.

    >>> from hypothesis.strategies import just
    >>> sample(just(7), count=1, seed=0)
    [7]
    """
    import hypothesis  # noqa: PLC0415
    from hypothesis import HealthCheck, Phase  # noqa: PLC0415
    from hypothesis import seed as seeded  # noqa: PLC0415
    from hypothesis.strategies import SearchStrategy  # noqa: PLC0415

    if not isinstance(strategy, SearchStrategy):
        raise InputError("of", strategy, "a hypothesis strategy, such as testing.networks()")
    found: list[T] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    collect()
    return found[:count]


def _widths(widths: Sequence[int] | None) -> tuple[int, ...]:
    if widths is None:
        return drawing.ANY_WIDTH
    return tuple(as_integer("widths", n, 1) for n in as_sequence("widths", widths, "whole numbers"))


def _strategy(build: Callable[[Choose, DrawFn], T]) -> SearchStrategy[T]:
    from hypothesis import strategies as st  # noqa: PLC0415

    @st.composite
    def drawn(draw: DrawFn) -> T:
        def choose(options: Sequence[Option], /) -> Option:
            return draw(st.sampled_from(options))

        return build(choose, draw)

    return drawn()


public(__name__)
