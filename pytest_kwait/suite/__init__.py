"""What a run owns: its settings, its namespaces, the objects it made, the bench a test works at.

Everything here can be used without pytest: values come in as arguments, nothing reads options, the
environment or ini files.
"""

from __future__ import annotations
