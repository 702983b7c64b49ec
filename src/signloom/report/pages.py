"""HTML pages, filled from the templates beside this file."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_page(template: str, *, trim_blocks: bool = False, **values: Any) -> str:
    """Fill a template; every text in the values is escaped, unless it is marked as safe there."""
    environment = Environment(
        loader=PackageLoader("signloom.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=trim_blocks,
    )
    return environment.get_template(template).render(values)
