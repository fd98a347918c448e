"""Makes the embedded cluster's registry of kinds from a running API server.

What may enter: the script, the samples whose dry-run creates it learns from, and how it learns.
"""
