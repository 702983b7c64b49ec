"""Merge several corpora into one, whose rows say which they come from (`signloom merge`)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.landmarks import FEATURES, Group, LandmarkSequence, Layout
from signloom.corpus.manifest import (
    IMPORTED_SHARDS,
    Clip,
    corpus_name,
    has_ended,
    id_problem,
    read_manifest,
)
from signloom.corpus.shards import (
    FRAMES_PER_SHARD,
    ShardsMetadata,
    read_clip_frames,
    read_shards,
    shards_metadata,
    write_shards,
)
from signloom.errors import Problem, UserError
from signloom.progress import progress_file
from signloom_tools.importing.new_corpus import MANIFEST, VIDEOS, CorpusPlan, RefusedRow


@dataclass(frozen=True, slots=True)
class MergedCorpus:
    """One of the corpora."""

    name: str  # with which names of its clips and signers will begin
    path: Path  # of its manifest
    shards: Path | None  # its landmarks; None: videos, or glosses alone
    clips: Sequence[Clip]

    @property
    def kind(self) -> str:
        """What there is to learn from."""
        return "landmarks" if self.shards else "videos" if self.clips[0].video else "glosses"


def read_parts(sources: Sequence[str], landmarks: Mapping[str, str]) -> list[MergedCorpus]:
    """Read the manifests of some corpora.

    Args:
        sources: Of each its folder or manifest, or `NAME=` and that; the name is else its folder's.
        landmarks: Name of a corpus of videos and the shards that were extracted from them.

    Raises:
        UserError: If a manifest is wrong, a name is none or there twice, or one corpus has videos
            and another landmarks.
    """
    parts = list[MergedCorpus]()
    for source in sources:
        name, mark, location = source.partition("=")
        path = Path(location if mark else source)
        path = path if path.is_file() else path / MANIFEST
        name = name if mark else corpus_name(path.parent)
        if not name or (bad := id_problem(name)):
            raise UserError(f"{source}: the name {name!r} {bad if name else 'is empty'}")
        shards = Path(landmarks.get(name, path.parent / IMPORTED_SHARDS))
        is_there = name in landmarks or shards.is_dir()
        clips = read_manifest(path, signer_disjoint=False)
        parts.append(MergedCorpus(name, path, shards if is_there else None, clips))
    names = [part.name for part in parts]
    if len(set(names)) < len(names) or not landmarks.keys() <= set(names):
        raise UserError(
            f"found the corpora {', '.join(names)} and --landmarks of "
            f"{', '.join(landmarks) or 'none'}; expected each name once (NAME=FOLDER "
            "gives another), and landmarks of these"
        )
    if len({part.kind for part in parts}) > 1:
        kinds = ", ".join(f"{part.name} has {part.kind}" for part in parts)
        raise UserError(
            f"{kinds}: expected the same of all. For a corpus of videos, extract its "
            "landmarks and give --landmarks NAME=data/landmarks/shards"
        )
    return parts


def plan_merge(parts: Sequence[MergedCorpus], corpus: Path) -> CorpusPlan:
    """Decide what becomes of each clip; nothing is written.

    Clips and signers get the name of their corpus in front: two may have the same.

    Raises:
        UserError: If two have the same even then, as `b-c` of the corpus a and `c` of a-b.
    """
    plan, owners = CorpusPlan(), dict[tuple[str, str], str]()
    for part in parts:
        frames = read_clip_frames(part.shards) if part.shards else {}
        for clip in part.clips:
            problem = video = None
            clip_id, signer = f"{part.name}-{clip.clip_id}", f"{part.name}-{clip.signer}"
            if has_ended(clip.consent_until):
                problem = Problem("its signer's consent has ended", "")
            elif part.shards and clip.clip_id not in frames:
                problem = Problem(f"{part.shards} has no landmarks of it", "")
            elif bad := id_problem(clip_id):
                problem = Problem("with the name of its corpus it cannot name a clip", "", (bad,))
            if problem:
                plan.refusals.append(RefusedRow(str(part.path), 0, clip.clip_id, problem))
                continue
            for key in (("clip", clip_id), ("signer", signer)):
                if (owner := owners.setdefault(key, part.name)) != part.name:
                    raise UserError(
                        f"{owner} and {part.name}: both would have the {key[0]} "
                        f"{key[1]!r}; give one another name: NAME=FOLDER"
                    )
            if clip.video and not part.shards:
                place = corpus / VIDEOS / part.name / clip.video.relative_to(part.path.parent)
                video = plan.place(place, clip.video)
            elif part.shards:
                clip = replace(clip, video=None, start_s=None, end_s=None, box=None)
            plan.clips.append(
                replace(
                    clip,
                    clip_id=clip_id,
                    video=video,
                    batch=None,
                    signer=signer,
                    corpus="-".join(filter(None, (part.name, clip.corpus))),
                )
            )
    return plan


def find_shared(parts: Sequence[MergedCorpus]) -> tuple[ShardsMetadata, list[str]]:
    """Return the landmarks that all parts have, and lines that say what is left out of which.

    Raises:
        UserError: If they share no landmarks, or were not imported by one version.
    """
    metadata = {part.name: shards_metadata(part.shards) for part in parts if part.shards}
    layout = common_layout({name: shards.layout for name, shards in metadata.items()})
    lines = [
        f"{name}: {len(lost)} landmarks ({lost[0]}, ...) are left out: not all have them"
        for name, shards in metadata.items()
        if (lost := sorted({*shards.layout.landmark_names} - {*layout.landmark_names}))
    ]
    return ShardsMetadata(
        layout, merge_extractors([shards.extractor for shards in metadata.values()])
    ), lines


def merge_landmarks(
    parts: Sequence[MergedCorpus], plan: CorpusPlan, corpus: Path, shared: ShardsMetadata
) -> None:
    """Write the landmarks of `find_shared` for the clips of a plan."""
    clip_ids = {clip.clip_id for clip in plan.clips}
    shards = {part.name: part.shards for part in parts if part.shards}
    frames, origin = dict[str, int](), dict[str, tuple[str, str]]()
    for name, folder in shards.items():
        for clip_id, count in read_clip_frames(folder).items():
            if (merged_id := f"{name}-{clip_id}") in clip_ids:
                frames[merged_id], origin[merged_id] = count, (name, clip_id)

    def load(merged_id: str) -> LandmarkSequence:
        name, clip_id = origin[merged_id]
        return _select(read_shards(shards[name], [clip_id])[clip_id], shared.layout)

    write_landmarks(corpus, frames, load, shared, "merging")


def write_landmarks(
    corpus: Path,
    frames: Mapping[str, int],
    load: Callable[[str], LandmarkSequence],
    metadata: ShardsMetadata,
    activity: str,
) -> None:
    """Write landmarks where those of an import lie, with a progress bar; see `write_shards`."""
    with tqdm(total=len(frames), desc=activity, unit=" clips", file=progress_file()) as bar:

        def counted(clip_id: str) -> LandmarkSequence:
            bar.update()
            return load(clip_id)

        write_shards(
            corpus / IMPORTED_SHARDS,
            frames,
            counted,
            layout=metadata.layout,
            extractor=metadata.extractor,
            frames_per_shard=FRAMES_PER_SHARD,
        )


def common_layout(layouts: Mapping[str, Layout]) -> Layout:
    """Return the landmarks that all layouts, by corpus, have, in the order of the first.

    Raises:
        UserError: If there are none, or they are features of different networks.
    """
    first, *remaining = layouts.values()
    shared = set(first.landmark_names).intersection(
        *(layout.landmark_names for layout in remaining)
    )
    marks = {g.name: [m for m in g.landmarks if f"{g.name}.{m}" in shared] for g in first.groups}
    groups = tuple(Group(name, tuple(landmarks)) for name, landmarks in marks.items() if landmarks)
    same = [layout for layout in layouts.values() if layout.groups == groups]
    is_odd = len(same) < len(layouts) and any(n.name.startswith(FEATURES) for n in layouts.values())
    if not groups or is_odd:
        listed = "; ".join(
            f"{n} has {', '.join(layout.group_names)}" for n, layout in layouts.items()
        )
        raise UserError(
            f"the corpora share no landmarks: {listed}. Import or extract them with a "
            "group that all have"
        )
    return same[0] if same else Layout(f"{first.name}-merged", first.version, groups)


def merge_extractors(extractors: Sequence[str]) -> str:
    """Return what made the landmarks of several corpora, as JSON, as after a single import.

    Raises:
        UserError: If they were imported by different versions.
    """
    if len(set(extractors)) == 1:
        return extractors[0]
    fingerprints = [json.loads(extractor) for extractor in extractors]
    versions = {
        fingerprint["import_version"]
        for fingerprint in fingerprints
        if "import_version" in fingerprint
    }
    if len(versions) > 1:
        raise UserError(
            f"the landmarks were imported by the versions {sorted(versions)} of "
            "`signloom import`; import all of them again"
        )
    names = {
        name
        for fingerprint in fingerprints
        for name in (fingerprint.get("source") or fingerprint["detector"]).split("+")
    }
    shared = {
        k: v
        for k, v in fingerprints[0].items()
        if all(fingerprint.get(k) == v for fingerprint in fingerprints)
    }
    shared |= {"detector": "imported", "source": "+".join(sorted(names))}
    shared |= {"import_version": version for version in versions}  # noqa: B035  one at most
    return json.dumps(shared, sort_keys=True)


def _select(clip: LandmarkSequence, layout: Layout) -> LandmarkSequence:
    """Return the landmarks of a clip that a layout has."""
    marks = [clip.layout.landmark_names.index(name) for name in layout.landmark_names]
    groups = [clip.layout.group(name) for name in layout.group_names]
    return replace(
        clip, layout=layout, points=clip.points[:, marks], present=clip.present[:, groups]
    )
