"""What is looked at and what was seen: verdicts, conditions, the waiter and its explanation.

Admitted here is what every kind of object shares. What done or broken means for one kind belongs
to `resources`; how a request is made, to `api`; when to look again, to `wait`.
"""
