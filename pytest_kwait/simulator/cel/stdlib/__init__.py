"""CEL's standard functions and the cel-go extensions that Kubernetes enables.

Contents: tables from function names to implementations on values. Kubernetes' own functions
are in `library`.
"""
