"""The API server: HTTP requests become calls of the cluster.

What may enter: paths, media types, encodings, streams, credentials and responses, named as in
k8s.io/apiserver. Rules about objects belong to `validation`, `registry` and `admission` below.
"""
