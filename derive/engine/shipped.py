"""Prototype: the shipped layers as stages."""
from fractions import Fraction
import sympy
from ..arithmetic.parameters import C_W, Parameter
from ..arithmetic.polynomials import power, UNIT
from .fields import Kind, STREAM
from .stages import *

q = sympy.Symbol("q", positive=True)
m = sympy.Symbol("m", real=True)
NORMED = Kind("y", "z")
HIDDEN = Kind("h", "h")
GATE = Kind("g", "g")


def scale_of(kind, eps, norm):
    """y_i = z_i / √(q + ε), or of q − m²."""
    mean = Mean(q, (Variable(kind, HERE), Variable(kind, HERE)), kind.space)
    if norm == "rms":
        return (mean,), ((q + eps) ** sympy.Rational(-1, 2),), (0,)
    centre = Mean(m, (Variable(kind, HERE),), kind.space)
    return (mean, centre), ((q - m**2 + eps) ** sympy.Rational(-1, 2),), (0, 0)


def carried(kind, skip=UNIT):
    return Equation((Product((Variable(kind, LEFT),), parameters=skip),))


def normalise(eps, norm, carry):
    means, functions, orders = scale_of(STREAM, eps, norm)
    y = Equation((Product((Variable(STREAM, LEFT), Collective(0, orders))),))
    keep = ((STREAM, carried(STREAM)),) if carry else ()
    return Stage(((NORMED, y), *keep), (), (), means, functions)


def linear(source, norm, matrix):
    """Σ_k W[i,k] (v_k − m)."""
    body = Product((Variable(source, 0),), ((0, source.space),), (), (matrix, 0))
    if norm != "layer":
        return (body,)
    off = Product((Collective(0, (0,)),), ((0, source.space),), (), (matrix, 0), Fraction(-1))
    return (body, off)


def centre_of(source, norm):
    if norm != "layer":
        return (), ()
    return (Mean(m, (Variable(source, HERE),), source.space),), (m,)


def applied(source, norm):
    """The argument v_a − m."""
    plain = Product((Variable(source, HERE),))
    if norm != "layer":
        return (plain,)
    return (plain, Product((Collective(0, (0,)),), coefficient=Fraction(-1)))


def dense_on(source, norm, matrix):
    means, functions = centre_of(source, norm)
    right = Product((Function(0, 0, 0),), ((0, source.space),), (), (0, 0))
    return Stage(((STREAM, Equation((right,), True)),), (matrix,), (applied(source, norm),), means, functions)


def dense():
    return (dense_on(STREAM, None, Matrix(C_W, "z", "z")),)


def normalized(norm, eps=0):
    return (normalise(eps, norm, False), dense_on(NORMED, norm, Matrix(C_W, "z", "z")))


def residual(skip=Parameter("gamma"), norm=None, eps=0, C=(Parameter("C_1"), Parameter("C_2"))):
    first = () if norm is None else (normalise(eps, norm, True),)
    source = STREAM if norm is None else NORMED
    means, functions = centre_of(source, norm)
    one = Stage(((HIDDEN, Equation(linear(source, norm, 0))), (STREAM, carried(STREAM))), (Matrix(C[0], "z", "h"),), (), means, functions)
    inner = Product((Function(0, 0, 0),), ((0, "h"),), (), (0, 0))
    right = (*carried(STREAM, power(skip, 1)).right, inner)
    two = Stage(((STREAM, Equation(right, True)),), (Matrix(C[1], "h", "z"),), ((Product((Variable(HIDDEN, HERE),)),),))
    return (*first, one, two)


def gated(skip=None, norm=None, eps=0, C=(Parameter("C_1"), Parameter("C_2"), Parameter("C_3"))):
    first = () if norm is None else (normalise(eps, norm, skip is not None),)
    source = STREAM if norm is None else NORMED
    means, functions = centre_of(source, norm)
    keep = () if skip is None else ((STREAM, carried(STREAM)),)
    one = Stage(((HIDDEN, Equation(linear(source, norm, 0))), (GATE, Equation(linear(source, norm, 1))), *keep), (Matrix(C[0], "z", "h"), Matrix(C[1], "z", "h")), (), means, functions)
    inner = Product((Variable(HIDDEN, 0), Function(0, 0, 0)), ((0, "h"),), (), (0, 0))
    right = (*(() if skip is None else carried(STREAM, power(skip, 1)).right), inner)
    two = Stage(((STREAM, Equation(right, True)),), (Matrix(C[2], "h", "z"),), ((Product((Variable(GATE, HERE),)),),))
    return (*first, one, two)
