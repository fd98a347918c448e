"""The general wait: any condition on objects of any kind.

Admitted are conditions made of `predicates` on one object or a list, their combinators, and
`wait_for`. What knows one kind belongs to that kind, but for the terminal states that one
object shows by itself.
"""
