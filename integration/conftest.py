from __future__ import annotations

from tests.leftovers import nothing_is_left  # noqa: F401 - a fixture
