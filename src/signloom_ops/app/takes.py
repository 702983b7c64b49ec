"""Takes: recordings on disk, from their first bytes to their delivery.

A take is a folder with its film and `take.json`. A film grows by pieces, each where the bytes on
disk end, so that an interrupted upload continues from there. A delivery appears in the inbox as a
whole folder, by one rename.
"""

import contextlib
import logging
import os
import re
import secrets
import shutil
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Literal

from signloom.config import (
    Natural,
    NonNegative,
    Positive,
    checked_dataclass,
    parse_options,
    read_json,
    read_record,
)
from signloom.corpus.manifest import VIDEO_SUFFIXES, has_ended
from signloom.errors import UserError
from signloom.files import flush_to_disk, to_sealed, to_text, write_file
from signloom.grouping import group_pairs
from signloom.paths import APP
from signloom_tools.importing.person_names import name_key

MAX_FILM = 2 * 10**9  # bytes of one film
MAX_PIECE = 8 * 10**6  # bytes of one piece
MAX_UNFINISHED = 100
_COLUMNS = (
    "clip_id",
    "text",
    "start_s",
    "end_s",
    "gloss",
    "language",
    "video",
    "signer",
    "consent_until",
)
_ID = re.compile(r"[0-9a-f]{16}")
_UNSEEN = ("Cc", "Cn", "Co", "Cs")  # controls and no characters; joiners belong to texts
_HINT = "remove its folder if the recording is of no use"

logger = logging.getLogger(__name__)

State = Literal["recording", "whole", "delivered"]
Purpose = Literal["training", "showing"]
Span = tuple[float | None, float | None]
"""Start and end of a clip in its film, seconds."""


class TakeError(UserError):
    """A request about a take that cannot be met; `status` is that of HTTP."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


@checked_dataclass
class FilmPart:
    """A sentence of a long film: a clip of its own."""

    start_s: NonNegative
    end_s: Positive
    text: str
    gloss: str = ""
    language: str = ""

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s:
            raise ValueError(f"a clip from {self.start_s:g} to {self.end_s:g} s ends too early")


@checked_dataclass
class Take:
    """What take.json holds."""

    id: str
    text: str  # the sentence; empty: not labelled yet
    signer: str
    made: str  # when it began, ISO 8601
    suffix: str  # of the film's file
    state: State
    delivery: str = ""  # name of its folder in the inbox, from just before it appears there
    name: str = ""  # of the file that was uploaded; empty: it was recorded
    parts: list[FilmPart] = field(default_factory=list)  # of a long film; empty: it is one clip
    start_s: NonNegative = 0.0  # of what is signed in a recording
    end_s: NonNegative = 0.0  # likewise; 0: the film is the clip as it is


@checked_dataclass
class Consent:
    """What a signer agreed to on a day."""

    signer: str
    day: str
    purposes: list[Purpose]
    until: str  # last day that it holds, ISO 8601; empty: until it is withdrawn
    wording: str  # what was shown
    number: Natural = 0  # in the order in which they were given; 0: before Signloom 0.3


@dataclass(frozen=True, slots=True)
class TakeDelivery:
    """A delivery, and what stayed behind."""

    folder: Path | None  # None: nothing was fit to be delivered
    takes: list[str]
    left: dict[str, str]  # why, by take


class TakeStore:
    """The takes of a project."""

    def __init__(self, root: Path = APP) -> None:
        self._takes, self._consents = root / "takes", root / "consents"
        self._writing = threading.RLock()  # the server's threads share takes

    def list_takes(self) -> list[Take]:
        """Return all takes, the newest first."""
        takes = []
        for folder in self._takes.iterdir() if self._takes.is_dir() else ():
            if _ID.fullmatch(folder.name) and (folder / "take.json").is_file():
                try:
                    takes.append(self.get(folder.name))
                except UserError as error:  # one damaged take is one damaged take
                    logger.warning("recording %s is left out: %s", folder.name, error)
        return sorted(takes, key=lambda take: (take.made, take.id), reverse=True)

    def begin(self, *, text: str, signer: str, suffix: str, name: str = "") -> Take:
        """Make an empty take.

        Raises:
            TakeError: If the ending is no video's, or too many recordings were never ended.
        """
        suffix = suffix.lower()
        if suffix not in VIDEO_SUFFIXES:
            raise TakeError(f"{suffix!r} is no ending of a video: {', '.join(VIDEO_SUFFIXES)}", 415)
        open_ones = sum(1 for _ in self._takes.glob("*/film.part"))
        if open_ones >= MAX_UNFINISHED:
            raise TakeError(f"{open_ones} recordings were begun and not ended; remove some", 429)
        begun = datetime.now().isoformat(timespec="milliseconds")
        take = Take(
            id=secrets.token_hex(8),
            text=one_line(text),
            signer=one_line(signer),
            made=begun,
            suffix=suffix,
            state="recording",
            name=one_line(name),
        )
        (self._takes / take.id).mkdir(parents=True)
        self._keep(take)  # first: a film without a readable take has no owner
        self.film(take).touch()
        return take

    def get(self, take_id: str) -> Take:
        """Return a take.

        Raises:
            TakeError: If there is none.
        """
        path = self._folder(take_id) / "take.json"
        if not path.is_file():
            raise TakeError("there is no such recording", 404)
        take = parse_options(read_json(path, hint=_HINT), Take, where=str(path))
        finished = replace(take, state="whole")
        if (
            take.state == "recording"
            and not self.film(take).exists()
            and self.film(finished).is_file()
        ):
            # A crash came between the film's last name and this note, or another thread is there.
            with self._writing:
                now = parse_options(read_json(path, hint=_HINT), Take, where=str(path))
                return self._keep(finished) if now == take else now
        return take

    def get_whole(self, take_id: str) -> Take:
        """Return a take whose film is whole.

        Raises:
            TakeError: If there is none, or its film is not.
        """
        take = self.get(take_id)
        if take.state == "recording":
            raise TakeError("this recording is not whole yet", 409)
        return take

    def film(self, take: Take) -> Path:
        """Return the file of its film; of one that is not whole yet, what there is of it."""
        folder = self._folder(take.id)
        return folder / (f"film{take.suffix}" if take.state != "recording" else "film.part")

    def size(self, take: Take) -> int:
        """Return how many bytes of the film are here."""
        path = self.film(take)
        return path.stat().st_size if path.is_file() else 0

    def append(self, take: Take, offset: int, piece: bytes) -> int:
        """Add a piece of the film and return its size; what is here already changes nothing.

        Raises:
            TakeError: If the film is whole, too long, or the piece begins where none is awaited;
                507 if the disk is full.
        """
        with self._changing(take) as take:  # the same piece may come twice in parallel
            if take.state != "recording":
                raise TakeError("this recording is whole already", 409)
            size = self.size(take)
            if offset > size:
                raise TakeError(f"the next byte awaited is number {size}, found {offset}", 409)
            piece = piece[size - offset :]
            if size + len(piece) > MAX_FILM:
                raise TakeError(f"a film may have {MAX_FILM / 1e9:g} GB", 413)
            path = self.film(take)
            try:
                with path.open("ab") as file:
                    file.write(piece)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.truncate(path, size)
                why = f"the disk takes no more ({error.strerror}): free some room"
                raise TakeError(why, 507) from None
            return size + len(piece)

    def finish(self, take: Take, size: int) -> Take:
        """Call the film whole.

        Raises:
            TakeError: If it has another size than the sender says, or none.
        """
        if take.state == "recording":
            with contextlib.suppress(FileNotFoundError):  # another thread was faster
                flush_to_disk(self.film(take))  # before, since others wait for the lock
        with self._changing(take) as now:
            if now.state != "recording":
                return now
            size_here = self.size(now)
            if size_here != size or not size:
                raise TakeError(f"{size_here} bytes are here, the whole film has {size}", 409)
            finished = replace(now, state="whole")
            self.film(now).rename(self.film(finished))
            return self._keep(finished)

    def change(
        self,
        take: Take,
        *,
        text: str | None = None,
        signer: str | None = None,
        parts: Sequence[FilmPart] | None = None,
    ) -> Take:
        """Correct the sentence, the signer or the parts of a take that is not delivered.

        Raises:
            TakeError: If it is delivered, or two parts have the same times.
        """
        with self._changing(take) as take:
            if take.state == "delivered":
                raise TakeError("this recording is delivered; correct it with a new one", 409)
            text = take.text if text is None else one_line(text)
            signer = take.signer if signer is None else one_line(signer)
            parts = take.parts if parts is None else sorted(parts, key=lambda part: part.start_s)
            if len({_span(part) for part in parts}) < len(parts):
                raise TakeError("two clips of a film have the same times; remove one")
            lines = [
                FilmPart(
                    start_s=part.start_s,
                    end_s=part.end_s,
                    text=one_line(part.text),
                    gloss=one_line(part.gloss),
                    language=one_line(part.language),
                )
                for part in parts
            ]
            return self._keep(replace(take, text=text, signer=signer, parts=lines))

    def trim(self, take_id: str, start_s: float, end_s: float) -> None:
        """Let the clip of a recording be what is signed, without the rest before and after."""
        with self._writing:
            take = self.get(take_id)
            if take.state == "whole":
                self._keep(replace(take, start_s=round(start_s, 3), end_s=round(end_s, 3)))

    def remove(self, take: Take) -> None:
        """Delete a take with its film; what was delivered stays in the inbox or the corpus."""
        with self._changing(take):
            shutil.rmtree(self._folder(take.id))

    def agree(self, consent: Consent) -> None:
        """Keep what a signer agreed to, in addition to what was agreed to before."""
        self._consents.mkdir(parents=True, exist_ok=True)
        name = f"{date.today().isoformat()}-{secrets.token_hex(4)}.json"
        with self._writing:
            number = 1 + max((consent.number for consent in self._read_consents()), default=0)
            signer = one_line(consent.signer)  # as takes have it
            consent = replace(consent, signer=signer, number=number)
            write_file(self._consents / name, to_text(asdict(consent)))

    def last_consents(self) -> dict[str, Consent]:
        """Return what each signer, by `name_key`, agreed to last; in doubt, what all allows."""
        every = self._read_consents()
        by_signer = group_pairs((name_key(consent.signer), consent) for consent in every)
        numbers = [consent.number for consent in every if consent.number]
        is_mixed = len({*numbers}) < len(numbers)  # each place counts for itself
        return {
            signer: _last_consent(consents, is_mixed=is_mixed)
            for signer, consents in by_signer.items()
        }

    def _read_consents(self) -> list[Consent]:
        return [
            parse_options(read_json(path, hint="remove it"), Consent, where=str(path))
            for path in sorted(self._consents.glob("*.json"))
        ]

    def when_agreed(self) -> int:
        """Return when a consent came or went last, nanoseconds; 0: never."""
        return self._consents.stat().st_mtime_ns if self._consents.is_dir() else 0

    def not_shown(self) -> set[str]:
        """Return the signers, by `name_key`, whose last consent lets nobody see their films."""
        return {
            signer
            for signer, consent in self.last_consents().items()
            if "showing" not in consent.purposes or has_ended(consent.until)
        }

    def deliver(self, inbox: Path, ids: Sequence[str] | None = None) -> TakeDelivery:
        """Put whole, labelled takes of signers who agreed into the inbox, in a single folder.

        Args:
            inbox: Where deliveries are taken from (`inbox` of ops.yaml).
            ids: Which; None: all that are not delivered.

        Raises:
            TakeError: If one is not there.
        """
        with self._writing:  # two clicks or browsers: the second finds everything delivered
            chosen = (
                [self.get(take_id) for take_id in ids]
                if ids is not None
                else self.list_takes()[::-1]
            )
            takes, reasons, consents = [], {}, self.last_consents()
            for take in chosen:
                if take.state == "delivered":
                    continue
                if why := _why_not(take, consents.get(name_key(take.signer))):
                    reasons[take.id] = why
                else:
                    takes.append(take)
            if not takes:
                return TakeDelivery(None, [], reasons)
            inbox.mkdir(parents=True, exist_ok=True)
            folder = inbox / f"app-{date.today().isoformat()}-{secrets.token_hex(3)}"
            hidden = inbox / f".{folder.name}"  # scans pass over names that begin with a dot
            hidden.mkdir()
            try:
                self._write(takes, consents, hidden)
            except BaseException:  # a full disk gets its room back
                shutil.rmtree(hidden)
                raise
            for take in takes:
                self._keep(replace(take, delivery=folder.name))
            hidden.rename(folder)
            flush_to_disk(inbox)
            for take in takes:
                self._keep(replace(take, state="delivered", delivery=folder.name))
            return TakeDelivery(folder, [take.id for take in takes], reasons)

    def _write(self, takes: Sequence[Take], consents: Mapping[str, Consent], hidden: Path) -> None:
        """Write the files of a delivery."""
        agreed = {take.signer: asdict(consents[name_key(take.signer)]) for take in takes}
        rows = ["\t".join(_COLUMNS)]
        for take in takes:
            name = f"{take.id}{take.suffix}"
            _link(self.film(take), hidden / name)
            until = consents[name_key(take.signer)].until
            rows += ["\t".join((*row, name, take.signer, until)) for row in _rows(take)]
        write_file(hidden / "table.tsv", "\n".join(rows) + "\n")
        write_file(hidden / "consent.json", to_text(agreed))

    def settle(self, inbox: Path) -> None:
        """Finish or undo deliveries that a crash cut off."""
        for take in self.list_takes():
            if take.delivery and take.state == "whole":
                arrived = (inbox / take.delivery).is_dir()
                delivered, undone = replace(take, state="delivered"), replace(take, delivery="")
                self._keep(delivered if arrived else undone)
        for folder in inbox.glob(".app-*"):
            shutil.rmtree(folder)

    def signers(self) -> set[str]:
        """Return who signs in a take or said what they agree to."""
        agreed = {consent.signer for consent in self._read_consents()}
        return ({take.signer for take in self._readable()} | agreed) - {""}

    def films_of(self, signer: str) -> dict[Path, set[Span]]:
        """Return the films of a signer, and the clips in each.

        Raises:
            UserError: If a take cannot be read, so that its signer is unknown.
        """
        return {
            self.film(take): {(take.start_s, take.end_s)}
            | {(p.start_s, p.end_s) for p in take.parts}
            for take in self._readable()
            if name_key(take.signer) == name_key(signer)
        }

    def places_of(self, signer: str) -> list[Path]:
        """Return the folders and files that are a signer's alone: takes and consents.

        Raises:
            UserError: If one cannot be read, so that its signer is unknown.
        """
        consents = [
            path
            for path in sorted(self._consents.glob("*.json"))
            if name_key(read_record(path, Consent, hint="remove it").signer) == name_key(signer)
        ]
        return [film.parent for film in self.films_of(signer)] + consents

    def _readable(self) -> Iterator[Take]:
        for path in sorted(self._takes.glob("*/take.json")):
            if _ID.fullmatch(path.parent.name):
                yield self.get(path.parent.name)

    def _folder(self, take_id: str) -> Path:
        """Return the folder of a take; nothing but an id of ours ever becomes part of a path."""
        if not _ID.fullmatch(take_id):
            raise TakeError("there is no such recording", 404)
        return self._takes / take_id

    @contextlib.contextmanager
    def _changing(self, take: Take) -> Iterator[Take]:
        """Yield a take as it is now, which another thread may have changed, and hold it."""
        with self._writing:
            yield self.get(take.id)

    def _keep(self, take: Take) -> Take:
        write_file(self._folder(take.id) / "take.json", to_sealed(asdict(take)))
        return take


def _last_consent(consents: Sequence[Consent], *, is_mixed: bool) -> Consent:
    """Return the consent that was given last, or what all of those allow that may be the last.

    Args:
        consents: Of one signer.
        is_mixed: Whether the files of several places lie in the folder: within a day, their numbers
            say nothing.
    """
    last = [
        consent
        for consent in consents
        if not any(_is_before(consent, later, is_mixed=is_mixed) for later in consents)
    ]
    purposes = [
        purpose
        for purpose in last[0].purposes
        if all(purpose in consent.purposes for consent in last)
    ]
    until = min((consent.until for consent in last if consent.until), default="")
    return replace(last[0], purposes=purposes, until=until)


def _is_before(consent: Consent, later: Consent, *, is_mixed: bool) -> bool:
    """Return whether a consent was surely given before another: by its day and its number."""
    if consent.day == later.day and is_mixed:
        return False
    is_ordered = consent.number <= later.number and consent.day <= later.day
    return is_ordered and (consent.number, consent.day) != (later.number, later.day)


def _why_not(take: Take, consent: Consent | None) -> str:
    """Return why a take is not delivered; empty: it is."""
    if take.state == "recording":
        return "its film is not whole"
    texts = [part.text for part in take.parts] or [take.text]
    if not all(texts) or not take.signer:
        return "its sentence or its signer is missing"
    if consent is None:
        return f"{take.signer} has not agreed to anything yet"
    if "training" not in consent.purposes:
        return f"{take.signer} has not agreed to training"
    if has_ended(consent.until):
        return f"{take.signer} agreed until {consent.until}"
    return ""


def _rows(take: Take) -> Iterator[tuple[str, ...]]:
    """Yield a row of a delivery for each clip of a take, as far as it is of the clip alone."""
    if not take.parts:
        span = _span(take) if take.end_s else ("", "")
        yield take.id, take.text, *span, "", ""
    for number, part in enumerate(take.parts, start=1):
        yield f"{take.id}-{number:03d}", part.text, *_span(part), part.gloss, part.language


def _span(part: FilmPart | Take) -> tuple[str, str]:
    """Return the times of a clip as a table has them."""
    return f"{part.start_s:.3f}", f"{part.end_s:.3f}"


def one_line(text: str) -> str:
    """Return a text on a single line, as a table takes it."""
    encodable = text.encode("utf-8", "replace").decode()  # half a surrogate can be written nowhere
    shown = "".join(c for c in encodable if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    return unicodedata.normalize("NFC", " ".join(shown.split()))[:1000]


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
        flush_to_disk(target)
