"""What is wrong with objects of the kinds that people make: one module per kind or family of them.

What may enter: functions from an object, and on a change the one before it, to field errors in the
server's order and words. They change nothing and know neither requests nor other objects.
"""

from __future__ import annotations
