"""Handlers of subresources: scale, eviction, binding, log, exec, attach, portforward, proxy.

The HTTP side of each subresource, and the streaming protocols that several share. Effects on
objects belong to `registry`.
"""
