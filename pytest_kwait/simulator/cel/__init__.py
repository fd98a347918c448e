"""Expressions in the Common Expression Language, with Kubernetes' variables and functions.

What may enter: what stands between `cel-expr-python`, the language's own runtime, and the rules
that are written in it. Import it where a rule is met, and not before: it loads that library.
"""
