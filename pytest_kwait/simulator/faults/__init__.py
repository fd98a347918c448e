"""What is broken on purpose, for as long as somebody holds it: requests, pulls, nodes, time.

What may enter: what a fault does to the cluster, and who holds it. How it is asked for over HTTP is
`http/fault_requests.py`; nothing here knows of tests.
"""
