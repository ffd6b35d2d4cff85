"""What all tests share: no deadline for an example, on a machine that others use as well."""

import os

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

os.environ.setdefault("WICKGARTEN_QUIET", "1")  # stderr must not depend on the machine's load
