"""Environments that tests share: by class, module, session, and by all workers of a run."""
