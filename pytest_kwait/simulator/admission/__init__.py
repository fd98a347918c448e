"""Admission: plugins that change or deny an object before it is stored.

One module per upstream plugin, named after it; the shortest are in `chain`. A plugin reads the
`Attributes` of a request and the cluster's objects, and stores nothing. `chain` calls them in
upstream's order: all may change the object before its validation, and deny it afterwards.
"""
