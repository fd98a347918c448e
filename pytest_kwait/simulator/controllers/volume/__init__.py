"""Claims and volumes: bound to each other, made where a class asks for it, kept while in use.

What may enter: the controllers of claims and volumes, and what the scheduler must know of them.
Nothing is imported here: what binds and grows is loaded with the first claim, volume or class
of attributes.
"""
