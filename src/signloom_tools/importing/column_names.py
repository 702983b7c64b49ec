"""What makers of corpora call columns and splits."""

import re

INDEX = "index"  # what pandas' column of row numbers is called here, as it has no name
SPLIT_NAMES = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "val": "dev",
    "valid": "dev", "validation": "dev", "test": "test", "testing": "test",
}  # fmt: skip
"""What tables call train, dev and test."""
KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "clip_id": ("clip_id", "name", "sentence_name", "sequence_id", "id", "video_id"),
    "video": ("video", "video_path", "video_file", "filename", "file_name", "file", "path"),
    "text": ("text", "translation", "sentence", "phrase", "sign", "caption", "label", "word",
             "raw_text"),
    "signer": ("signer", "signer_id", "speaker", "participant_id", "participant", "person"),
    "split": ("split", "subset", "partition", "set"),
    "start_s": ("start_s", "start_ms", "start_time", "time_start", "start_sec", "begin_time"),
    "end_s": ("end_s", "end_ms", "end_time", "time_end", "end_sec", "stop_time", "stop_s",
              "stop_ms"),
    "duration_s": ("duration_s", "duration_ms", "duration"),  # where clips have no ends
    "start_frame": ("start_frame",),
    "end_frame": ("end_frame",),
    "fps": ("fps",),
    "box": ("box", "bbox", "bounding_box", "bbox_xywh"),
    "gloss": ("gloss", "glosses", "orth"),
    "language": ("language", "lang"),
    "corpus": ("corpus",),
    "consent_until": ("consent_until",),
}  # fmt: skip
"""Fields, and what makers of corpora call their columns, lower-cased, the likeliest first."""
IN_MS = {name.replace("_s", "_ms"): name for name in ("start_s", "end_s", "duration_s")}
"""Fields of times, as options call them where columns are in milliseconds."""
ALL_NAMES = frozenset(name for names in KNOWN_NAMES.values() for name in names)


def plain_name(column: str) -> str:
    """Return a name as the known names are written: lower-cased, without spaces and hyphens."""
    return re.sub(r"[\s-]+", "_", column.lower())
