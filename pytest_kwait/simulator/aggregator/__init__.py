"""The API aggregator: APIServices, local and remote, and the proxy to remote ones.

Contents: controllers of APIServices, and the proxy. Requests are authorized before.
"""
