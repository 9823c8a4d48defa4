"""Property tests judge values, not the speed of the machine that they happen to run on."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("millgate", deadline=None)
settings.load_profile("millgate")
