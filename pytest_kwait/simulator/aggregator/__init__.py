"""The API aggregator: APIServices, local and remote, and the proxy to remote ones.

What may enter: what keeps APIServices and the scheme in step, and what proxies requests. Requests
are authorized before they come here.
"""
