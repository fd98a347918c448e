"""The wait engine: verdicts, conditions, watch and poll mode, and the waiter.

Everything here serves waits on any kind of object. The conditions of one kind belong to
`framework`, requests to `client`, polling and backoff to `wait`, failure reports to `failure`.
"""
