"""Admission: plugins that change or deny an object before it is stored.

One module per upstream plugin, named after it. A plugin reads the `Attributes` of a request and the
cluster's objects, and stores nothing. `chain` calls the plugins in upstream's order: all may change
the object before its validation, and deny it afterwards.
"""
