"""The write path of the API server: generic store, strategies by API group, subresources.

Contents: what prepares, defaults, checks and stores objects, one module per API group (core
has several). A strategy sees objects, never requests; what needs other objects is admission.
Validation is in `validation/`, the HTTP side in `apiserver/`.
"""
