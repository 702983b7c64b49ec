"""Labels: captions and tables dropped together with films, given to the takes of these films."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from signloom.corpus.manifest import parse_segment
from signloom.errors import ClipError, UserError
from signloom_ops.app.takes import FilmPart, Take
from signloom_ops.intake.deliveries import read_delivery_table
from signloom_tools.importing.captioned import measure_film
from signloom_tools.importing.captions import (
    READ_SUFFIXES,
    TABLE_SUFFIXES,
    apply_rules,
    last_end_s,
    read_captions,
    split_name,
)
from signloom_tools.importing.new_corpus import stem
from signloom_tools.importing.options import CueRules
from signloom_tools.importing.text_encoding import decode_text

SUFFIXES = (*READ_SUFFIXES, *TABLE_SUFFIXES, ".txt")


@dataclass(slots=True)
class Labels:
    """What a file says of a film; what it does not say stays as it is."""

    text: str | None = None
    signer: str | None = None
    parts: list[FilmPart] = field(default_factory=list)


def read_labels(
    path: Path, takes: Sequence[tuple[Take, Path]]
) -> tuple[dict[str, Labels], list[str]]:
    """Read captions, a text or a table for films of their names.

    Args:
        path: The file; captions and texts are called as their film.
        takes: Those that may be labelled, with their films, the newest first.

    Returns:
        Labels by take; what could not be taken and why.

    Raises:
        UserError: If nothing of the file can be read, or no film here has its name.
    """
    films = {stem(take.name): (take, film) for take, film in reversed(takes) if take.name}
    labelled = films.get(path.stem) or films.get(split_name(path)[0])
    if path.suffix.lower() == ".txt" and labelled:
        lines = decode_text(path.read_bytes(), None)[0].splitlines()
        return {labelled[0].id: Labels(text=lines[0] if lines else "")}, []
    if path.suffix.lower() in (*READ_SUFFIXES, *TABLE_SUFFIXES) and labelled:
        labels, problems = _read_cues(path, labelled[1])
        return {labelled[0].id: labels}, problems
    if path.suffix.lower() in READ_SUFFIXES:
        raise UserError(f"{path.name}: no film of its name is here; upload it first")
    return _read_rows(path, {name: take for name, (take, _) in films.items()})


def _read_cues(path: Path, film: Path) -> tuple[Labels, list[str]]:
    captions = read_captions(path)
    try:
        duration_s = measure_film(film, last_end_s(captions.cues))
    except ClipError:
        duration_s = None  # "Check" says why
    cues, left_out = apply_rules(captions.cues, CueRules(), duration_s)
    signers = sorted({cue.signer for cue in cues} - {""})
    if len(signers) > 1:
        raise UserError(
            f"{path.name}: {', '.join(signers)} sign in it, and a film has one signer here; bring "
            "it with `signloom ingest`"
        )
    parts = [
        FilmPart(
            start_s=cue.start_s,
            end_s=cue.end_s,
            text=cue.text,
            gloss=cue.gloss,
            language=cue.language,
        )
        for cue in cues
    ]
    problems = [*captions.broken, *((cue.where, problem) for cue, problem in left_out)]
    messages = [f"{path.name} {where}: {problem}" for where, problem in problems]
    return Labels(signer=signers[0] if signers else None, parts=parts), messages


def _read_rows(path: Path, takes: dict[str, Take]) -> tuple[dict[str, Labels], list[str]]:
    by_take: dict[str, Labels] = defaultdict(Labels)
    messages = []
    for where, values, problems in read_delivery_table(path):
        name = values.get("video") or values.get("clip_id", "")
        take = takes.get(stem(PurePosixPath(name.replace("\\", "/")).name))
        start_s, end_s, odd = parse_segment(values)
        why = [str(problem) for problem in problems] or odd
        if not why and take is None:
            why = [f"no film called {name!r} is here; upload it first"]
        if why or take is None:
            messages.append(f"{where}: {'; '.join(why)}")
            continue
        labels = by_take[take.id]
        labels.signer = values.get("signer") or labels.signer
        if end_s is None:
            labels.text = values.get("text", labels.text)
        else:
            labels.parts.append(
                FilmPart(
                    start_s=start_s or 0.0,
                    end_s=end_s,
                    text=values.get("text", ""),
                    gloss=values.get("gloss", ""),
                    language=values.get("language", ""),
                )
            )
    return by_take, messages
