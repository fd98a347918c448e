"""Waits and verbs by kind of object, named as upstream's `test/e2e/framework`.

A module holds one kind: its conditions (pure verdicts on what was seen) and its waits (the public
functions). A family of kinds, or one that is too long for a module, is a folder. `predicates`,
`timers` and `named_objects` belong to no kind and import none. Watching objects is `engine`'s.
"""
