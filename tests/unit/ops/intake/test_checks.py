"""What a signer, a clip and an option must be like to come in."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signloom.errors import Problem, UserError
from signloom_ops.intake.changes import Delivery, ledger_text, read_ledger
from signloom_ops.intake.checks import Probed, Segment, probe, probe_all
from signloom_ops.intake.ingest import deal_signers
from tests.intake import OPTIONS
from tests.videos import FPS, HEIGHT, WIDTH, encode_constant, write_cut_off, write_video

COUNTS = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 30), min_size=1)


@given(new=COUNTS, counts=st.tuples(*[st.integers(0, 200)] * 3))
def test_signers_are_dealt_alike_in_any_order_and_near_the_shares(
    new: dict[str, int], counts: tuple[int, int, int]
) -> None:
    have = dict(zip(("train", "dev", "test"), counts, strict=True))
    dealt = deal_signers(new, have, (80.0, 10.0, 10.0))
    assert dealt == deal_signers(dict(reversed(new.items())), have, (8.0, 1.0, 1.0))
    assert dealt.keys() == new.keys()
    total = sum(counts) + sum(new.values())
    for split, share in (("train", 0.8), ("dev", 0.1), ("test", 0.1)):
        sizes = [new[signer] for signer, dealt_split in dealt.items() if dealt_split == split]
        # A split never gets more than its goal and the signer who was due to it.
        assert not sizes or have[split] + sum(sizes) <= share * total + max(sizes)


def test_a_split_without_a_share_gets_no_signer() -> None:
    dealt = deal_signers({"a": 5, "b": 5, "c": 5}, {"train": 5}, (1.0, 1.0, 0.0))
    assert set(dealt.values()) == {"train", "dev"}


@pytest.mark.parametrize(
    "changes",
    [
        {"min_duration_s": 5.0},
        {"min_side": 0},
        {"max_side": 10},
        {"settle_s": -1.0},
        {"shares": (1.0, 2.0)},
        {"shares": (0.0, 1.0, 1.0)},
    ],
)
def test_impossible_bounds_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        replace(OPTIONS, **changes)  # type: ignore[arg-type]


def test_clips_are_decoded_in_processes_as_they_are_here(tmp_path: Path) -> None:
    good = write_video(tmp_path / "good.mp4", frames=50)
    cut_off = write_cut_off(tmp_path / "cut.mp4")
    segments = [
        Segment(good, None, None, 1),
        Segment(cut_off, None, None, 1),
        Segment(good, 0.4, 1.2, 1),
    ]
    probed = probe_all(segments)
    assert probed == [probe(segment) for segment in segments]
    assert probed[0] == Probed(50 / FPS, WIDTH, HEIGHT)
    assert isinstance(probed[1], Problem)
    assert isinstance(probed[2], Probed)
    assert probed[2].duration_s == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.ts", "libx264"),
        ("a.m2ts", "mpeg2video"),
        ("a.mpg", "mpeg1video"),
        ("a.vob", "mpeg2video"),
    ],
)
def test_half_of_a_copy_is_refused_unless_the_clip_ends_before(
    tmp_path: Path, name: str, codec: str
) -> None:
    whole = encode_constant(tmp_path / name, codec)
    assert isinstance(probe(Segment(whole, None, None, 1)), Probed)
    whole.write_bytes(whole.read_bytes()[:-1999])
    assert "is cut off" in str(probe(Segment(whole, None, None, 1)))
    assert isinstance(probe(Segment(whole, 0.2, 0.8, 1)), Probed)


def test_a_ledger_is_read_back_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    rows = [Delivery("2026-11-21", "2026-11-21", 12, 3, "data/inbox", "withdrawn", "a\tb\nc")]
    path = tmp_path / "deliveries.tsv"
    assert read_ledger(path, Delivery) == []
    path.write_text(ledger_text(rows, Delivery))
    assert read_ledger(path, Delivery) == [replace(rows[0], reason="a b c")]
    for bad in ("batch\n", path.read_text().replace("12", "many"), path.read_text() + "x\n"):
        path.write_text(bad)
        with pytest.raises(UserError, match=r"deliveries\.tsv is damaged"):
            read_ledger(path, Delivery)
    path.write_bytes("reason: é".encode("latin-1"))
    with pytest.raises(UserError, match="expected UTF-8"):
        read_ledger(path, Delivery)
