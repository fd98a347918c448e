"""The write path of the API server: REST storages and strategies by API group, subresources.

Contents: what prepares, defaults, checks and stores objects, one module per API group (core
has several). `generic_store` is the storage of all resources, `rest_storages` lists those that
have one of their own. A strategy sees objects, never requests; what needs other objects is
admission. Validation is in `validation/`, the HTTP side in `apiserver/`.
"""
