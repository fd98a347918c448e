"""Suites that hold the product, and the embedded cluster, to a real one.

Contents, by folder:

- `api`, `kubectl`, `scenarios`, `registry`, `scheduler`, `controller_runtime`: recordings of a real
  cluster, the players and recorders, and comparisons with upstream's programs.
- `runs`, `explore`: whole runs of pytest, which are started by tests.
- `faults`: waits over connections that fail; `failing_fast`: terminal states and their graces.
- `clusters`, `access`, `webhooks`: providers, rights, and responses, byte by byte.

All of it runs on any cluster, as `e2e/` does: `pytest conformance`. What is here needs internal
modules, `tools`, or minutes; a suite that a user reads is in `e2e/`.
"""
