"""Free probability for deep networks: the eigenvalues of JJᵀ, J the input-output Jacobian.

>>> from derive import spectra
>>> print(spectra.jacobian_moments(2)[1])
(C_W*mu_1)**(2*L)*(L*(-s_1 - 1 + mu_2/mu_1**2) + 1)
"""

from ..work.faces import public
from .ensembles import weight_law
from .jacobians import Jacobian, jacobian, layered, of_network, zero_padded
from .laws import Atomic, Density, Factor, Law, Moments, Product, Rational, Scaled
from .limits import Limit, RLambert, limit
from .moments import jacobian_moments, jacobian_variance
from .slopes import Masked, Slopes, slope_law

__all__ = [
    "Atomic",
    "Density",
    "Factor",
    "Jacobian",
    "Law",
    "Limit",
    "Masked",
    "Moments",
    "Product",
    "RLambert",
    "Rational",
    "Scaled",
    "Slopes",
    "jacobian",
    "jacobian_moments",
    "jacobian_variance",
    "layered",
    "limit",
    "of_network",
    "slope_law",
    "weight_law",
    "zero_padded",
]

public(__name__)
