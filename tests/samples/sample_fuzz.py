"""Random calls: how they are drawn, and what is said of one that raised."""

from __future__ import annotations

import traceback

from hypothesis import HealthCheck, Phase, settings

FUZZING = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""The same calls each time; which, the source of the test alone decides."""


def crash(error):
    """What was raised, and the line it comes from."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} from {place.filename}:{place.lineno}: {str(error)[:200]}"
