"""The API server: HTTP requests become calls of the cluster.

Paths, media types, encodings, streams, credentials and responses belong here, named as in
k8s.io/apiserver. Rules about objects belong to `validation`, `registry` and `admission` below.
"""
