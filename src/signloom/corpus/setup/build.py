"""A plan of a corpus comes in; its folder, with the videos in place and a manifest, goes out."""

from pathlib import Path

from signloom.config import UserError
from signloom.corpus.landmarks import GROUP_CHOICES
from signloom.corpus.manifest import IMPORTED_SHARDS, read_manifest, write_manifest
from signloom.corpus.setup.plan import Plan
from signloom.corpus.setup.user_tables import how_to_use
from signloom.corpus.setup.videos import place_video
from signloom.corpus.tables import is_manifest
from signloom.reproducibility import write_atomically

MANIFEST = "manifest.tsv"
REFUSED = "refused.tsv"


def check_free(corpus: Path) -> None:
    """Refuse a folder that has a manifest.

    Raises:
        UserError: Says what is there, and how it is used.
    """
    path = corpus / MANIFEST
    if not path.exists():
        return
    what = "is there already"
    if is_manifest(path.read_text(encoding="utf-8", errors="replace")):
        what = f"is there already, a Signloom manifest. {how_to_use(path)}"
    raise UserError(f"{path} {what}; --force replaces it, --dry-run only looks")


def write_corpus(plan: Plan, corpus: Path, *, copy: bool, force: bool) -> None:
    """Put the videos in place, then the manifest: it is there only when they are.

    Args:
        plan: With at least one clip.
        corpus: The folder, made if need be.
        copy: Copy videos that lie elsewhere; else they are linked.
        force: Replace what is there.

    Raises:
        UserError: If a file is in the way.
    """
    corpus.mkdir(parents=True, exist_ok=True)
    for target, source in plan.videos.items():
        place_video(source, target, copy=copy, force=force)
    _write_refusals(corpus / REFUSED, plan)
    write_manifest(corpus / MANIFEST, plan.clips)
    read_manifest(corpus / MANIFEST, signer_disjoint=not plan.shared_signers())  # as stages will


def imported_clips(corpus: Path) -> frozenset[str] | None:
    """Return the clips whose landmarks were imported into the folder; None if none were."""
    shards = corpus / IMPORTED_SHARDS
    if not shards.is_dir():
        return None
    from signloom.corpus.shards import read_clip_frames  # pyarrow loads slowly

    return frozenset(read_clip_frames(shards))


def imported_groups(corpus: Path) -> list[str]:
    """Return what imported landmarks show, of `GROUP_CHOICES`; nothing for a corpus of videos."""
    shards = corpus / IMPORTED_SHARDS
    if not shards.is_dir():
        return []
    from signloom.corpus.shards import shards_metadata

    there = shards_metadata(shards).layout.group_names
    return [
        name for name, groups in GROUP_CHOICES.items() if {one.name for one in groups} <= set(there)
    ]


def _write_refusals(path: Path, plan: Plan) -> None:
    """Write the rows that were left out, or remove the list of an earlier time."""
    if not plan.refusals:
        path.unlink(missing_ok=True)
        return
    lines = ["table\tline\tclip_id\treason\tdetail"]
    for row in plan.refusals:
        cells = (row.table, str(row.line), row.clip_id, row.reason, row.detail)
        lines.append("\t".join(" ".join(cell.split()) for cell in cells))
    write_atomically(path, "\n".join(lines) + "\n")
