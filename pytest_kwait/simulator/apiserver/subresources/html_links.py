"""Links of pages that came through a proxy, so that they lead through it again.

Source: k8s.io/apimachinery pkg/util/proxy/transport.go.
"""

from __future__ import annotations

import re

__all__ = ["rewrite_links"]

_TAG = re.compile(r"<([A-Za-z][A-Za-z0-9]*)((?:\s+[^<>]*?)?)(/?)>")
_ATTRIBUTE = re.compile(r"""([^\s=/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"']+))?""")
_LINK_ATTRIBUTES = {
    "a": ("href",), "applet": ("codebase",), "area": ("href",), "audio": ("src",),
    "base": ("href",), "blockquote": ("cite",), "body": ("background",),
    "button": ("formaction",), "command": ("icon",), "del": ("cite",), "embed": ("src",),
    "form": ("action",), "frame": ("longdesc", "src"), "head": ("profile",),
    "html": ("manifest",), "iframe": ("longdesc", "src"), "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"), "ins": ("cite",), "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"), "q": ("cite",), "script": ("src",),
    "source": ("src",), "video": ("poster", "src"),
}  # fmt: skip


def rewrite_links(page: str, base: str) -> str:
    """The page with absolute paths of its own server below `base`.

    Every opening tag comes out in the form in which the server writes it: names in lower case,
    values in double quotes.
    """

    def tag(found: re.Match[str]) -> str:
        name = found[1].lower()
        links = _LINK_ATTRIBUTES.get(name, ())
        parts = [name]
        for each in _ATTRIBUTE.finditer(found[2]):
            attribute, value = each[1].lower(), (each[2] or "").strip("\"'")
            if attribute in links and value.startswith("/") and not value.startswith("//"):
                value = f"{base}{value}"
            parts.append(f'{attribute}="{value}"')
        return f"<{' '.join(parts)}{found[3]}>"

    return _TAG.sub(tag, page)
