"""How all tests run."""

from __future__ import annotations

from hypothesis import settings

# A machine busy with something else is no reason to fail: how long an example takes is not what is tested.
settings.register_profile("transduce", deadline=None)
settings.load_profile("transduce")
