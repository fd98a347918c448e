"""Exploration: the embedded cluster perturbs, under a seed, what a real cluster may perturb.

Declarations of the perturbations, the decisions of a seed, and the hooks that work queues, watches,
requests, kubelets and events call. A hook delays, reorders or refuses; it never writes an object.
"""
