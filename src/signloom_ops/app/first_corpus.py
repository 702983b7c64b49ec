"""The first corpus of a project, made of what was delivered on the page."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from signloom.config import load_section
from signloom.corpus.manifest import SPLITS, Clip, CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom.paths import MODELS, PARAMS
from signloom_ops.lock import hold_lock
from signloom_ops.options import OpsOptions, load_ops
from signloom_tools.importing.column_sources import find_sources
from signloom_tools.importing.dealing import deal_clips
from signloom_tools.importing.new_corpus import (
    MANIFEST,
    CorpusPlan,
    RowOptions,
    VideoFolder,
    plan_corpus,
    write_corpus,
)
from signloom_tools.importing.recipe import choose_values, read_params
from signloom_tools.importing.user_tables import read_user_table
from signloom_tools.presets import adopt

CORPUS = Path("data/raw/mine")
TEST_CLIPS = 8  # of fewer no night can tell that a model is better than chance (2^-8 < 0.0077)
TAKES = 3  # of a sentence in train, below which little is learnt of it
_WAIT_S = 60.0  # for another browser that founds at this moment


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundingSigner:
    """Who signs, and what for."""

    signer: str
    split: str  # proposed, or chosen; empty: too few people for a proposal
    clips: int
    sentences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What is missing for a fair test or for learning, in figures that a page puts into words."""

    kind: str  # people, uses (a split has no person), test_clips or takes
    count: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The corpus that could be founded."""

    people: list[FoundingSigner]
    clips: int
    sentences: int
    lacks: list[Lack]
    left: list[str]  # rows that become no clip, and why
    reasons: list[str]  # of the recipe

    @property
    def is_possible(self) -> bool:
        """Whether there are people enough for a fair test."""
        return all(lack.kind not in ("people", "uses") for lack in self.lacks)


def is_founded() -> bool:
    """Return whether the project has a corpus, be it that it still has to be pulled."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    return any((corpus.path.is_file(), Path(f"{corpus.folder}.dvc").is_file(), MODELS.is_dir()))


def propose(splits: Mapping[str, str] | None = None) -> Proposal:
    """Return what could be founded of the deliveries; nothing is written.

    Args:
        splits: The split of each signer; None: they are dealt, the busiest to train, and of the
            other two the busier to test.

    Raises:
        UserError: If a delivery is damaged, or the splits are not of its signers.
    """
    ops = load_ops(PARAMS)
    return _describe(_plan(ops, splits))


def found(splits: Mapping[str, str] | None = None) -> None:
    """Write the corpus and name it, with a recipe that fits it, in params.yaml.

    The films are copied before the manifest is there, and that before params.yaml names it; so
    what is cut off is done again as a whole. The second of two requests finds it founded.

    Args:
        splits: As for `propose`.

    Raises:
        UserError: If there are too few people, or another corpus lies in its folder.
    """
    with hold_lock(wait_s=_WAIT_S):
        if is_founded():
            return
        ops = load_ops(PARAMS)
        plan = _plan(ops, splits)
        if not _describe(plan).is_possible:
            raise UserError(
                f"a corpus needs {len(SPLITS)} signers: one to learn from, one to "
                "decide when to stop, one to test"
            )
        _check_free({clip.clip_id for clip in plan.clips})
        params = read_params(PARAMS)
        write_corpus(plan, CORPUS, copy=True, force=True)
        values, _ = choose_values(plan.clips, CORPUS, params, signer_disjoint=True)
        seeds = params.get("train", {}).get("seeds", [])
        if len(seeds) < ops.gate.seeds:  # else no night begins
            values["train"] |= {"seeds": list(range(1, ops.gate.seeds + 1))}
        adopt(PARAMS, values)


def _plan(ops: OpsOptions, splits: Mapping[str, str] | None) -> CorpusPlan:
    tables = sorted(ops.inbox.glob("app-*/table.tsv"))
    if not tables:
        return CorpusPlan()
    plan = CorpusPlan()
    for path in tables:
        table = read_user_table(path, "tab", "utf-8")
        delivery = plan_corpus(
            [(row, SPLITS[0]) for row in table.rows],
            RowOptions(sources=find_sources(table.header)),
            CORPUS,
            VideoFolder(path.parent),
            None,
        )
        clip_ids = {clip.clip_id for clip in plan.clips}  # a copied delivery has its clips again
        plan.clips += [clip for clip in delivery.clips if clip.clip_id not in clip_ids]
        plan.refusals += delivery.refusals
        plan.videos |= delivery.videos
        plan.rows |= delivery.rows
    signers = {clip.signer for clip in plan.clips}
    if splits is not None and (splits.keys() != signers or {*splits.values()} - {*SPLITS}):
        raise UserError("what was delivered has changed meanwhile: look at the table again")
    if splits is None and len(signers) >= len(SPLITS):
        dealt, _ = deal_clips(plan.clips, ops.ingest.shares, "signer")
        counts = Counter(dealt.values())
        swap = {"dev": "test", "test": "dev"} if counts["test"] < counts["dev"] else {}
        dealt = {clip: swap.get(split, split) for clip, split in dealt.items()}
        splits = {clip.signer: dealt[clip.clip_id] for clip in plan.clips}
    if splits is not None:
        plan.clips = [replace(clip, split=splits[clip.signer]) for clip in plan.clips]
    return plan


def _describe(plan: CorpusPlan) -> Proposal:
    clips, lacks = plan.clips, list[Lack]()
    reasons: list[str] = []
    counts = Counter(clip.split for clip in clips)
    signers = Counter(clip.signer for clip in clips)
    is_dealt = len(signers) >= len(SPLITS)
    if len(counts) < len(SPLITS):
        kind, count = ("uses", len(counts)) if is_dealt else ("people", len(signers))
        lacks.append(Lack(kind=kind, count=count, wanted=len(SPLITS)))
    else:
        if counts["test"] < TEST_CLIPS:
            lacks.append(Lack(kind="test_clips", count=counts["test"], wanted=TEST_CLIPS))
        takes = Counter(clip.text for clip in clips if clip.split == "train")
        if few := sum(count < TAKES for count in takes.values()):
            lacks.append(Lack(kind="takes", count=few, wanted=TAKES))
        # Where the films lie now: how long they are decides something.
        placed = [replace(clip, video=_where(plan, clip)) for clip in clips]
        _, reasons = choose_values(placed, CORPUS, read_params(PARAMS), signer_disjoint=True)
    people = [
        FoundingSigner(
            signer=signer,
            split=next(clip.split for clip in clips if clip.signer == signer) if is_dealt else "",
            clips=count,
            sentences=len({clip.text for clip in clips if clip.signer == signer}),
        )
        for signer, count in signers.most_common()
    ]
    return Proposal(
        people=people,
        clips=len(clips),
        sentences=len({clip.text for clip in clips}),
        lacks=lacks,
        left=[f"{row.clip_id}: {row.problem} {row.detail}" for row in plan.refusals],
        reasons=reasons,
    )


def _where(plan: CorpusPlan, clip: Clip) -> Path | None:
    """Return where the film of a clip lies now."""
    video = plan.videos.get(clip.video) if clip.video else None
    return video if isinstance(video, Path) else clip.video


def _check_free(ids: set[str]) -> None:
    """Refuse a folder with clips of others; those of an attempt that was cut off are replaced."""
    path = CORPUS / MANIFEST
    if path.is_file() and not {clip.clip_id for clip in read_manifest(path)} <= ids:
        raise UserError(
            f"{path} exists and has clips that the page did not deliver; move the folder away, or "
            "name it as corpus.folder in params.yaml"
        )
