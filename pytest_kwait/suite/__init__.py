"""Parts of a test run: settings, namespaces, created objects, locks, artifacts, reports.

Contents: code that works without pytest. Values come in as arguments; nothing here reads
options, the environment or ini files (that is `plugin.settings`).
"""

from __future__ import annotations
