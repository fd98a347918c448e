"""Custom resources: what their definitions may say, and what that means for their objects.

What may enter: rules for definitions and for objects of custom kinds, each from raw dicts to
errors of fields or to changed dicts, and `serving`, which has the kinds served. Nothing here
knows HTTP. It is loaded with the first definition.
"""
