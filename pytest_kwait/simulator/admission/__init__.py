"""Admission: plugins that change or refuse an object before it is stored.

What may enter: one module per upstream plugin, named after it, and what several of them share. A
plugin sees `Attributes` of one request and the cluster's objects; it stores nothing itself. `chain`
calls the plugins in upstream's order: all may change an object before it is validated, and all may
refuse it afterwards.
"""
