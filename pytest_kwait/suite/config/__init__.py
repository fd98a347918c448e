"""Settings: their definitions, their values, and the precedence of their sources.

Contents: pure functions on values. Reading options and the environment is
`plugin.settings`.
"""
