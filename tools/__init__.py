"""Tools of this repository's own checks and documentation.

Contents: the control plane builder, the fault proxy, the browser driver, Docker's default profile,
and generators of docs and data. Suites import from here; nothing here is part of the product.
"""
