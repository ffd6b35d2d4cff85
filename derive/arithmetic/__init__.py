"""Exact and enclosed arithmetic: polynomials, rational functions, rings, series, balls."""

from . import balls, hermite, powerseries, trapezoid
from .ballring import BallRing
from .logseries import EXACT, LogSeries, solve_linear
from .parameters import C_B, C_W, LAMBDA_B, LAMBDA_W, Parameter
from .polynomials import UNIT, Expansion, add, constant, monomial, multiply, multiply_all, power
from .rational import RationalFunction, Term
from .rings import ring

__all__ = [
    "C_B",
    "C_W",
    "EXACT",
    "LAMBDA_B",
    "LAMBDA_W",
    "UNIT",
    "BallRing",
    "Expansion",
    "LogSeries",
    "Parameter",
    "RationalFunction",
    "Term",
    "add",
    "balls",
    "constant",
    "hermite",
    "monomial",
    "multiply",
    "multiply_all",
    "power",
    "powerseries",
    "ring",
    "solve_linear",
    "trapezoid",
]
