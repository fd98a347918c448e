"""The shell of busybox (`ash`): lexer, parser, expansions, builtins, interpreter.

Contents: the script language. The programs that scripts run are in `programs`.
"""
