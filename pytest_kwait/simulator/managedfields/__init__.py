"""Field ownership and server-side apply.

Contents: sets of fields, `managedFields`, merging of applied configurations, and checks of
values against their type. Requests are read in `apiserver`, patches of other forms in `patch`.
"""
