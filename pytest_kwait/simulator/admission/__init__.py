"""What the server adds to or refuses of an object because of other objects: admission.

What may enter: one module per upstream plugin, named after it, and what several of them measure
(`pod_resources`, `quota_usage`). A plugin sees `Attributes` of one request and the cluster's
objects; it stores nothing itself. `chain` calls them in upstream's order: all of them may change
an object before it is validated, all of them may refuse it afterwards.
"""
