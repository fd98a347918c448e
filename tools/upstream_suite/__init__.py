"""Kubernetes' own end-to-end suite, built from pinned Go modules, run on the embedded cluster."""
