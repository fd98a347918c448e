"""Waits and verbs by kind of object, named as upstream's `test/e2e/framework`.

A folder holds one kind, or one family of kinds: `fields` (readers of its JSON), `conditions`
(pure verdicts on what was seen) and `wait` (the public functions). A kind that fits one module
is a module at the root. `predicates`, `timers` and `named_objects` belong to no kind and import
none. Watching objects is `engine`'s.
"""
