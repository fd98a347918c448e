"""What pytest touches: hooks, options, fixtures and markers, thin over the rooms below.

Only this tuple lives here; each module owns its hooks and can be switched off by itself, as with
`-p no:pytest_kwait.plugin.header`. Modules import the standard library and pytest at the top and
everything else where it is used: a suite that waits for nothing must not pay for it.
"""

from __future__ import annotations

pytest_plugins = (
    "pytest_kwait.plugin.options",
    "pytest_kwait.plugin.settings",
    "pytest_kwait.plugin.header",
    "pytest_kwait.plugin.markers",
    "pytest_kwait.plugin.distributed",
    "pytest_kwait.plugin.running",
    "pytest_kwait.plugin.deadlines",
    "pytest_kwait.plugin.outcomes",
    "pytest_kwait.plugin.fixtures",
    "pytest_kwait.plugin.waits",
    "pytest_kwait.plugin.preconditions",
)
