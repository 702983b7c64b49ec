"""Pages of HTML and Markdown, filled from templates."""

from collections.abc import Callable
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def render_markdown(
    template: str, *, package: str, text: Callable[[object], str], **values: Any
) -> str:
    """Fill a template of Markdown, in which nothing is escaped but by the filter `text`.

    Args:
        template: Its file name.
        package: Where it lies.
        text: The filter, which returns text that stays text in Markdown.
    """
    environment = Environment(
        loader=PackageLoader(package, "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["text"] = text
    return environment.get_template(template).render(values)


def render_page(
    template: str, *, package: str = "signloom.report", trim_blocks: bool = False, **values: Any
) -> str:
    """Fill a template; every text in the values is escaped, unless it is marked as safe there.

    Args:
        template: Its file name.
        package: Where it lies; the templates next to this file can be used from anywhere.
        trim_blocks: As in Jinja.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader("signloom.report", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=trim_blocks,
    )
    return environment.get_template(template).render(values)
