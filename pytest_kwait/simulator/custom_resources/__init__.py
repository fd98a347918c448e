"""Custom resources: what their definitions may say, and what that means for their objects.

What may enter: rules for definitions and for objects of custom kinds, each from raw dicts to field
errors or to changed dicts. Nothing here stores objects or knows HTTP.
"""
