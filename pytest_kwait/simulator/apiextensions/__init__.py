"""Custom resources: validation of definitions and of objects, conversion, serving.

As k8s.io/apiextensions-apiserver: raw dicts to field errors or changed dicts, and `controller`,
which registers the served kinds. Nothing here knows HTTP. It is loaded with the first definition.
"""
