"""The encoding of tables and captions."""

_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
FALLBACK = "cp1252"  # what Windows programs write in Western Europe; reads anything


def decode_text(raw: bytes, encoding: str | None) -> tuple[str, str]:
    """Return a text and the name of its encoding; None: by its mark, else UTF-8, else Windows'."""
    if encoding is not None:
        return raw.decode(encoding), encoding
    encoding = next((name for bom, name in _BOMS.items() if raw.startswith(bom)), None)
    try:
        return raw.decode(name := encoding or _guess_encoding(raw)), name
    except UnicodeDecodeError:
        guess = f"no UTF-8 and so taken for {FALLBACK} (else say --encoding)"
        return raw.decode(FALLBACK, errors="replace"), guess


def _guess_encoding(raw: bytes) -> str:
    """Return UTF-16 without a mark, by its zeros: of Latin letters half of the bytes; or UTF-8."""
    zeros = raw[::2].count(0), raw[1::2].count(0)
    is_wide = min(zeros) == 0 and 6 * max(zeros) > len(raw)
    return "utf-8" if not is_wide else "utf-16-be" if zeros[0] else "utf-16-le"
