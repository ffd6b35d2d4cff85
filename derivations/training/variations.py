# %% [markdown]
# # Variations on the training experiments
#
# Appendix B of source 000 changes one thing at a time: $C_W$, the activation, the optimizer, the
# loss. So does the book, on digits; each figure has a shallow network, $L/n \ll 1$, and a deep one.

# %%
"""Figures 15 to 20 of source 000, at the size of the book."""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import NDArray

from derivations.claims import Picture, Sampling, Verdict
from derivations.pictures.panels import panel_grid
from derivations.training import descents, theory
from derivations.training.descents import (
    GUESS,
    HALFWAY,
    LEARNT,
    PLAIN,
    STARTS,
    Descent,
    Runs,
    claim,
    diverged,
    pairs,
    until,
)
from derivations.training.statements import Statement, alike, reproduced, smaller
from numeric.arrays import Array

FAILS = 0.9
"""Of the loss of a guess: a network that stays above it has not been trained."""
ALIKE = 0.25
"""The margin within which losses are nearly identical."""


def runs(how: Descent, sampling: Sampling) -> tuple[Runs, int, int]:
    """By weights and depth, the shallow and the deep one's L; the plain ones are those of Figure 4,
    as long as the others are trained: what they reach later is not compared.

    Up to there the plain ones are looked at less often than the others, at epochs that are spread
    over their longer training (`descents.looked_at`), and at the last one compared: their best loss
    is one of fewer, and until when a loss is reached is read off longer steps."""
    of = descents.size(sampling)
    longest, shown = of.epochs[how != PLAIN], slice(0, of.epochs[1])
    whole = descents.runs(sampling, of.pair, how, epochs=longest)
    found = {
        start: {depth: table.sel(epoch=shown) for depth, table in tables.items()}
        for start, tables in whole.items()
    }
    return found, *of.pair


def about(sampling: Sampling, what: str = "") -> str:
    """The size of one of these figures."""
    of = descents.size(sampling)
    return f"{of}, {of.drawn(*of.pair)}, {of.epochs[1]} epochs for 10⁵{what}"


def picture(sampling: Sampling, how: Descent, **others: Descent) -> Picture:
    """Validation losses by epoch, a panel for each depth; where they are squared, with what theory
    says of epoch 0."""
    of = descents.size(sampling)
    images = descents.split(of.data, of.images, 0).validation
    kinds = [
        (start, label, each) for label, each in {"": how, **others}.items() for start in STARTS
    ]
    figure, (panels,) = panel_grid(1, len(of.pair), (5, 4))
    for panel, depth in zip(panels, of.pair, strict=True):
        lines = [
            (f"{start} {label}".strip(), runs(each, sampling)[0][start][depth])
            for start, label, each in kinds
        ]
        descents.draw(panel, lines, "validation")
        if how.loss == "squared":
            nets = [(each.network(start, depth), depth) for start, _, each in kinds]
            theory.mark(panel, nets, images, of.widths[0])
        panel.set(title=f"L = {depth}", ylabel="validation loss")
    return figure


def share(text: str, each: NDArray[np.bool_], least: float = 0.0, most: float = 1.0) -> Statement:
    """The share of networks that do it lies between these."""
    part = float(np.mean(each))
    return Statement(text, least <= part <= most, f"{int(np.sum(each))} of {np.size(each)}")


def stuck(table: xarray.Dataset) -> NDArray[np.bool_]:
    """Which networks never lose less on validation images than `FAILS` of a guess."""
    return np.asarray(table["validation"].min("epoch").to_numpy() > FAILS * GUESS)


SMALL, LARGE = 0.5, 2
"""C_W of Figures 15 and 16; the text at hand does not give the paper's."""


@claim("Figure 15", "C_W below 1: gradients vanish")
def figure_fifteen(sampling: Sampling) -> Verdict:
    r"""$C_W = 0.5$, which the text does not give. Said of the figure: networks fail to train where
    $L/n \sim 1$; orthogonal ones suffer from the same."""
    how = Descent(C_W=SMALL)
    found, shallow, deep = runs(how, sampling)
    statements = [
        share(f"deep {start} networks fail to train", stuck(found[start][deep]), 1.0)
        for start in STARTS
    ]
    statements += theory.beginnings(how, shallow, sampling)
    return reproduced(
        statements,
        about(sampling, f", C_W = {SMALL}"),
        figures={"training15": picture(sampling, how, critical=PLAIN)},
    )


@claim("Figure 15 (shallow)", "C_W below 1, shallow networks")
def shallow_below(sampling: Sampling) -> Verdict:
    r"""Said of Figure 15: where $L/n \ll 1$ networks "begin training much later" than at $C_W = 1$.
    At $L = 4$ gradients are smaller by $C_W^{3}$ at most."""
    found, shallow, _ = runs(Descent(C_W=SMALL), sampling)
    critical, _, _ = runs(PLAIN, sampling)
    statements = [
        smaller(
            f"shallow {start} networks begin later than at C_W = 1",
            [(until(critical[start][shallow], HALFWAY), until(found[start][shallow], HALFWAY))],
        )
        for start in STARTS
    ]
    return reproduced(statements, about(sampling, f", C_W = {SMALL}"))


@claim("Figure 16", "C_W above 1: gradients explode")
def figure_sixteen(sampling: Sampling) -> Verdict:
    r"""$C_W = 2$, which the text does not give. Said of the figure: an order-one fraction of the
    runs has a diverging loss, and orthogonal networks suffer from exactly the same. A loss that is
    larger at the end than at the beginning is called divergent here, and a deep network whose loss
    stays at that of a guess is told apart."""
    how = Descent(C_W=LARGE)
    found, shallow, deep = runs(how, sampling)
    every = {
        start: np.concatenate([diverged(found[start][depth]) for depth in (shallow, deep)])
        for start in STARTS
    }
    statements = [
        share(f"{start} networks diverge, an order-one fraction", every[start], 0.1)
        for start in STARTS
    ]
    statements += [
        share(f"deep {start} networks are not trained", stuck(found[start][deep]), 0.5)
        for start in STARTS
    ]
    statements += theory.beginnings(how, shallow, sampling)
    return reproduced(
        statements,
        about(sampling, f", C_W = {LARGE}"),
        figures={"training16": picture(sampling, how)},
    )


@claim("Figure 17", "ReLU")
def figure_seventeen(sampling: Sampling) -> Verdict:
    r"""$C_W = 2$, $\lambda_b = \lambda_W = 1/L$. Said of the figure: shallow and deep networks take
    considerably longer to train than with tanh, and orthogonal weights are "only a mild
    improvement, if any"."""
    how = Descent("relu", 2, rates="depth")
    found, shallow, deep = runs(how, sampling)
    tanh, _, _ = runs(PLAIN, sampling)
    depths = shallow, deep
    statements = [
        smaller(
            f"{start} ReLU networks take longer than tanh ones",
            [
                (until(tanh[start][depth], HALFWAY), until(found[start][depth], HALFWAY))
                for depth in depths
            ],
        )
        for start in STARTS
    ]
    statements.append(
        smaller(
            "orthogonal weights gain less than a third of the best loss",
            [(gaussian, 1.5 * orthogonal) for orthogonal, gaussian in pairs(found, depths)],
        )
    )
    return reproduced(
        statements, about(sampling), figures={"training17": picture(sampling, how, tanh=PLAIN)}
    )


@claim("Figure 18", "ordinary gradient descent")
def figure_eighteen(sampling: Sampling) -> Verdict:
    r"""$\eta = 10/n$ without $\lambda$. Said of the figure: Gaussian and orthogonal networks are
    nearly identical at $L/n \ll 1$, orthogonal ones clearly superior at
    $L/n \sim 1$."""
    of = descents.size(sampling)
    plain = Descent(optimizer="ordinary", eta=10 / of.widths[0])
    found, shallow, deep = runs(plain, sampling)
    statements = [
        alike("shallow networks end nearly alike", pairs(found, [shallow]), ALIKE),
        smaller("deep orthogonal ones end better", pairs(found, [deep])),
        smaller("they train faster", pairs(found, [deep], "halfway")),
    ]
    return reproduced(
        statements,
        about(sampling),
        figures={"training18": picture(sampling, plain, tensorial=PLAIN)},
    )


@claim("Figure 18 (optimizers)", "ordinary against tensorial descent")
def optimizers(sampling: Sampling) -> Verdict:
    r"""Said of Figures 4 and 18: for orthogonal networks at $L/n \sim 1$ ordinary descent has a
    clear advantage over the tensorial one; at $L/n \ll 1$ it trains faster. By the epoch
    at which a loss of 0.05 is reached."""
    of = descents.size(sampling)
    found, shallow, deep = runs(Descent(optimizer="ordinary", eta=10 / of.widths[0]), sampling)
    scaled, _, _ = runs(PLAIN, sampling)
    one = found["orthogonal"][deep], scaled["orthogonal"][deep]
    statements = [
        smaller("deep orthogonal networks train faster by ordinary descent", [_reach(*one)]),
        smaller(
            "so do shallow networks",
            [_reach(found[start][shallow], scaled[start][shallow]) for start in STARTS],
        ),
    ]
    return reproduced(statements, about(sampling))


def _reach(one: xarray.Dataset, other: xarray.Dataset) -> tuple[Array, Array]:
    return until(one, LEARNT), until(other, LEARNT)


@claim("Figure 19", "Adam")
def figure_nineteen(sampling: Sampling) -> Verdict:
    r"""Adam with $\eta = 10^{-3}$. Said of the figure: orthogonal networks outperform Gaussian ones
    away from the infinite-width limit."""
    how = Descent(optimizer="adam", eta=1e-3)
    found, _, deep = runs(how, sampling)
    statements = [
        smaller("deep orthogonal networks end better", pairs(found, [deep])),
        smaller("they train faster", pairs(found, [deep], "halfway")),
    ]
    return reproduced(statements, about(sampling), figures={"training19": picture(sampling, how)})


@claim("Figure 20", "cross-entropy")
def figure_twenty(sampling: Sampling) -> Verdict:
    r"""Cross-entropy of sigmoids over their sum, $\eta = 10$. Said of the figure: at $L/n \ll 1$
    Gaussian and orthogonal networks perform alike; at $L/n \sim 1$ the Gaussian one fails to train,
    its loss only briefly below that of a random classifier, $\log 10$; the orthogonal one does
    train, overfits soon, and comes to a lower loss."""
    how = Descent(loss="sigmoid cross-entropy")
    found, shallow, deep = runs(how, sampling)
    guess = float(np.log(10))
    ends = found["Gaussian"][deep]["validation"].isel(epoch=-1).to_numpy()
    low = found["orthogonal"][deep]["validation"]
    early = low["epoch"].to_numpy()[low.argmin("epoch").to_numpy()]
    statements = [
        alike("shallow networks perform alike", pairs(found, [shallow]), 1 / 3),
        share("deep Gaussian ones end at or above log 10", ends >= guess * 0.99, 0.5),
        share(
            "deep orthogonal ones train: a tenth below it at their best",
            low.min("epoch").to_numpy() < FAILS * guess,
            0.5,
        ),
        share(
            "they overfit before half of the epochs",
            early < low["epoch"].to_numpy()[-1] / 2,
            0.5,
        ),
        smaller("their best loss is the smaller one", pairs(found, [deep])),
    ]
    return reproduced(statements, about(sampling), figures={"training20": picture(sampling, how)})
