"""What pytest touches: hooks, options, fixtures and markers, thin over the rooms below."""

from __future__ import annotations

pytest_plugins: tuple[str, ...] = ()
