"""`signloom export-model --format mlflow`, served by a real `mlflow models serve`."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from signloom.checkpoint import WEIGHTS
from signloom.corpus.landmarks import HANDS_POSE
from signloom.files import hash_file
from signloom.translation.confidence import CONFIDENCE, Confidence, fit_levels, write_confidence
from signloom.translation.familiarity import describe_train
from signloom.translation.options import DECODING
from signloom.translation.translator import Translator
from signloom_tools.translate.answer import to_json
from signloom_tools.translate.serving import from_payload, to_payload
from signloom_tools.translate.timed import translate_timed
from tests import tiny
from tests.processes import free_port, wait_for_answer
from tests.tiny import write_checkpoint

EXPORT = [sys.executable, "-c", "from signloom_tools.cli.main import main; main()", "export-model"]
CLIPS = [
    to_payload(tiny.lose(tiny.sequence(seed, frames=9 + seed), "left_hand", slice(2, 5)))
    for seed in range(3)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    checkpoint = write_checkpoint(folder / "checkpoint", family="lstm")
    translator = Translator.load(checkpoint, torch.device("cpu"))
    train_clips = [tiny.sequence(seed, frames=10) for seed in range(12)]
    encodings = translator.encode_clips(train_clips)
    confidence = Confidence(
        weights=hash_file(checkpoint / WEIGHTS),
        unsure_below=0.5,
        levels=fit_levels([-9.0] * 4 + [-0.1] * 4, [False] * 4 + [True] * 4),
        train=describe_train(train_clips, encodings, encodings),
    )
    write_confidence(folder / CONFIDENCE, confidence)  # beside the checkpoint
    command = [*EXPORT, str(folder / "model"), "--format", "mlflow", "--checkpoint"]
    subprocess.run([*command, str(checkpoint)], check=True, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(folder / "model")]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    # The model carries its own code: the package must not be found elsewhere.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"MLFLOW_DISABLE_TELEMETRY": "true", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
        )
    try:
        wait_for_answer(f"http://127.0.0.1:{port}/ping", server, folder / "log")
        yield f"http://127.0.0.1:{port}/invocations"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def ask(url: str, content: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        url, json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


@pytest.mark.slow
def test_a_request_with_landmarks_is_answered_with_translations(folder: Path, url: str) -> None:
    params = {"beam_size": 3, "max_tokens": 6, "n_best": 2, "guess": True}
    answer = ask(url, {"dataframe_records": CLIPS, "params": params})
    translator = Translator.load(folder / "checkpoint", torch.device("cpu"))
    expected = translate_timed(
        translator,
        [from_payload(clip, HANDS_POSE) for clip in CLIPS],
        dataclasses.replace(DECODING, beam_size=3, max_tokens=6),
        n_best=2,
    )
    assert len(answer["predictions"]) == 3
    for prediction, timed in zip(answer["predictions"], map(to_json, expected), strict=True):
        assert prediction["text"] == timed["text"]
        assert prediction["score"] == pytest.approx(timed["score"], rel=1e-5)
        assert [x["text"] for x in prediction["alternatives"]] == [
            x["text"] for x in timed["alternatives"]
        ]
        assert prediction["tokens"] == timed["tokens"]
        assert prediction["confidence"] == timed["confidence"]
        assert prediction["note"].split(":")[0] == timed["note"].split(":")[0]


@pytest.mark.slow
def test_a_served_model_says_what_it_has_never_seen_and_is_silent_if_asked(url: str) -> None:
    """Quick twin: tests/unit/translation/test_confidence.py."""
    empty = tiny.sequence(frames=10)
    for hand in ("left_hand", "right_hand"):
        empty = tiny.lose(empty, hand, slice(None))
    clips = [to_payload(empty)]
    (prediction,) = ask(url, {"dataframe_records": clips})["predictions"]
    assert prediction["familiar"] is False
    assert "a hand in 0 % of its frames" in prediction["note"]
    assert (prediction["text"], prediction["confidence"]) == ("", None)
    guessed = ask(url, {"dataframe_records": clips, "params": {"guess": True}})["predictions"]
    assert guessed[0]["text"]
    (prediction,) = ask(url, {"dataframe_records": clips, "params": {"skip_unsure": True}})[
        "predictions"
    ]
    assert (prediction["text"], prediction["alternatives"]) == ("", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "changes", "message"),
    [
        ({"beam_size": 100_000}, {}, "beam_size: found 100000, expected at most 64"),
        ({}, {"frames": CLIPS[0]["frames"] * 500}, "frames at 10 frames a second or more"),
    ],
)
def test_a_wrong_request_is_refused_and_a_small_one_cannot_occupy_the_server(
    url: str, params: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    """Quick twin: tests/unit/tools/translate/test_payload.py."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(url, {"dataframe_records": [{**CLIPS[0], **changes}], "params": params})
    with caught.value as error:
        assert error.code == 400
        answer = json.loads(error.read())
    assert message in answer["message"]
    assert "Traceback" not in answer["message"]
