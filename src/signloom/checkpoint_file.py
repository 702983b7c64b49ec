"""The file checkpoint.json of a checkpoint, read without the model and its libraries."""

from pathlib import Path
from typing import Any

from signloom.config import check_version, checked_dataclass, get_map, parse_record, read_json
from signloom.errors import UserError
from signloom.features.sources import Source, SourceKind, source_of_fields

SPEC = "checkpoint.json"
# 2: every family, with its options; 3: what its CTC labels mean; 4: what its source ids mean
FORMAT_VERSION = 4
COPY_AGAIN = "copy the whole folder again, bring it back with `dvc checkout`, or train again"
TRAIN_AGAIN = "train again, or use the Signloom that made it (see `provenance` in that file)"


@checked_dataclass
class _Model:
    """What a checkpoint.json says of the model, as far as it decides on the source."""

    source: SourceKind


def read_fields(path: Path) -> dict[str, Any]:
    """Read the fields of a checkpoint.json.

    Raises:
        UserError: If it is missing or torn, or its format version is another.
    """
    content: dict[str, Any] = read_json(path, hint=COPY_AGAIN)
    check_version(path, content, FORMAT_VERSION, hint=TRAIN_AGAIN)
    if get_map(content, "model").get("source") == "tokens":  # what glosses were called
        content["model"]["source"] = "glosses"
    return content


def parse_source(path: Path, fields: dict[str, Any]) -> Source:
    """Return what the model of a checkpoint.json reads.

    Raises:
        UserError: If a field is missing or of another type.
    """
    model = get_map(fields, "model")
    kind = parse_record(model, _Model, where=f"{path}: model", hint=TRAIN_AGAIN).source
    try:
        return source_of_fields(kind, fields, where=str(path))
    except KeyError as error:
        raise UserError(f"{path}: {error.args[0]} is missing\n{TRAIN_AGAIN}") from None
    except UserError as error:
        raise UserError(f"{error}\n{TRAIN_AGAIN}") from None
