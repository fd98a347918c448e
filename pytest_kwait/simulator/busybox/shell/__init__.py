"""The shell of busybox (`ash`): lexer, parser, expansions, builtins, interpreter.

What may enter: the script language. The programs that scripts run are in `programs`.
"""
