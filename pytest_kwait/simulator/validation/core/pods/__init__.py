"""Validation of pods and pod templates.

Contents: one module per part of the pod spec, updates of pods, and warnings. A validator
takes the decoded and defaulted part, its path `at`, and the `Findings` that it adds to.
"""
