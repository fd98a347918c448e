"""Terminal states end waits within their graces; slow starts do not.

Contents: tests that take true minutes on a real cluster.
"""
