"""Bad inputs by kind, each written by a small function that takes the path of the file."""

import io
import json
import os
import random
import socket
import struct
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests import videos

Maker = Callable[[Path], object]


def _good_film() -> bytes:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"signloom-attack-{os.getpid()}.mp4"
    try:
        return videos.encode_video(path, [n / 25 for n in range(25)], size=(128, 96)).read_bytes()
    finally:
        path.unlink(missing_ok=True)


def cut(share: float, raw: Callable[[], bytes] = _good_film) -> Maker:
    """Return what writes the beginning of a good file."""
    return lambda path: path.write_bytes((content := raw())[: int(share * len(content))])


def flip(seed: int, count: int, raw: Callable[[], bytes] = _good_film) -> Maker:
    """Return what writes a good file in which some bytes are others."""

    def write(path: Path) -> None:
        content, chance = bytearray(raw()), random.Random(seed)
        for place in chance.choices(range(len(content)), k=count):
            content[place] = chance.randrange(256)
        path.write_bytes(content)

    return write


def flip_bit(seed: int) -> Maker:
    """Return what flips one bit of a file."""

    def write(path: Path) -> None:
        content, chance = bytearray(path.read_bytes()), random.Random(seed)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)

    return write


def bytes_of(content: bytes) -> Maker:
    """Return what writes these bytes."""
    return lambda path: path.write_bytes(content)


def link_to(target: str) -> Maker:
    """Return what makes a link; `{}` in the target is the name of the link."""
    return lambda path: path.symlink_to(target.format(path.name))


def sparse(size: int) -> Maker:
    """Return what makes a file that is long and holds nothing."""

    def write(path: Path) -> None:
        path.write_bytes(_good_film())
        os.truncate(path, size)

    return write


def _huge_picture(side: int) -> Maker:
    """Return what writes a film of a few kB whose pictures are large."""

    def write(path: Path) -> None:
        with av.open(str(path), "w", format="mov") as out:
            stream = out.add_stream("png", rate=1)
            stream.width = stream.height = side
            stream.pix_fmt = "gray"
            frame = av.VideoFrame(side, side, "gray")
            for number in range(3):
                frame.pts = number
                out.mux(stream.encode(frame))
            out.mux(stream.encode(None))

    return write


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
    os.chdir(here)


def _times(*times_s: float, **more: Any) -> Maker:
    return lambda path: videos.encode_video(path.with_suffix(".mkv"), times_s, **more).rename(path)


def _length(seconds: float) -> Maker:
    def write(path: Path) -> None:
        film = videos.encode_video(path.with_suffix(".mkv"), [0.0, 0.5, 1.0])
        videos.set_matroska_seconds(film, seconds).rename(path)

    return write


# What lies where a file should, and is none.
KINDS: dict[str, Maker] = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to nothing": link_to("/nowhere/at/all"),
    "a link to itself": link_to("{}"),
    "a link to /dev/zero": link_to("/dev/zero"),
    "a link to /dev/full": link_to("/dev/full"),
    "a link to a folder": link_to("/etc"),
}
FILMS: dict[str, Maker] = {
    "empty": bytes_of(b""),
    "one byte": bytes_of(b"\0"),
    "zeros": bytes_of(bytes(100_000)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(100_000)),
    "a text": bytes_of(b"nothing to see here\n" * 1000),
    "a web page": bytes_of(b"<!doctype html><title>Not found</title>"),
    "a playlist": bytes_of(b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n/etc/passwd\n"),
    "a list of files": bytes_of(b"ffconcat version 1.0\nfile /etc/passwd\n"),
    "a description of a stream": bytes_of(b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n"),
    "a head without a film": bytes_of(b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41"),
    "an endless box": bytes_of(b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41\xff\xff\xff\xffmdat"),
    "a picture": lambda path: videos.write_picture(path, "png"),
    "sound": videos.write_audio,
    "sound with a cover": videos.write_cover,
    **{f"cut to {share} %": cut(share / 100) for share in (1, 10, 50, 90, 99)},
    **{
        f"{count} wrong bytes, {seed}": flip(seed, count) for count in (3, 30, 300) for seed in "ab"
    },
    "one frame": _times(0.0),
    "two frames": _times(0.0, 0.04),
    "all within 5 ms": _times(*(n / 6000 for n in range(25))),
    "an hour": _times(*range(0, 3600, 3)),
    "a year between frames": _times(0.0, 31_536_000.0),
    "a frame a minute": _times(*range(0, 600, 60)),
    "a thousand frames a second": _times(*(n / 1000 for n in range(400)), rate=1000),
    "16x16": _times(*(n / 25 for n in range(25)), size=(16, 16)),
    "4096x16": _times(*(n / 25 for n in range(25)), size=(4096, 16)),
    "8192x8192": _huge_picture(8192),
    "16000x16000": _huge_picture(16_000),
    "sizes that change": lambda path: videos.encode_sizes(
        path.with_suffix(".mkv"), "libvpx", [(96, 64), (640, 480), (32, 32)], 8
    ).rename(path),
    "a rate of 0": lambda path: videos.write_fps(path, 0, 1),
    "a rate of 2 billion": lambda path: videos.write_fps(path, 2_000_000_000, 1),
    "a rate below 0": lambda path: videos.write_fps(path, -1, -1),
    **{f"a length of {seconds}": _length(seconds) for seconds in (float("inf"), float("nan"))},
    "5 GB of nothing": sparse(5 * 10**9),
    **KINDS,
}

# A good film under a name that somebody did not think of.
NAMES: dict[str, bytes] = {
    "not UTF-8": b"caf\xe9.mp4",
    "a new line": b"two\nlines.mp4",
    "tab and return": b"a\tb\rc.mp4",
    "escape": b"\x1b[2J\x1b[31mred\x07.mp4",
    "control of C1": "\x9b31mred.mp4".encode(),
    "an option": b"--help.mp4",
    "-": b"-.mp4",
    "255 bytes": b"x" * 251 + b".mp4",
    "quotes": b"a'b\"c`d.mp4",
    "a shell": b"$(touch pwned);touch pwned&.mp4",
    "a protocol": b"concat:a|b.mp4",
    "a pattern": b"*?[a-z]%d%s%%{}.mp4",
    "right to left": "‮4pm.gpj.mp4".encode(),
    "decomposed": "été.mp4".encode(),
    "emoji": "🤟🏽.mp4".encode(),
    "zero width": "a\u200bb\ufeff.mp4".encode(),
    "half of a pair": b"a\xed\xa0\x80b.mp4",
    "spaces": b"   .mp4",
    "dots": b"....mp4",
    "capitals": b"FILM.MP4",
    "another's in capitals": b"GOOD.mp4",
    "a backslash": b"..\\..\\etc\\passwd.mp4",
    "a page": b"<script>alert(1)<!--.mp4",
    "a formula": b"=cmd|'calc'!A0.mp4",
}

# One person's name as tables of other programs write it.
SPELT = "Zoë Le Blanc"
SPELLINGS: dict[str, str] = {
    "accents apart": unicodedata.normalize("NFD", SPELT),
    "two blanks": "Zoë  Le Blanc ",
    "a no-break space": "Zoë\u00a0Le\u202fBlanc",
    "a mark without width": "\ufeffZoë Le\u200b Blanc",
    "all of them": unicodedata.normalize("NFD", " Zoë\u00a0 Le \u200bBlanc"),
}

HEADER = "clip_id\ttext\tsigner\tsplit\tgloss"


def rows(*lines: str, header: str = HEADER) -> Maker:
    """Return what writes a table parted by tabs."""
    return lambda path: path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")


def parquet(columns: dict[str, Any]) -> Maker:
    """Return what writes a table as Parquet, whatever the name says."""
    return lambda path: pq.write_table(pa.table(columns), path)


def _good_table() -> bytes:
    lines = [f"c{n}\tun mot {n}\tzoe\ttrain\tMOT" for n in range(50)]
    return "\n".join([HEADER, *lines, ""]).encode()


def many_rows(*names: str) -> Maker:
    """Return what writes a Parquet file of some kB with many rows."""

    def write(path: Path) -> None:
        column = pa.array(np.zeros(30_000_000, np.int32))
        pq.write_table(pa.table({name: column for name in names}), path)

    return write


FIELDS = HEADER.split("\t")
TABLES: dict[str, Maker] = {
    "empty": bytes_of(b""),
    "a mark alone": bytes_of(b"\xef\xbb\xbf"),
    "a head alone": rows(),
    "zeros": bytes_of(bytes(10_000)),
    "noise": lambda path: path.write_bytes(random.Random(2).randbytes(10_000)),
    "a zip": lambda path: path.write_bytes(_zip({"xl/workbook.xml": b"<a/>"})),
    "gzip that is torn": bytes_of(b"\x1f\x8b\x08\0\0\0\0\0\0\x03abc"),
    "JSON": bytes_of(b'[{"clip_id": "a"}]'),
    "UTF-16": lambda path: path.write_bytes(_good_table().decode().encode("utf-16")),
    "UTF-32": lambda path: path.write_bytes(_good_table().decode().encode("utf-32")),
    "Latin 1": bytes_of(f"{HEADER}\na\tété\tzoe\ttrain\t\n".encode("latin1")),
    "a zero in a cell": rows("a\tb\0c\tzoe\ttrain\t"),
    "control characters": rows("a\t\x1b[2J\x07\x08\tzo\x1b[31me\ttrain\t"),
    "half of a pair": bytes_of(HEADER.encode() + b"\na\t\xed\xa0\x80\tzoe\ttrain\t\n"),
    "ragged": rows("a", "b\tc", "d\te\tf\tg\th\ti\tj"),
    "a quote left open": rows('a\t"b\tzoe\ttrain\t', "c\td\tzoe\ttrain\t"),
    "a long cell": rows(f"a\t{'x' * 3_000_000}\tzoe\ttrain\t"),
    "a long name": rows(f"{'a' * 5000}\tb\tzoe\ttrain\t"),
    "many columns": rows("\t".join("x" * 20_000), header="\t".join(f"c{n}" for n in range(20_000))),
    "a head twice": rows("a\tb\tzoe\ttrain\tc", header="clip_id\ttext\tsigner\tsplit\ttext"),
    "no name for a column": rows("a\tb\tzoe\ttrain\tc", header="clip_id\ttext\t\tsplit\t"),
    "an id twice": rows("a\tb\tzoe\ttrain\t", "a\tc\tzoe\ttrain\t"),
    "a signer in two splits": rows("a\tb\tzoe\ttrain\t", "c\td\tzoe\tdev\t"),
    "no split by this name": rows("a\tb\tzoe\tTRAIN!\t"),
    "a way out": rows("../../../outside/canary\tb\tzoe\ttrain\t"),
    "a way out by video": rows(
        "a\t../../../../etc/passwd\tb\tzoe\ttrain", header="clip_id\tvideo\ttext\tsigner\tsplit"
    ),
    "a whole path": rows(
        "a\t/etc/passwd\tb\tzoe\ttrain", header="clip_id\tvideo\ttext\tsigner\tsplit"
    ),
    "an address": rows(
        "a\thttp://127.0.0.1:9/x.mp4\tb\tzoe\ttrain", header="clip_id\tvideo\ttext\tsigner\tsplit"
    ),
    "a shell": rows("$(touch pwned)\t`touch pwned`\t;touch pwned\ttrain\t|touch pwned"),
    "a page": rows("a\t</script><script>alert(1)</script>\t<b>zoe\ttrain\t<!--"),
    "a formula": rows("=1+1\t=cmd|'/c calc'!A0\t@zoe\ttrain\t+1"),
    **{
        f"a time of {value}": rows(
            f"a\tb\tzoe\ttrain\t{value}\t{value}",
            header="clip_id\ttext\tsigner\tsplit\tstart_s\tend_s",
        )
        for value in ("nan", "inf", "-1", "1e308", "1e-320", "١٢", "0x10", "1_0", "9" * 400)
    },
    "nothing but spaces": rows(*["  \t  \t  \t  \t  "] * 3),
    "carriage returns": lambda path: path.write_bytes(_good_table().replace(b"\n", b"\r")),
    "half of the bytes": cut(0.5, _good_table),
    "100,000 rows": rows(*(f"c{n}\tmot {n}\tzoe\ttrain\t" for n in range(100_000))),
    "Parquet, torn": lambda path: (parquet({"clip_id": ["a"]})(path), os.truncate(path, 100)),
    "Parquet, numbers": parquet({name: [1, 2] for name in FIELDS}),
    "Parquet, nothing": parquet({name: pa.array([None, None]) for name in FIELDS}),
    "Parquet, lists": parquet({name: [[["a"]], None] for name in FIELDS}),
    "Parquet, bytes": parquet({name: [b"\xff\xfe", b""] for name in FIELDS}),
    "Parquet, maps": parquet({name: [{"a": 1}, {"a": 2}] for name in FIELDS}),
    "Parquet, times": parquet(
        {name: pa.array([2**50, -(2**50)], pa.timestamp("s")) for name in FIELDS}
    ),
    "Parquet, no column": parquet({}),
    "Parquet, a column twice": lambda path: pq.write_table(
        pa.table([pa.array(["a"])] * 5, names=["clip_id", *FIELDS[:1], *FIELDS[:3]]), path
    ),
    "Parquet, 30 million rows": many_rows(*FIELDS),
    **KINDS,
}

JSON3 = '{"events": [{"tStartMs": %s, "dDurationMs": 800, "segs": [{"utf8": "%s"}]}]}'
VTT = "WEBVTT\n\n00:00.000 --> 00:00.800\n"
SRT = "1\n00:00:00,000 --> 00:00:00,800\n"
EAF = """<?xml version="1.0" encoding="UTF-8"?><ANNOTATION_DOCUMENT>
<HEADER TIME_UNITS="milliseconds"/><TIME_ORDER><TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="0"/>
<TIME_SLOT TIME_SLOT_ID="b" TIME_VALUE="%s"/>
</TIME_ORDER><TIER TIER_ID="text" LINGUISTIC_TYPE_REF="t"><ANNOTATION><ALIGNABLE_ANNOTATION
ANNOTATION_ID="c" TIME_SLOT_REF1="a" TIME_SLOT_REF2="b"><ANNOTATION_VALUE>%s</ANNOTATION_VALUE>
</ALIGNABLE_ANNOTATION></ANNOTATION></TIER><LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="t"
TIME_ALIGNABLE="true"/></ANNOTATION_DOCUMENT>"""
SENTENCE = "bonjour maman"
# What may stand anywhere in a file.
NASTY = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    "\u202e\u200b".encode(),
    b"9" * 5000,
    b"-1",
    b"1e999",
    b"nan",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"<a>" * 50_000,
    b"\n" * 50_000,
    b"\t" * 5000,
    b'"',
    b"<!--",
    b"../../../etc/passwd",
    b"a" * 500_000,
)
# Files of text that a delivery may bring beside a film, by suffix.
GOOD_TEXTS: dict[str, bytes] = {
    ".txt": SENTENCE.encode(),
    ".vtt": f"{VTT}{SENTENCE}\n".encode(),
    ".srt": f"{SRT}{SENTENCE}\n".encode(),
    ".json3": (JSON3 % (0, SENTENCE)).encode(),
    ".eaf": (EAF % (800, SENTENCE)).encode(),
}
LAUGHS = "<!DOCTYPE x [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
)  # each entity is ten of the one before: a sentence of 2 GB
CAPTIONS: dict[str, Maker] = {  # the suffix says how they are read
    **{
        f"{name}{suffix}": bytes_of(content.encode())
        for suffix, name, content in (
            (".json3", "half", JSON3 % (0, r"bonjour \ud800 maman")),
            (".json3", "long", JSON3 % ("1" + "0" * 400, SENTENCE)),
            (".json3", "late", JSON3 % ("1e300", SENTENCE)),
            (".json3", "no number", JSON3 % ("NaN", SENTENCE)),
            (".json3", "deep", "[" * 200_000),
            (".json3", "nothing", '{"events": null}'),
            (".srt", "braces", SRT + "{" * 1_000_000 + "\n"),
            (".vtt", "spaces", VTT + "<v" + " " * 300_000 + "\n"),
            (".vtt", "backwards", VTT.replace("00:00.000", "99:00.000") + SENTENCE),
            (".srt", "digits", SRT.replace("00:00:00", "9" * 5000) + SENTENCE),
            (".eaf", "laughs", LAUGHS + "]>" + EAF.partition("?>")[2] % (800, "&j;")),
            (
                ".eaf",
                "a file of the system",
                '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
                + EAF.partition("?>")[2] % (800, "&a;"),
            ),
            (".eaf", "digits", EAF % ("9" * 5000, SENTENCE)),
        )
    },
    **{
        f"UTF-16{suffix}": bytes_of(good.decode().encode("utf-16"))
        for suffix, good in GOOD_TEXTS.items()
    },
    **{f"{name}{suffix}": maker for name, maker in KINDS.items() for suffix in (".vtt", ".eaf")},
}


def _with_picture(maker: Maker) -> Maker:
    """Return what writes a folder of pictures with one that is bad."""

    def write(path: Path) -> None:
        picture = videos.write_pictures(path, numbers=range(20, 30)) / "23.png"
        picture.unlink()
        maker(picture)

    return write


PICTURES: dict[str, Maker] = {
    "nothing in it": lambda path: path.mkdir(),
    "a number of 400 digits": lambda path: videos.write_pictures(path, numbers=[1, 10**200]),
    "numbers far apart": lambda path: videos.write_pictures(path, numbers=[1, 10**9]),
    **{
        f"one is {name}": _with_picture(maker)
        for name, maker in (
            ("empty", bytes_of(b"")),
            ("noise", bytes_of(random.Random(9).randbytes(5000))),
            ("torn", cut(0.5, lambda: cv2.imencode(".png", videos.numbered_frame(3))[1].tobytes())),
            (
                "of another size",
                lambda path: path.write_bytes(
                    cv2.imencode(".png", np.zeros((9, 3000, 3), np.uint8))[1].tobytes()
                ),
            ),
            (
                "huge",
                lambda path: path.write_bytes(
                    cv2.imencode(".png", np.zeros((12_000, 12_000), np.uint8))[1].tobytes()
                ),
            ),
            *KINDS.items(),
        )
    },
}


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return buffer.getvalue()


def npy(array: Any = None, *, head: str | None = None) -> bytes:
    """Return an .npy file of an array, or of a head alone."""
    if head is not None:
        text = (head + " " * (-(len(head) + 11) % 64) + "\n").encode("latin1")
        return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _hands() -> dict[str, Any]:
    random_ = np.random.default_rng(3)
    return {
        name: random_.uniform(0.3, 0.7, (12, 21, 3)).astype(np.float32)
        for name in ("left_hand", "right_hand")
    }


def _archive(**changes: Any) -> dict[str, bytes]:
    """Return the members of a good archive with some of them changed; None: left out."""
    members = {name: npy(array) for name, array in _hands().items()}
    for name, change in changes.items():
        members[name] = change if isinstance(change, bytes) else npy(np.asarray(change))
    return {f"{name}.npy": content for name, content in members.items()}


def _npz(**changes: Any) -> Maker:
    return lambda path: path.write_bytes(_zip(_archive(**changes)))


def _one_array(**more: Any) -> Maker:
    return lambda path: np.savez(path, frames=np.zeros((9, 126)), **more)


def _head(shape: str, kind: str = "<f4") -> bytes:
    return npy(head=f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}")


def _encrypted(path: Path) -> None:
    raw = bytearray(_zip(_archive()))
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = -1
        while (at := raw.find(mark, at + 1)) >= 0:
            raw[at + place] |= 1
    path.write_bytes(raw)


def _pose(raw: bytes = b"", **sizes: Any) -> bytes:
    """Return a head of a .pose file: version, size of the picture, components."""
    header = {"version": 0.2, "width": 320, "height": 240, "depth": 0, "components": 0, **sizes}
    return struct.pack("<fHHHH", *header.values()) + raw


def _kaggle(**changes: Any) -> Maker:
    count = 42 * 3
    columns: dict[str, Any] = {
        "frame": [n // 42 for n in range(count)],
        "type": [("left_hand", "right_hand")[n // 21 % 2] for n in range(count)],
        "landmark_index": [n % 21 for n in range(count)],
        **{axis: [0.5 + n % 7 / 100 for n in range(count)] for axis in "xyz"},
    }
    for name, change in changes.items():
        columns[name] = change(columns[name])
    return parquet(columns)


def _wide(sequences: list[Any], frames: list[Any], value: Any = 0.5) -> Maker:
    names = [
        f"{axis}_{part}_hand_{n}" for part in ("left", "right") for n in range(21) for axis in "xyz"
    ]
    return parquet(
        {
            "sequence_id": sequences,
            "frame": frames,
            **{name: [value] * len(frames) for name in names},
        }
    )


NAN, INF = float("nan"), float("inf")
ARCHIVES: dict[str, Maker] = {  # the suffix says how they are read
    **{
        f"{name}{suffix}": bytes_of(content)
        for suffix in (".npz", ".npy", ".pose", ".parquet")
        for name, content in (("empty", b""), ("noise", random.Random(4).randbytes(10_000)))
    },
    "nothing in it.npz": lambda path: path.write_bytes(_zip({})),
    "a text in it.npz": lambda path: path.write_bytes(_zip({"left_hand": b"hello"})),
    "code as a pickle.npy": lambda path: path.write_bytes(npy(np.array([print], object))),
    "code as a member.npz": _npz(left_hand=npy(np.array([print], object))),
    "code in its head.npy": bytes_of(npy(head="{'descr': __import__('os').system('touch pwned')}")),
    "a deep head.npy": bytes_of(npy(head="(" * 9000)),
    "an endless shape.npy": bytes_of(_head("(1000000000, 126)")),
    "an endless shape.npz": _npz(left_hand=_head("(1000000000, 21, 3)")),
    "a shape below 0.npz": _npz(left_hand=_head("(-5, 21, 3)")),
    "a shape of texts.npz": _npz(left_hand=_head("('a', 21, 3)")),
    "a shape of no end.npz": _npz(left_hand=_head("(99999999999999999999, 21, 3)")),
    "an unknown type.npz": _npz(left_hand=_head("(5, 21, 3)", "<q99")),
    "2 GB of zeros.npz": lambda path: _zeros(path, 8_000_000),
    "way out.npz": lambda path: path.write_bytes(
        _zip({**_archive(), "../../outside/evil.npy": npy(1)})
    ),
    "encrypted.npz": _encrypted,
    "torn.npz": cut(0.6, lambda: _zip(_archive())),
    **{f"wrong bytes {seed}.npz": flip(seed, 20, lambda: _zip(_archive())) for seed in range(4)},
    "no numbers.npz": _npz(left_hand=np.full((12, 21, 3), NAN)),
    "endless.npz": _npz(left_hand=np.full((12, 21, 3), INF)),
    "huge.npz": _npz(left_hand=np.full((12, 21, 3), 1e300)),
    "texts.npz": _npz(left_hand=np.full((12, 21, 3), "x")),
    "complex.npz": _npz(left_hand=np.full((12, 21, 3), 1j)),
    "true.npz": _npz(left_hand=np.full((12, 21, 3), True)),
    "times.npz": _npz(left_hand=np.full((12, 21, 3), 5, "datetime64[s]")),
    "a record.npz": _npz(left_hand=np.zeros((12, 21, 3), [("a", "f4")])),
    "other counts.npz": _npz(left_hand=np.zeros((3, 21, 3))),
    "20 points.npz": _npz(left_hand=np.zeros((12, 20, 3))),
    "no frame.npz": _npz(left_hand=np.zeros((0, 21, 3)), right_hand=np.zeros((0, 21, 3))),
    "flat.npz": _npz(left_hand=np.zeros(12)),
    "a number.npz": _npz(left_hand=1.0),
    **{f"a rate of {value}.npz": _npz(fps=value) for value in (0, -1, NAN, INF, 1e-9, 1e9, "x")},
    "rates.npz": _npz(fps=[25, 30]),
    **{f"{value} wide.npz": _npz(width=value) for value in (0, -1, NAN, 10**18, "x")},
    "offsets back.npz": _one_array(offsets=[0, 6, 3, 9]),
    "offsets too far.npz": _one_array(offsets=[0, 99]),
    "offsets of texts.npz": _one_array(offsets=["a"]),
    "offsets of numbers.npz": _one_array(offsets=[0, NAN, 9]),
    "labels too few.npz": _one_array(offsets=[0, 4, 9], labels=["a"]),
    "labels to a terminal.npz": _one_array(offsets=[0, 9], labels=["\x1b[2Jred"]),
    "a long clip.npy": lambda path: path.write_bytes(npy(np.zeros((400_000, 126), np.float16))),
    "torn.pose": bytes_of(_pose(components=3)),
    "counts without end.pose": bytes_of(_pose(b"\xff" * 200, components=65535)),
    "a name without end.pose": bytes_of(_pose(b"\xff\xff" + b"a" * 100, components=1)),
    "version 9.pose": bytes_of(_pose(bytes(100), version=9.0)),
    "version no number.pose": bytes_of(_pose(bytes(100), version=NAN)),
    "no component.pose": bytes_of(_pose(struct.pack("<HIHIH", 25, 5, 1, 0, 0))),
    "no picture.pose": bytes_of(_pose(bytes(100), width=0, height=0)),
    "other columns.parquet": parquet({"a": [1]}),
    "no rows.parquet": _kaggle(
        **{name: lambda values: values[:0] for name in ("frame", "type", "landmark_index", *"xyz")}
    ),
    **{
        f"{column} of nothing.parquet": _kaggle(**{column: lambda values: [None] * len(values)})
        for column in ("frame", "type", "landmark_index", "x")
    },
    **{
        f"{column} of texts.parquet": _kaggle(**{column: lambda values: [f"a{v}" for v in values]})
        for column in ("frame", "landmark_index", "x")
    },
    "frames far apart.parquet": _kaggle(frame=lambda values: [10**12 * value for value in values]),
    "frames below 0.parquet": _kaggle(frame=lambda values: [-value for value in values]),
    "frames with halves.parquet": _kaggle(frame=lambda values: [value / 2 for value in values]),
    "frames without end.parquet": _kaggle(frame=lambda values: [2**63 - 1 - v for v in values]),
    "types of numbers.parquet": _kaggle(type=lambda values: list(range(len(values)))),
    "landmarks 900.parquet": _kaggle(landmark_index=lambda values: [900] * len(values)),
    "points of lists.parquet": _kaggle(x=lambda values: [[value] for value in values]),
    "points without end.parquet": _kaggle(x=lambda values: [INF] * len(values)),
    "wide, names of nothing.parquet": _wide([None, None], [0, 1]),
    "wide, ways out.parquet": _wide(["../../../outside/evil"] * 2, [0, 1]),
    "wide, lists as names.parquet": _wide([[1], [2]], [0, 1]),
    "wide, texts.parquet": _wide([1, 1], [0, 1], "x"),
    "wide, a frame twice.parquet": _wide([1, 1], [0, 0]),
    "wide, frames of texts.parquet": _wide([1, 1], ["a", "b"]),
    "30 million rows.parquet": many_rows("frame", "type", "landmark_index", "x", "y", "z"),
    **{
        f"{name}{suffix}": maker
        for name, maker in KINDS.items()
        for suffix in (".npz", ".npy", ".pose", ".parquet")
    },
}


def _zeros(path: Path, frames: int) -> None:
    """Write an archive of a few MB whose hands are some GB."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out,
        out.open("left_hand.npy", "w", force_zip64=True) as member,
    ):
        member.write(_head(f"({frames}, 21, 3)"))
        block = bytes(63 * 4 * 10_000)
        for _ in range(frames // 10_000):
            member.write(block)


# What may happen to any file of a project.
DAMAGES: dict[str, Maker] = {
    "missing": lambda path: path.unlink(),
    "empty": bytes_of(b""),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(random.Random(7).randbytes(path.stat().st_size + 9)),
    "an older copy": lambda path: os.utime(path, (0, 0)),
    "a clock ahead": lambda path: os.utime(path, (4e9, 4e9)),
    "wrong bytes": lambda path: flip(8, 5, path.read_bytes)(path),
    "a list": bytes_of(b"[]"),
    "a map": bytes_of(b"{}"),
    "null": bytes_of(b"null"),
    "a number": bytes_of(b"1e999"),
    "very deep": bytes_of(b"[" * 100_000),
    "deep maps": bytes_of(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
}
# What a copy, a backup or a clock that was set makes of the times of files, oldest first.
TIMES: dict[str, Callable[[Sequence[Path]], list[float]]] = {
    "a copy without times": lambda files: [1.7e9] * len(files),
    "the newest is the oldest": lambda files: [1.7e9 - number for number, _ in enumerate(files)],
    "a clock years ahead": lambda files: [4e9] * len(files),
}
WRONG = (None, [], {}, "x", -1, 1e308, True, "\x1b[2J", [[[]]], 10**30)


def wrong_values(text: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield what makes a JSON file in which one value is another or missing, with what is done.

    Few of the many are drawn, so each is made when it is asked for.
    """
    content = json.loads(text)
    for place in _places(content, ()):
        name = ".".join(map(str, place))
        yield f"without {name}", partial(_changed, content, place, None, drop=True)
        for value in WRONG:
            yield f"{name} is {json.dumps(value)}", partial(_changed, content, place, value)


def _places(content: Any, here: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all values down to the third level; of a list the first item."""
    if here:
        yield here
    if len(here) < 3 and isinstance(content, dict):
        for key in content:
            yield from _places(content[key], (*here, key))
    elif len(here) < 3 and isinstance(content, list) and content:
        yield from _places(content[0], (*here, 0))


def _changed(content: Any, place: tuple[Any, ...], value: Any, *, drop: bool = False) -> str:
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    if drop:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return json.dumps(copy)


YAML: dict[str, bytes] = {
    "code": b"corpus: !!python/object/apply:os.system ['touch pwned']\n",
    "laughs": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)
    ),
    "itself": b"corpus: &a\n  folder: *a\n",
    "a key twice": b"corpus: {}\ncorpus: {}\n",
    "tabs": b"corpus:\n\tfolder: a\n",
    "documents": b"a: 1\n---\nb: 2\n",
    "numbers as keys": b"1: 2\n[3]: 4\n? {a: b}\n: 5\n",
    "control characters": b'corpus: {folder: "\\x1b[2J"}\n',
    "a byte too many": b"corpus: \xff\n",
}


def _frames(points: int = 21, value: Any = 0.5) -> list[dict[str, Any]]:
    marks = [[value, 0.5, 0.0]] * points
    return [{"left_hand": marks, "right_hand": marks}] * 12


def _request(params: Mapping[str, Any] = {}, **changes: Any) -> bytes:
    """Return a request of one clip in which some things are others; `...`: left out."""
    clip = {"fps": 10.0, "width": 320, "height": 240, "frames": _frames(), **changes}
    rows_ = [{name: value for name, value in clip.items() if value is not ...}]
    return json.dumps({"dataframe_records": rows_, "params": dict(params)}).encode()


REQUESTS: dict[str, bytes] = {
    "good": _request(),
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "null": b"null",
    "not UTF-8": b'{"dataframe_records": "\xff"}',
    "no clip": b'{"dataframe_records": []}',
    "other columns": b'{"dataframe_records": [{"a": 1}]}',
    "a thousand clips without frames": json.dumps(
        {"dataframe_records": [{"fps": 10.0, "width": 1, "height": 1, "frames": []}] * 1000}
    ).encode(),
    **{
        f"a rate of {value}": _request(fps=value)
        for value in (0.0, -1.0, 1e-3, 1e-9, 1e9, NAN, INF, "x", None, ...)
    },
    **{f"{value} wide": _request(width=value) for value in (0, -1, 10**18, 0.5, "x", None, ...)},
    **{
        f"frames: {str(value)[:30]}": _request(frames=value)
        for value in (
            [],
            None,
            ...,
            "x",
            5,
            {},
            [None],
            [[]],
            [{"nose": []}],
            [{"left_hand": 5}],
            [{"left_hand": "x"}],
            [{"left_hand": [[0.1]]}],
            [{"left_hand": [[]] * 21}],
        )
    },
    "20 points": _request(frames=_frames(points=20)),
    **{
        f"points of {value}": _request(frames=_frames(value=value))
        for value in (NAN, INF, 1e300, 65_505.0, "x", None, [1], True)
    },
    "no hand": _request(frames=[{}] * 50),
    "100,000 frames": _request(frames=[{}] * 100_000),
    **{
        f"{name} {value}": _request({name: value})
        for name, values in {
            "beam_size": (0, -1, 100_000, 10**18, 2.5, "x", None),
            "n_best": (0, -1, 10**6, NAN),
            "max_tokens": (0, -1, 10**9),
            "min_tokens": (-1, 10**9),
            "ctc_weight": (-1.0, 2.0, NAN),
            "length_penalty": (NAN, INF, -INF, 1e308, -1e308),
            "precision": ("int4",),
            "an option": (1,),
        }.items()
        for value in values
    },
}
