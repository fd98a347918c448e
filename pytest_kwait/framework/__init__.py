"""What done or broken means for each kind of object, and the waits made of it.

Admitted here are pure functions on the API's JSON that judge one kind, and the `wait_for_*`
functions over them. How an object is watched belongs to `engine`.
"""
