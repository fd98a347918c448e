"""Who somebody is: tokens of a file, tokens of service accounts, client certificates.

What may enter: one module per kind of credential, from what a client shows to a `User`. What the
user may then do is the business of `authorization`; headers are read in `http`.
"""
