"""Configuration of the documentation site: `tox -e docs`.

The pages are plain Markdown that reads the same on a code host. What only a site needs is added
while Sphinx reads them: the table of contents from the lists of index.md, and the public API from
docstrings.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module, metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "pytest-kwait"
author = "The pytest-kwait maintainers"
copyright = f"2026, {author}"
release = metadata.version("pytest-kwait")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

# Quotes in prose are often of code.
smartquotes = False

html_theme = "furo"
html_title = f"pytest-kwait {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
# No font, script or style comes from elsewhere: the site and its search work without network.
html_theme_options = {
    "source_view_link": "",
    "light_css_variables": {
        "color-brand-primary": "#1f5fbf",
        "color-brand-content": "#1f5fbf",
        "color-highlight-on-target": "#e6effb",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb2ff",
        "color-brand-content": "#7fb2ff",
        "color-highlight-on-target": "#1d2a3d",
    },
}
pygments_style = "tango"
pygments_dark_style = "github-dark"

# Links to headings are those of a code host: `page.md#the-heading`.
myst_heading_anchors = 4
# A command is copied without its prompt and without its output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

# Docstrings mark code as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of the site for files beside docs/."""


def add_contents(text: str) -> str:
    """Add a table of contents for each section of the index that lists pages."""
    contents = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        caption = section.partition("\n")[0]
        pages = re.findall(r"^- \[[^]]+\]\(([^)#:]+\.md)\)", section, re.M)
        if pages:
            lines = "\n".join(pages)
            contents.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n")
    return "\n".join((text, *contents))


def add_docstrings(text: str) -> str:
    """Add what autodoc knows of each name in a table behind `<!-- autodoc: MODULE -->`."""
    parts = re.split(r"^<!-- autodoc: ([\w.]+) -->\n", text, flags=re.M)
    written = [parts[0]]
    for module, part in zip(parts[1::2], parts[2::2], strict=True):
        names = re.findall(r"^\| `(\w+)` \|", part, re.M)
        head, end, rest = part.partition("<!-- end -->\n")
        directives = "\n".join(_directive(module, name) for name in names)
        written += [head, end, f"```{{eval-rst}}\n{directives}\n```\n", rest]
    return "".join(written)


_DOCUMENTED: dict[int, str] = {}


def _directive(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    where = f"{module}.{name}"
    # What two modules export is in the index once.
    once = "" if _DOCUMENTED.setdefault(id(value), where) == where else "   :no-index:\n"
    if isinstance(value, type):
        kind = "exception" if issubclass(value, BaseException) else "class"
        return f".. auto{kind}:: {where}\n   :members:\n{once}"
    kind = "function" if inspect.isfunction(value) else "data"
    hidden = "" if kind == "function" else "   :no-value:\n"
    return f".. auto{kind}:: {where}\n{hidden}{once}"


def read_source(_app: Sphinx, page: str, source: list[str]) -> None:
    """Turn a page of the code host into one of the site."""
    text = re.sub(
        r"\]\(\.\./([A-Z]+\.md)(?=[)#])",
        lambda link: f"]({OUTSIDE.get(link[1], f'../{link[1]}')}",
        source[0],
    )
    if page == "index":
        text = add_contents(text)
    source[0] = add_docstrings(text)


GIVEN = {"pytest_kwait.Kwait", "pytest_kwait.BoundWait", "pytest_kwait.Cluster"}
"""Classes whose objects come from fixtures: how they are made is of no use to a reader."""


def shorten_docstring(
    _app: Sphinx, what: str, name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Leave out constructors of given objects; keep colons of properties from being types."""
    if what == "class" and name in GIVEN and "Args:" in lines:
        del lines[lines.index("Args:") :]
    if what in {"property", "attribute"} and lines:
        lines[0] = lines[0].replace(": ", " \u2013 ", 1)


def shorten_signature(
    _app: Sphinx,
    what: str,
    name: str,
    _value: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Leave out constructors of given objects."""
    return ("", None) if what == "class" and name in GIVEN else (signature, returns)


def setup(app: Sphinx) -> None:
    """Connect what is added while pages are read."""
    app.connect("source-read", read_source)
    # Before napoleon reads the sections.
    app.connect("autodoc-process-docstring", shorten_docstring, priority=100)
    app.connect("autodoc-process-signature", shorten_signature)
