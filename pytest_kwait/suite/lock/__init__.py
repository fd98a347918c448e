"""The cluster lock: serial tests hold it alone, all other tests share it.

Contents: the lock's Leases, the lock itself and the threads that renew it.
"""
