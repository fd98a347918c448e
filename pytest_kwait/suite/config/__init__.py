"""Settings: their definitions, parsers, and the precedence of their sources.

May enter: pure functions on values. Reading options and the environment is
`plugin.settings`.
"""
