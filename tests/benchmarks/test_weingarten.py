"""Whole Weingarten tables and Haar moments, against haarpy in the same run."""

from __future__ import annotations

import pytest
import sympy

from derive import haar, weingarten, zonal
from derive import rational as rational
