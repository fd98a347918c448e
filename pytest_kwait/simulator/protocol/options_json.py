"""Options of an embedded cluster as JSON, as its process reads them from a descriptor.

Apart from `options`, which whoever chooses a cluster loads without a JSON library.
"""

from __future__ import annotations

from dataclasses import fields

import msgspec

from pytest_kwait.simulator.protocol.options import EmbeddedOptions

_FIELDS = {field.name: field.default for field in fields(EmbeddedOptions)}
_DECODER = msgspec.json.Decoder(EmbeddedOptions)


def write_options(options: EmbeddedOptions) -> bytes:
    """Return a JSON object of the options that are not the default."""
    values = {name: getattr(options, name) for name in _FIELDS}
    return msgspec.json.encode(
        {name: value for name, value in values.items() if value != _FIELDS[name]}
    )


def read_options(data: bytes) -> EmbeddedOptions:
    """Return the options of a JSON object.

    Raises:
        ValueError: a field is unknown or invalid.
    """
    try:
        options = _DECODER.decode(data)
        unknown = sorted(set(msgspec.json.decode(data)) - set(_FIELDS))
    except msgspec.DecodeError as error:  # a ValueError only since msgspec 0.20
        raise ValueError(str(error)) from None
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}; the options are {', '.join(_FIELDS)}")
    return options
