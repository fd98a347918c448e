"""Handlers of subresources: scale, eviction, binding, log, exec, attach, portforward, proxy.

What may enter: the HTTP side of one subresource, and the streaming protocols that several of them
speak. What a subresource does to objects belongs to `registry`.
"""
