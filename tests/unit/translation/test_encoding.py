import pytest
import torch

from signloom.translation import translator as encoding
from signloom.translation.translator import encode_in_parts
from tests.contract.variants import DOCUMENT_003, build


@pytest.mark.parametrize(
    ("family", "parts"),
    [({}, [2, 2, 1]), (DOCUMENT_003, [2, 2, 1]), ({"subsampling": 4}, [2, 2, 1]),
     ({"family": "lstm"}, [5])],
)  # fmt: skip
def test_clips_are_encoded_in_parts_and_come_out_the_same(
    family: dict[str, object], parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = build(**family)
    src, valid = subject.source([9, 5, 12, 1, 7])
    expected, encode, seen = subject.model.encode(src, valid), subject.model.encode, list[int]()
    monkeypatch.setattr(
        subject.model, "encode", lambda src, valid: seen.append(len(src)) or encode(src, valid)
    )
    monkeypatch.setattr(encoding, "PART_FRAMES", 2 * 12 + 1)
    with torch.inference_mode():
        found = encode_in_parts(subject.model, src, valid)
    assert seen == parts
    assert torch.equal(found.valid, expected.valid)
    torch.testing.assert_close(found.states, expected.states, rtol=1e-4, atol=1e-5)


def test_a_clip_longer_than_a_part_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "PART_FRAMES", 4)
    subject = build()
    src, valid = subject.source([9, 12])
    assert encode_in_parts(subject.model, src, valid).states.shape[:2] == (2, 12)
