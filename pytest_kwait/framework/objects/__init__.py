"""The general wait: any condition on objects of any kind.

Contents: conditions made of `predicates` on one object or a list, their combinators, and
`wait_for`. Code for one kind belongs to that kind, except terminal states that the object itself
shows.
"""
