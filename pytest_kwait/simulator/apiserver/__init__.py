"""The wire: requests to calls of `SimulatedCluster` and back.

What may enter: paths, media types, encodings, streams and credentials. Rules about objects belong
to the rooms beneath.
"""
