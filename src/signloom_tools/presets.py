"""Named values of params.yaml, and the one way in which they, recipes and winners get there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.config import get_map, load_params, read_text
from signloom.errors import UserError
from signloom.paths import PRESETS
from signloom_tools.params_file import update_params


def list_presets() -> dict[str, str]:
    """Return what each preset is for, by its name."""
    texts = {path: read_text(path, hint="restore it") for path in sorted(PRESETS.glob("*.yaml"))}
    return {path.stem: text.partition("\n")[0].strip("# ") for path, text in texts.items()}


def read_preset(name: str) -> dict[str, dict[str, Any]]:
    """Return the values of a preset by section and key.

    Raises:
        UserError: If there is none of this name, or its file is damaged.
    """
    path = PRESETS / f"{name}.yaml"
    if not path.is_file():
        names = ", ".join(list_presets()) or "none"
        raise UserError(f"{path} does not exist; presets here: {names}")
    values = load_params(path)
    if wrong := [name for name, content in values.items() if not isinstance(content, dict)]:
        raise UserError(f"{path}: {', '.join(map(str, wrong))}: expected a map of options")
    return values


def adopt(params: Path, values: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Write values into a parameters file; what another family was told goes back to its defaults.

    Returns:
        The file's text before and after.

    Raises:
        UserError: As `update_params`.
    """
    now, model = get_map(load_params(params), "model"), values.get("model", {})
    if model.get("family", now.get("family")) != now.get("family"):
        from signloom.models.seq2seq import find_unread  # torch loads slowly

        values = {**values, "model": {**find_unread({**now, **model}), **model}}
    return update_params(params, values)
