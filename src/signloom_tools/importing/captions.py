"""Captions: sentences with times, read from and written to the files that other tools use."""

import fnmatch
import html
import itertools
import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from signloom.errors import Problem, UserError
from signloom.files import to_text, write_file
from signloom_tools.importing.cells import clean, parse_time
from signloom_tools.importing.column_sources import find_sources
from signloom_tools.importing.elan import Annotation, Elan, Tier, read_elan, render_elan
from signloom_tools.importing.options import Choice, CueRules
from signloom_tools.importing.text_encoding import decode_text
from signloom_tools.importing.user_tables import read_user_table

FORMAT_VERSION = 1  # of the .json files
READ_SUFFIXES = (".eaf", ".vtt", ".srt", ".json3")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
WRITE_SUFFIXES = (".vtt", ".srt", ".eaf", ".txt", ".json")
_MOST_BYTES = 64_000_000  # a day of captions takes three
_MOST_S = 1e7  # of a time: four months

_CLOCK = r"((?:\d{1,6}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,3})?)"
_TIMES = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}(?:\s.*)?")
# The line of times of a block, and the number or name above it.
_SRT_HEAD = re.compile(r"^(?:[ \t]*(\d+)[ \t]*\n)?([^\n]*-->[^\n]*)$", re.MULTILINE)
_VTT_HEAD = re.compile(
    r"^(?:(?!NOTE\b|STYLE\b|REGION\b|WEBVTT|Language:|[^\n]*-->)[ \t]*(\S[^\n]*)\n)?"
    r"([^\n]*-->[^\n]*)$",
    re.MULTILINE,
)
_BLANK = re.compile(r"\n[ \t]*(?:\n|$)")
_ROLL_S = 0.05  # a shorter cue only shows what stays while the lines roll
_SIGN = re.compile(r"<c\.sign>[^<]*</c>")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s([^<>]+)>")
# Of SubRip (with SubStation's, which converters leave in) and WebVTT (with its times inside a cue);
# not `5 < 7`. None looks past the next opening bracket, or a file of them would take for ever.
_TAGS = re.compile(r"</?[a-zA-Z][^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}")
MIN_INSIDE = 0.9  # of a cue that must lie in its film, as extraction asks of a segment
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_CODE = re.compile(r"[A-Z]([A-Z]?\d+)?")  # of a signer
_SENTENCE_ENDS = ".!?…。！？؟।։"
_CLOSING = "\"'»”’)]』」"
UNSURE_MARK = "[?] "  # before a sentence that a model is unsure of


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """A sentence and when it is shown; times in seconds from the start of the film."""

    start_s: float
    end_s: float
    text: str
    signer: str = ""
    language: str = ""
    gloss: str = ""  # signs separated by spaces
    clip_id: str = ""  # of the clip of a corpus that it is
    hypothesis: str = ""  # what a model says
    score: float | None = None  # confidence of what a model says
    where: str = ""  # line or annotation of the file that it was read from

    def later(self, by_s: float) -> "Cue":
        """Return the same, some seconds later."""
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s)


_TIERS: Mapping[str, Callable[[Cue], str]] = {
    "text": lambda cue: cue.text,
    "hypothesis": lambda cue: cue.hypothesis,
    "gloss": lambda cue: cue.gloss,
    "clip": lambda cue: cue.clip_id,
    "score": lambda cue: "" if cue.score is None else f"{cue.score:.3f}",
}
OUR_TIERS = (*_TIERS,)
"""Tiers of the .eaf files that are written here; `@` and the signer may follow."""


@dataclass(frozen=True, slots=True)
class Captions:
    """The cues of a file in its order, and the parts that cannot be read, each with its reason."""

    path: Path
    cues: Sequence[Cue]
    broken: Sequence[tuple[str, Problem]] = ()
    media: Mapping[str, float] = field(default_factory=dict)
    """Films that it names, and by how many seconds its times are later there."""
    signers: Mapping[str, str] = field(default_factory=dict)
    """Who signs, where that is taken from the name of a tier or film."""
    has_gloss_lines: bool = False
    """An ELAN file whose sentences have one annotation of glosses each, some of several words."""


def split_name(path: Path) -> tuple[str, str]:
    """Return the name of the film of a caption file, and its language: of `film.de.vtt`, de."""
    name, _, language = path.stem.rpartition(".")
    return (name, language) if name and _LANGUAGE.fullmatch(language) else (path.stem, "")


def read_captions(path: Path, choice: Choice | None = None) -> Captions:
    """Read a caption file of one film, of `READ_SUFFIXES` or `TABLE_SUFFIXES`.

    Raises:
        UserError: If nothing of it can be read, or it must be said what to take.
    """
    choice = choice or Choice()
    suffix = path.suffix.lower()
    if not path.is_file():
        raise UserError(f"{path}: no such file of captions")
    if path.stat().st_size > _MOST_BYTES:
        raise UserError(f"{path}: has more than {_MOST_BYTES:,} bytes, which no captions take")
    if suffix in TABLE_SUFFIXES:
        captions = _read_table(path)
    elif suffix not in READ_SUFFIXES:
        suffixes = ", ".join(READ_SUFFIXES + TABLE_SUFFIXES)
        raise UserError(f"{path}: no captions are read from {suffix!r} files, but from {suffixes}")
    else:
        text = decode_text(path.read_bytes(), None)[0].replace("\r\n", "\n").replace("\r", "\n")
        if "\0" in text:
            raise UserError(f"{path}: no text; expected captions")
        readers: Mapping[str, Callable[[Path, str, Choice], Captions]] = {
            ".eaf": _read_eaf,
            ".json3": _read_json3,
        }
        captions = readers.get(suffix, _read_blocks)(path, text, choice)
    language = split_name(path)[1]
    cues, broken = [], list(captions.broken)
    for cue in captions.cues:
        if problem := _cue_problem(cue):
            broken.append((cue.where, problem))
        elif not choice.language or _is_language(cue.language or language, choice.language):
            cues.append(replace(cue, text=clean(cue.text), language=cue.language or language))
    return replace(captions, cues=cues, broken=broken)


def _cue_problem(cue: Cue) -> Problem | None:
    """Say what of a cue no table could hold."""
    if not all(abs(time_s) <= _MOST_S for time_s in (cue.start_s, cue.end_s)):
        span = f"{cue.start_s:.3g} to {cue.end_s:.3g} s"
        return Problem("its times lie beyond every film", "correct them", (span,))
    try:
        "".join((cue.text, cue.signer, cue.language, cue.gloss, cue.clip_id)).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        return Problem(f"its text has half of a character, {half}", "write it again")
    return None


def _is_language(language: str, wanted_language: str) -> bool:
    """Tell whether a language is the wanted one: `de` takes `de-AT` too, and what is not said."""
    return not language or language == wanted_language or language.startswith(f"{wanted_language}-")


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAGS.sub("", text)).split())


def _rolls(blocks: Sequence[Sequence[str]]) -> bool:
    """Tell whether most cues begin with a line of the one before, as automatic captions do."""
    shown = [list(filter(None, map(_plain, lines))) for lines in blocks]
    pairs = list(itertools.pairwise(shown))
    rolled = [len(after) for before, after in pairs if after and after[0] in before]
    return 2 * len(rolled) > len(pairs) and max(rolled) > 1


def _new_lines(shown: Sequence[str], before: Sequence[str], *, is_short: bool) -> list[str]:
    """Return the lines of a cue that rolls without those that the cue before it showed.

    A line whose words have times of their own is always new.
    """
    lines = [line for line in shown if _plain(line)]
    texts, old = list(map(_plain, lines)), list(filter(None, map(_plain, before)))
    repeats = is_short or len(lines) > 1
    counts = (n for n in range(len(lines), 0, -1) if repeats and texts[:n] == old[-n:])
    first = next(counts, 0)  # the last lines before have rolled up to the top
    return [line for number, line in enumerate(lines) if "<c>" in line or number >= first]


def _split_blocks(text: str, heads: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str], str]]:
    """Yield of each block the number of its line of times, its head, and the text below it."""
    matches = list(heads.finditer(text))
    number, counted = 1, 0
    for head, after in itertools.zip_longest(matches, matches[1:]):
        number, counted = number + text.count("\n", counted, head.start(2)), head.start(2)
        yield number, head, text[head.end() : after.start() if after else None]


def _read_vtt_names(text: str, name: str) -> tuple[str, str]:
    """Return who signs, by the voice of a cue, and its clip, by its name; a number is none."""
    voice = _VOICE.search(text)
    return _plain(voice[1]) if voice else "", "" if name.isdecimal() else name


def _read_blocks(path: Path, text: str, _: Choice) -> Captions:
    """Read .srt and .vtt."""
    is_vtt = text.lstrip().startswith("WEBVTT")
    header = text.partition("-->")[0] if is_vtt else ""
    language = next(iter(re.findall(r"^Language:(.*)$", header, re.MULTILINE)), "").strip()
    cues: list[Cue] = []
    broken = []
    shown: list[str] = []
    blocks = list(_split_blocks(text, _VTT_HEAD if is_vtt else _SRT_HEAD))
    # YouTube's own captions, of which each cue also shows the line before.
    rolls = (is_vtt and "><c>" in text) or _rolls([block.split("\n") for *_, block in blocks])
    for number, head, block in blocks:
        times = _TIMES.fullmatch(head[2])
        start_s, end_s = map(parse_time, times.groups()) if times else (None, None)
        if rolls:
            visible = block.partition("\n\n")[0] if is_vtt else block
            before, shown = shown, visible.split("\n")
            is_short = start_s is not None and end_s is not None and end_s - start_s < _ROLL_S
            lines = _new_lines(shown, before, is_short=is_short)
            if not lines:
                continue
        else:
            lines = (_BLANK.split(block, 1)[0] if is_vtt else block).split("\n")
        joined = " ".join(lines)
        if start_s is None or end_s is None:
            problem = Problem("its times cannot be read", "correct it", (head[2].strip(),))
            broken.append((f"line {number}", problem))
        elif not (is_vtt and _SIGN.fullmatch(joined.strip())):  # what was signed, and no sentence
            name = (head[1] or "").strip()
            signer, clip_id = _read_vtt_names(joined, name) if is_vtt else ("", "")
            cues.append(
                Cue(
                    start_s=start_s,
                    end_s=end_s,
                    text=_plain(joined),
                    where=f"line {number}",
                    signer=signer,
                    language=language,
                    clip_id=clip_id,
                )
            )
    if not cues and not broken:
        raise UserError(f"{path}: holds no line of times such as 00:00:01.000 --> 00:00:04.000")
    return Captions(path, cues, broken)


def _read_json3(path: Path, text: str, _: Choice) -> Captions:
    """Read what YouTube gives as json3."""
    cues: list[Cue] = []
    try:
        events = json.loads(text)["events"]
        for number, event in enumerate(events, start=1):
            words = "".join(segment.get("utf8", "") for segment in event.get("segs", ()))
            if not words.strip():
                continue  # styles, windows, and the line ends of captions that roll
            start_s = float(event["tStartMs"]) / 1000
            end_s = start_s + float(event.get("dDurationMs", 0)) / 1000
            if cues and cues[-1].end_s > start_s > cues[-1].start_s:
                # They are shown until the next line has rolled by; words end where others begin.
                cues[-1] = replace(cues[-1], end_s=start_s)
            cues.append(
                Cue(start_s=start_s, end_s=end_s, text=_plain(words), where=f"event {number}")
            )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        ArithmeticError,
    ) as error:
        raise UserError(
            f"{path}: no captions of YouTube as json3 ({type(error).__name__}: {error})"
        ) from None
    return Captions(path, cues)


_TIMES_OF_TABLES = {"start": "start_s", "begin": "start_s", "end": "end_s", "stop": "end_s"}


def _read_table(path: Path) -> Captions:
    table = read_user_table(path, None, None)
    columns = {_TIMES_OF_TABLES.get(name.lower(), ""): name for name in table.header}
    columns.pop("", None)
    sources = find_sources(table.header, columns)
    if not {"start_s", "end_s", "text"} <= sources.keys():
        raise UserError(
            f"{path}: found the columns {', '.join(table.header)}; expected start_s, end_s and text"
        )
    cues, why = [], "its cells do not fit the columns"
    broken = [(f"line {line}", Problem(why, "correct it", (cut,))) for line, cut in table.torn]
    for row in table.rows:
        values = row.values(sources)
        start_s, end_s = parse_time(values["start_s"]), parse_time(values["end_s"])
        if start_s is None or end_s is None:
            concerns = values["start_s"], values["end_s"]
            problem = Problem("its times cannot be read", "correct it", concerns)
            broken.append((f"line {row.line}", problem))
            continue
        cues.append(
            Cue(
                start_s=start_s,
                end_s=end_s,
                where=f"line {row.line}",
                text=values["text"],
                signer=values.get("signer", ""),
                gloss=values.get("gloss", ""),
                language=values.get("language", ""),
                clip_id=values.get("clip_id", ""),
            )
        )
    return Captions(path, cues, broken)


def _read_eaf(path: Path, text: str, choice: Choice) -> Captions:
    elan = read_elan(path, text)
    cues, tiers, has_gloss_lines = [], _text_tiers(path, elan, choice), False
    signers_by_name = _signers_by_name(tiers, " ".join([path.stem, *elan.media]))
    for tier in tiers:
        glosses = _beside(elan, tier, choice.gloss_tier or "gloss", tiers)
        signers = _beside(elan, tier, choice.signer_tier, tiers) if choice.signer_tier else []
        ids = _beside(elan, tier, "clip", tiers)
        participant = tier.participant or signers_by_name.get(tier.name, "")
        # An annotation is a sign, such as THANK YOU, or else all glosses of a sentence.
        is_sign = any(len(_inside(annotation, glosses)) > 1 for annotation in tier.annotations)
        if choice.gloss_tier and not is_sign:  # in our own files, glosses are such lines
            has_gloss_lines |= any(len(gloss.value.split()) > 1 for gloss in glosses)
        for annotation in tier.annotations:
            cues.append(
                Cue(
                    start_s=annotation.start_ms / 1000,
                    end_s=annotation.end_ms / 1000,
                    text=" ".join(annotation.value.split()),  # ELAN has no tags
                    signer=_values_in(annotation, signers) or participant,
                    language=tier.language,
                    gloss=_values_in(annotation, glosses, "-" if is_sign else " "),
                    clip_id=_values_in(annotation, ids),
                    where=f"annotation {annotation.name}",
                )
            )
    media = {name: later_ms / 1000 for name, later_ms in elan.media.items()}
    ordered = sorted(cues, key=lambda cue: cue.start_s)
    return Captions(
        path, ordered, media=media, signers=signers_by_name, has_gloss_lines=has_gloss_lines
    )


def _end_of(tier: Tier) -> str:
    """Return the last part of a tier's name: of Satz_A or GlossL S1 who signs, A and S1."""
    return re.split(r"[\s_@.-]+", tier.name)[-1]


def _signers_by_name(tiers: Sequence[Tier], films: str) -> dict[str, str]:
    """Return who signs by names of tiers without participants: codes, or parts of films' names."""
    ends = {tier.name: _end_of(tier) for tier in tiers if not (tier.participant or tier.language)}
    words = re.split(r"[\W_]+", films.casefold())  # other names may be languages
    are_people = all(_CODE.fullmatch(end) or end.casefold() in words for end in ends.values())
    return ends if are_people and 1 < len({*ends.values()}) == len(tiers) else {}


def _is_tier(tier: Tier, pattern: str) -> bool:
    """Tell whether a tier is meant: by pattern; one of ours also with `@` and a signer."""
    base = tier.name.partition("@")[0]
    ours = pattern in OUR_TIERS and base == pattern
    return ours or fnmatch.fnmatchcase(tier.name, pattern)


def _text_tiers(path: Path, elan: Elan, choice: Choice) -> list[Tier]:
    full = [tier for tier in elan.tiers if tier.annotations]
    if choice.language:
        full = [tier for tier in full if _is_language(tier.language, choice.language)]
    sentence_tiers = [tier for tier in full if _is_tier(tier, choice.tier or OUR_TIERS[0])]
    if not sentence_tiers and not choice.tier:
        top = [tier for tier in full if not tier.parent]
        sentence_tiers = top if len(top) == 1 else []
    if sentence_tiers:
        return sentence_tiers
    listed = "; ".join(
        f"{tier.name} ({len(tier.annotations)}, as {tier.annotations[0].value[:40]!r})"
        for tier in full
    )
    problem = f"no tier is {choice.tier!r}." if choice.tier else "which tier has the sentences?"
    raise UserError(f"{path}: {problem} Say --tier NAME; found {listed or 'no annotation'}")


def _beside(elan: Elan, text: Tier, pattern: str, texts: Sequence[Tier]) -> list[Annotation]:
    """Return the annotations, by their middles, of the tiers that describe one of sentences."""
    by_name = {tier.name: tier for tier in elan.tiers}

    def root(tier: Tier) -> str:
        visited = {tier.name}
        while tier.parent in by_name and tier.parent not in visited:
            tier = by_name[tier.parent]
            visited.add(tier.name)
        return tier.name

    tiers = [
        tier
        for tier in elan.tiers
        if tier.name != text.name
        and _is_tier(tier, pattern)
        and (
            root(tier) == root(text)
            if text.parent or tier.parent
            else tier.participant == text.participant
        )
    ]
    if len(texts) > 1 and not text.participant:  # then the ends of their names say whose they are
        endings = {_end_of(tier) for tier in texts}
        same_ending = [tier for tier in tiers if _end_of(tier) == _end_of(text)]
        tiers = same_ending or [tier for tier in tiers if _end_of(tier) not in endings]
    return _join_hands(tiers)


def _join_hands(tiers: Sequence[Tier]) -> list[Annotation]:
    """Return the annotations of tiers by their middles; a sign of both hands stands once.

    Corpora have a tier a hand, and sign the same on both if half of the shorter one lies in the
    other.
    """
    joined: dict[str, list[Annotation]] = defaultdict(list)  # by value
    for tier in tiers:
        before = {value: list(same) for value, same in joined.items()}  # each is joined once
        for annotation in tier.annotations:
            value = " ".join(annotation.value.split())
            candidates = before.get(value, [])
            twin = max(
                candidates,
                key=lambda candidate: _overlap_ms(candidate, annotation),
                default=annotation,
            )
            shorter_ms = min(annotation.end_ms - annotation.start_ms, twin.end_ms - twin.start_ms)
            if twin is not annotation and 0 < shorter_ms <= 2 * _overlap_ms(twin, annotation):
                candidates.remove(twin)
                joined[value].remove(twin)
                annotation = replace(
                    annotation,
                    start_ms=min(annotation.start_ms, twin.start_ms),
                    end_ms=max(annotation.end_ms, twin.end_ms),
                )
            joined[value].append(annotation)
    return sorted(itertools.chain.from_iterable(joined.values()), key=_twice_middle)


def _overlap_ms(first: Annotation, second: Annotation) -> int:
    return min(first.end_ms, second.end_ms) - max(first.start_ms, second.start_ms)


def _twice_middle(annotation: Annotation) -> int:
    return annotation.start_ms + annotation.end_ms


def _inside(outer: Annotation, annotations: Sequence[Annotation]) -> list[Annotation]:
    """Return the annotations whose middle lies in another one, as they begin."""
    first = bisect_right(annotations, 2 * outer.start_ms, key=_twice_middle)
    last = bisect_left(annotations, 2 * outer.end_ms, key=_twice_middle)
    return sorted(
        annotations[first:last], key=lambda annotation: (annotation.start_ms, annotation.end_ms)
    )


def _values_in(outer: Annotation, annotations: Sequence[Annotation], mark: str = " ") -> str:
    """Return the values of the annotations inside another one, their words joined by a mark."""
    values = (mark.join(annotation.value.split()) for annotation in _inside(outer, annotations))
    return " ".join(filter(None, values))


LeftOut = tuple[Cue, Problem]


def last_end_s(cues: Sequence[Cue]) -> float:
    """Return when the last cue ends; 0 if there is none."""
    return max((cue.end_s for cue in cues), default=0.0)


def apply_rules(
    cues: Sequence[Cue], rules: CueRules, duration_s: float | None
) -> tuple[list[Cue], list[LeftOut]]:
    """Return the cues that are clips, in the order of time, and those that are none and why.

    Args:
        cues: Of one film.
        duration_s: Of the film; None: unknown.
    """
    left_out: list[LeftOut] = []
    by_signer: dict[str, list[Cue]] = defaultdict(list)
    for cue in sorted(cues, key=_times):
        if not cue.text:
            left_out.append((cue, Problem("its text is empty", "")))
        elif not any(character.isalnum() for character in cue.text):
            left_out.append((cue, Problem("its text has no letter and no digit", "", (cue.text,))))
        elif cue.text.startswith(UNSURE_MARK.strip()):
            reason = "a model is unsure of it, and nobody has taken the mark away"
            left_out.append((cue, Problem(reason, "", (cue.text,))))
        elif cue.end_s <= cue.start_s:
            span = f"{cue.start_s:.3f} to {cue.end_s:.3f} s"
            left_out.append((cue, Problem("it does not end after its start", "", (span,))))
        else:
            by_signer[cue.signer].append(cue)
    kept_cues: list[Cue] = []
    for signer_cues in by_signer.values():
        inside = []
        for cue in _join(signer_cues, rules):
            placed = _place(cue, rules, duration_s)
            if isinstance(placed, Problem):
                left_out.append((cue, placed))
            else:
                inside.append(placed)
        kept_cues += _widen(inside, rules.padding_s, duration_s)
    return sorted(kept_cues, key=_times), left_out


def _join(cues: Sequence[Cue], rules: CueRules) -> list[Cue]:
    """Return the cues, those that go on with the sentence of the one before as a part of it."""
    joined: list[Cue] = []
    for cue in cues:
        last = joined[-1] if joined else None
        if (
            last is not None
            and rules.join_s is not None
            and not last.text.rstrip(_CLOSING).endswith(tuple(_SENTENCE_ENDS))
            and cue.start_s - last.end_s <= rules.join_s
            and cue.end_s - last.start_s <= rules.max_s
            and cue.language == last.language
        ):
            joined[-1] = replace(
                last,
                end_s=max(cue.end_s, last.end_s),
                gloss=" ".join(filter(None, (last.gloss, cue.gloss))),
                text=f"{last.text} {cue.text}",
            )
        else:
            joined.append(cue)
    return joined


def _place(cue: Cue, rules: CueRules, duration_s: float | None) -> Cue | Problem:
    """Return a cue moved and cut to its film, or why it is no clip."""
    start_s, end_s = cue.start_s + rules.shift_s, cue.end_s + rules.shift_s
    last_s = math.inf if duration_s is None else duration_s
    inside = replace(cue, start_s=max(start_s, 0.0), end_s=min(end_s, last_s))
    length_s = inside.end_s - inside.start_s
    if length_s < MIN_INSIDE * (end_s - start_s):
        span = f"{start_s:.3f} to {end_s:.3f} s, the film ends at {last_s:.3f} s"
        return Problem("it lies beyond its film", "", (span,))
    if not rules.min_s <= length_s <= rules.max_s:
        span = f"{rules.min_s:g} to {rules.max_s:g} s"
        return Problem(f"its length is not in {span}", "", (f"{length_s:.3f} s",))
    return inside


def _widen(cues: Sequence[Cue], padding_s: float, duration_s: float | None) -> Iterator[Cue]:
    ends = [0.0, *(cue.end_s for cue in cues)]
    starts = [*(cue.start_s for cue in cues[1:]), math.inf if duration_s is None else duration_s]
    for index, (cue, before_s, after_s) in enumerate(zip(cues, ends, starts, strict=False)):
        # Half of the pause to a neighbour, all of it to the edge of the film; none if they overlap.
        share = 1 if index == 0 else 2, 1 if index == len(cues) - 1 else 2
        ahead_s = min(padding_s, (cue.start_s - before_s) / share[0])
        behind_s = min(padding_s, (after_s - cue.end_s) / share[1])
        yield replace(
            cue,
            start_s=round(cue.start_s - max(0.0, ahead_s), 3),
            end_s=round(cue.end_s + max(0.0, behind_s), 3),
        )


def write_captions(
    path: Path, cues: Sequence[Cue], film: Path | None = None, signs: Sequence[Cue] = ()
) -> None:
    """Write cues in the order of time; the format follows from the ending.

    Args:
        path: Of `WRITE_SUFFIXES`.
        cues: Their texts on one line each.
        film: What they belong to, linked by .eaf files and named in .json files.
        signs: Of the sentences; .eaf, .vtt (class `sign`) and .json files have them.

    Raises:
        UserError: If the ending is another one.
    """
    cues = sorted(cues, key=_times)
    if path.suffix == ".eaf":
        tiers = [*_tiers(cues), *_sign_tiers(signs)]
        write_file(path, render_elan(tiers, film, path.parent))
    elif path.suffix == ".json":
        name = {} if film is None else {"film": film.name}
        more = {"signs": _rows(signs)} if signs else {}
        content = {"format_version": FORMAT_VERSION, **name, "cues": _rows(cues), **more}
        write_file(path, to_text(content))
    elif path.suffix in WRITE_SUFFIXES:
        write_file(path, _to_text(path.suffix, cues, signs))
    else:
        raise UserError(f"{path}: captions are written as {', '.join(WRITE_SUFFIXES)}")


def _times(cue: Cue) -> tuple[float, float]:
    return cue.start_s, cue.end_s


def _to_text(suffix: str, cues: Sequence[Cue], signs: Sequence[Cue]) -> str:
    """Return a .txt, .srt or .vtt file."""
    mark = "," if suffix == ".srt" else "."
    blocks = list[tuple[float, str]]()  # when each begins
    for number, cue in enumerate(cues, start=1):
        span = f"{_clock(cue.start_s, mark)} --> {_clock(cue.end_s, mark)}"
        voice = f"<v {html.escape(cue.signer, quote=False)}>" if cue.signer else ""
        block = {
            ".txt": f"{span}  {cue.text}",
            ".srt": f"{number}\n{span}\n{cue.text.replace('-->', '->')}",
            ".vtt": f"{cue.clip_id or number}\n{span}\n{voice}{html.escape(cue.text, quote=False)}",
        }
        blocks.append((cue.start_s, block[suffix]))
    for sign in signs if suffix == ".vtt" else ():
        span = f"{_clock(sign.start_s, mark)} --> {_clock(sign.end_s, mark)}"
        text = f"{span}\n<c.sign>{html.escape(sign.text, quote=False)}</c>"
        blocks.append((sign.start_s, text))
    texts = [text for _, text in sorted(blocks, key=lambda block: block[0])]  # sentences first
    head = ["WEBVTT"] if suffix == ".vtt" else []
    return ("\n" if suffix == ".txt" else "\n\n").join([*head, *texts]) + "\n"


def _rows(cues: Sequence[Cue]) -> list[dict[str, object]]:
    return [{k: v for k, v in asdict(cue).items() if v not in ("", None)} for cue in cues]


def _sign_tiers(signs: Sequence[Cue]) -> list[Tier]:
    """Return tiers of signs and of how sure each is, %; none lasts less than a millisecond.

    Signs that are looked for one by one may lie over another: then there are several tiers.
    """
    rows: list[list[tuple[int, int, Cue]]] = []
    for sign in sorted(signs, key=_times):
        start = round(sign.start_s * 1000)
        end = max(round(sign.end_s * 1000), start + 1)
        row = next((row for row in rows if row[-1][1] <= start), None)
        if row is None:
            rows.append(row := [])
        row.append((start, end, sign))
    tiers = []
    for number, row in enumerate(rows, start=1):
        name = "sign" + f" {number}" * (number > 1)
        sure = [f"{100 * (sign.score or 0):.0f}" for _, _, sign in row]
        for title, texts in ((name, [sign.text for *_, sign in row]), (f"{name} sure", sure)):
            marks = [
                Annotation(f"{title}/{index}", start, end, text, "")
                for index, ((start, end, _), text) in enumerate(zip(row, texts, strict=True))
            ]
            tiers.append(Tier(title, "", "", "", marks))
    return tiers


def _clock(seconds: float, mark: str) -> str:
    total_ms = round(seconds * 1000)
    minutes, rest_ms = divmod(total_ms, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest_ms // 1000:02}{mark}{rest_ms % 1000:03}"


def _tiers(cues: Sequence[Cue]) -> list[Tier]:
    """Return tiers on which no annotation overlaps another one: ELAN takes no others."""
    rows: dict[tuple[str, str, int], list[Cue]] = {}
    for cue in cues:
        for number in itertools.count():
            row = rows.setdefault((cue.signer, cue.language, number), [])
            if not row or round(row[-1].end_s * 1000) <= round(cue.start_s * 1000):
                row.append(cue)
                break
    tiers: list[Tier] = []
    used_endings: set[str] = set()
    for (signer, language, _), row in rows.items():
        signer_ending = f"@{signer}" if signer else ""
        endings = itertools.chain(
            [signer_ending], (f"{signer_ending or '@'}-{n}" for n in itertools.count(2))
        )
        ending = next(candidate for candidate in endings if candidate not in used_endings)
        used_endings.add(ending)
        for name, value_of in _TIERS.items():
            is_top, top = name == OUR_TIERS[0], f"{OUR_TIERS[0]}{ending}"
            annotations = [
                Annotation(
                    f"{name}{ending}/{index}",
                    round(cue.start_s * 1000),
                    round(cue.end_s * 1000),
                    text,
                    "" if is_top else f"{top}/{index}",
                )
                for index, cue in enumerate(row)
                if (text := value_of(cue)) or is_top
            ]
            if annotations:
                tiers.append(
                    Tier(
                        name + ending,
                        signer,
                        language if is_top or name == "hypothesis" else "",
                        "" if is_top else top,
                        annotations,
                    )
                )
    return tiers
