# SPDX-License-Identifier: MIT
"""The HTML pages, each one self-contained file: the report, a profile. Their templates are beside them."""

from typing import TYPE_CHECKING

from heaptape.common import escape

if TYPE_CHECKING:
    import jinja2


def template(name: str, package: str = __name__) -> "jinja2.Template":
    """One of the templates of the package, which may include those here."""
    import jinja2

    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(one, ".") for one in dict.fromkeys([package, __name__])])
    return environment(loader).get_template(name)


def environment(loader: "jinja2.BaseLoader") -> "jinja2.Environment":
    """Templates that escape all that they are given, but for what they call safe."""
    import jinja2

    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_shown)


def _shown(value: object) -> object:
    return escape.lines(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
