"""Authentication: token files, service account tokens, client certificates.

Contents: one module per kind of credential, from what a client shows to a `User`. What the
user may do is decided in `authorization`; headers are read in `apiserver`.
"""
