"""What all tests share: no deadline for an example, on a machine that others use as well."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
