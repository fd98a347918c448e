"""The wait engine: verdicts, conditions, watch and poll mode, and the waiter.

What may enter: everything that waits of all kinds of object share. What done or broken means for
one kind belongs to `framework`; how a request is made, to `client`; when to look again, to `wait`;
the facts and the message of a failure, to `failure`.
"""
