# SPDX-License-Identifier: MIT
"""The HTML pages, each one self-contained file: the report, a profile, a fleet. Their templates are beside them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def template(name: str) -> "jinja2.Template":
    """One of the templates here. It escapes all that it is given, but for what it calls safe."""
    import jinja2

    loader = jinja2.PackageLoader("heaptape.show.pages", ".")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(name)
