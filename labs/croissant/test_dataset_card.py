"""What a corpus is described by for others."""

import csv
import hashlib
import json
from pathlib import Path

import pytest

from labs.croissant.dataset_card import main
from signloom.corpus.manifest import Clip, write_manifest
from signloom.errors import UserError
from tests.tiny import ROOT

ABOUT = ["license=https://creativecommons.org/licenses/by/4.0/", "creator=A school"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    params = (ROOT / "pipeline/smoke/params.yaml").read_text(encoding="utf-8")
    folder = tmp_path / "data/raw/weekly"
    (folder / "films").mkdir(parents=True)
    (folder / "CONSENT.md").write_text("All agreed to research.")
    clips = []
    for number, (split, until) in enumerate(
        (("train", None), ("dev", "2999-01-01"), ("test", None), ("test", "2020-01-01"))
    ):
        video = folder / "films" / f"c{number}.mp4"
        video.write_bytes(b"film")
        clips.append(
            Clip(clip_id=f"c{number}", video=video, text=f'dit "{number}", oui',
                 signer=f"s{number}", split=split, consent_until=until, language="fr")
        )  # fmt: skip
    write_manifest(folder / "manifest.tsv", clips)
    text = params.replace("folder: data/demo/corpus", "folder: data/raw/weekly")
    Path("params.yaml").write_text(text)
    return tmp_path


def test_a_corpus_is_described_in_croissant_with_a_table_that_others_read(project: Path) -> None:
    main(["out", *ABOUT])
    rows = list(csv.DictReader(Path("out/clips.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["clip_id"] for row in rows] == ["c0", "c1", "c2"]  # the consent of c3 has ended
    assert (rows[0]["video"], rows[0]["text"]) == ("films/c0.mp4", 'dit "0", oui')
    found = json.loads(Path("out/croissant.json").read_text())
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert found["license"].endswith("/by/4.0/")
    assert found["creator"]["name"] == "A school"
    assert "url" not in found  # nobody said it
    table, films = found["distribution"]
    assert table["sha256"] == hashlib.sha256(Path("out/clips.csv").read_bytes()).hexdigest()
    assert (films["includes"], films["encodingFormat"]) == ("films/*.mp4", "video/mp4")
    splits, clips = found["recordSet"]
    assert {field["source"]["extract"]["column"] for field in clips["field"]} == set(rows[0])
    assert [row["splits/name"] for row in splits["data"]] == ["train", "dev", "test"]
    card = Path("out/DATASET_CARD.md").read_text()
    assert "> All agreed to research." in card
    assert "**url**: **not said**" in card
    assert "| test | 1 | 1 | 1 |" in card
    assert "Last days of consents: 2999-01-01." in card


def test_what_nobody_asked_for_is_refused(project: Path) -> None:
    main(["out"])
    with pytest.raises(UserError, match=r"clips\.csv"):
        main(["out"])
    with pytest.raises(UserError, match="expected NAME=VALUE with a name of creator"):
        main(["other", "owner=me"])


def test_a_folder_of_licences_is_quoted_by_no_card(project: Path) -> None:
    Path("data/raw/weekly/LICENSES").mkdir()  # as https://reuse.software has it
    main(["out"])
    card = Path("out/DATASET_CARD.md").read_text()
    assert "**Licence.** **not said**" in card
