"""The configuration of images: their program, environment, working directory and user.

It is read from a Dockerfile, an OCI layout or a docker archive. What enters here reads such a file,
and neither builds, pulls nor unpacks anything.
"""
