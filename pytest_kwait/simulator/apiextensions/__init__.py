"""Custom resources: validation of definitions and of objects, conversion, serving.

What may enter: what k8s.io/apiextensions-apiserver has, from raw dicts to field errors or to
changed dicts, and `controller`, which registers the served kinds. Nothing here knows HTTP. It is
loaded with the first definition.
"""
