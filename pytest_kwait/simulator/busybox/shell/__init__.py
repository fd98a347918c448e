"""The shell of busybox (`ash`): lexer, parser, expansions, builtins, interpreter.

What may enter: the language of scripts. A script is run on the programs of `applets`.
"""
