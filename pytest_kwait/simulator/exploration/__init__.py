"""Exploration: the embedded cluster perturbs, under a seed, what a real cluster may perturb.

The decisions of a seed, and the hooks that work queues, watches, requests, kubelets and events
call. A hook delays, reorders or refuses; it never writes an object. `protocol.perturbations`
declares the perturbations.
"""
