# SPDX-License-Identifier: MIT
"""The HTML pages, each one self-contained file: the report, a profile. Their templates are beside them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def template(name: str, package: str = __name__) -> "jinja2.Template":
    """One of the templates of the package, which may include those here. It escapes all that it is given, but for what
    it calls safe.
    """
    import jinja2

    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(one, ".") for one in dict.fromkeys([package, __name__])])
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(name)
