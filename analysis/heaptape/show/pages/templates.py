# SPDX-License-Identifier: MIT
"""The templates of the pages."""

import jinja2


def template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("heaptape.show.pages", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)
