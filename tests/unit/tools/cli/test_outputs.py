"""What commands refuse to write: onto what they read, into a corpus, over files of others."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.manifest import Clip, write_manifest
from signloom_tools.cli.main import main
from tests.intake import tree
from tests.tiny import sequence, write_clips


def refuse(project: Path, words: str, *arguments: str) -> None:
    """Run a command that must fail and change nothing."""
    before = tree(project)
    with pytest.raises(SystemExit, match=words):
        main(arguments)
    assert tree(project) == before


@pytest.mark.parametrize("out", ["corpus", "corpus/new/deep", "link", "named/x", "./mine/../named"])
def test_nothing_is_written_into_a_corpus(project: Path, out: str) -> None:
    refuse(project, "lies in the corpus", "export", out, "--landmarks", "shards")
    model = ["--checkpoint", "model"]
    for kind in ("onnx", "mlflow"):
        refuse(project, "lies in the corpus", "export-model", out, "--format", kind, *model)
    film = ["--video", f"{out}/film.webm", *model]
    refuse(project, "lies in the corpus", "translate", "shards", *film)


def test_where_nothing_can_be_written_is_said_before_the_work(project: Path) -> None:
    below = "mine/a.pose/out"  # a file, no folder
    words = "a.pose: Not a directory; something with this name"
    refuse(project, words, "export", below, "--landmarks", "shards")
    for out in (f"{below}/film.webm", f"{below}/films"):
        refuse(project, words, "translate", "shards", "--video", out, "--checkpoint", "model")
    for kind in ("onnx", "mlflow"):
        refuse(project, words, "export-model", below, "--format", kind, "--checkpoint", "model")


def test_an_export_replaces_no_file_unless_told(project: Path) -> None:
    export = ["export", "mine", "--landmarks", "shards"]
    refuse(project, "a.pose already exists and was not changed; give --overwrite", *export)
    main([*export, "--overwrite"])
    assert (project / "mine/a.pose").read_bytes()[:4] != b"mine"
    refuse(project, "a.pose already exists", *export)


def test_no_two_clips_are_written_to_one_file_of_a_disk_that_ignores_case(project: Path) -> None:
    write_clips(project / "odd", {"É": sequence(0), "é": sequence(1)})
    words = "É and é would both be poses/é.pose"
    refuse(project, words, "export", "poses", "--landmarks", "odd")
    (project / "films/a").mkdir(parents=True)
    for name in ("hello.mp4", "HELLO.mov"):
        (project / "films/a" / name).touch()
    refuse(project, "would both be", "landmarks", "films", "--to", "made")
    manifest = project / "named/manifest.tsv"
    clips = [
        Clip(
            clip_id=name, video=manifest.parent / f"{name}.{ending}", text="oui", signer="anna",
            split="train", start_s=0.0, end_s=1.0,
        )
        for name, ending in (("a", "mp4"), ("A", "mov"))
    ]  # fmt: skip
    for clip in clips:
        assert clip.video
        clip.video.touch()
    write_manifest(manifest, clips)
    refuse(project, "named/A.mov would both be", "export", "out", "--format", "captions")


def test_shards_of_others_name_no_file_outside_of_the_export(project: Path) -> None:
    write_clips(project / "odd", {"../../out": sequence(0)})
    refuse(project, "'/'; use letters", "export", "poses/deep", "--landmarks", "odd")


@pytest.mark.parametrize("kind", ["onnx", "mlflow"])
@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("mine", "holds 'a.pose', which this command does not make"),
        ("model", "which is read, overlap"),
        ("model/deep", "which is read, overlap"),
        ("link/../model", "which is read, overlap"),
        (".", "which is read, overlap"),
        ("params.yaml", "is a file, expected the name of a folder"),
    ],
)
def test_an_export_replaces_nothing_else(project: Path, kind: str, out: str, words: str) -> None:
    refuse(project, words, "export-model", out, "--format", kind, "--checkpoint", "model")


def test_init_does_not_write_onto_its_tables(project: Path) -> None:
    table = "id\ttext\tsigner\tsplit\tgloss\n" + "".join(
        f"{split}\toui\t{split}\t{split}\tOUI\n" for split in ("train", "dev")
    )
    for name in ("manifest.tsv", "refused.tsv"):
        folder = project / f"new-{name}"
        folder.mkdir()
        (folder / name).write_text(table)
        os.link(folder / name, folder / "table.tsv")
        init = ["init", folder.name, "--text-only", "--force", "--table"]
        for path in (f"{folder.name}/{name}", f"{folder.name}/table.tsv"):
            refuse(project, "it is the input", *init, path)


def test_init_keeps_a_list_that_it_did_not_write(project: Path) -> None:
    (project / "table.tsv").write_text(
        "id\ttext\tsigner\tsplit\tgloss\na\toui\ta\ttrain\tOUI\nb\toui\tb\tdev\tOUI\n"
    )
    (project / "new").mkdir()
    (project / "new/refused.tsv").write_text("mine\n")
    init = ["init", "new", "--text-only", "--table", "table.tsv"]
    refuse(project, "refused.tsv is there and no list of ours; --force", *init)
    main([*init, "--force"])
    assert not (project / "new/refused.tsv").exists()


def _videos(project: Path) -> None:
    (project / "to").mkdir()
    shutil.copy(project / "mine/a.pose", project / "to/a.mp4")
    clip = Clip(clip_id="a", video=project / "to/a.mp4", text="oui", signer="anna", split="train")
    write_manifest(project / "to/manifest.csv", [clip])


def _list(project: Path) -> None:
    (project / "to/landmarks").mkdir(parents=True)
    shutil.copy(project / "mine/rejects.tsv", project / "to/landmarks")


def _file(project: Path) -> None:
    (project / "to").write_text("mine")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_videos, "manifest.csv names videos, and a corpus has them or imported landmarks"),
        (_list, "rejects.tsv is there and no list of an import"),
        (_file, "Not a directory; something with this name"),
    ],
)
def test_imports_replace_nothing(project: Path, make: Callable[[Path], None], words: str) -> None:
    make(project)
    np.savez(project / "clip.npz", points=np.zeros((3, 4, 2)))
    refuse(project, words, "import", "clip.npz", "--to", "to")
