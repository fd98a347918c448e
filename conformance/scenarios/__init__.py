"""Stories of workloads: the same manifest lives through the same on any cluster.

What may enter: scenarios (`scripts/`), what they were seen to live through on a real cluster
(`recordings/`), and the little that plays, records and compares them.
"""
