"""Names of people: which spellings are one person's, and which are only alike."""

from signloom_tools.importing.cells import clean

_JOINERS = dict.fromkeys((0x200C, 0x200D))


def name_key(name: str) -> str:
    """Return what spellings of a name share that are one person's; `forget` and the app use it.

    Accents composed or not, any blanks between its parts, marks without a shape and joiners.
    """
    return clean(name.translate(_JOINERS))


def like_key(name: str) -> str:
    """Return a name in lower-case letters and digits alone, to ask about near matches."""
    return "".join(c for c in name_key(name).casefold() if c.isalnum()) or name
