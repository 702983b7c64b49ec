"""The corpus that everything comes into."""

from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions
from signloom_ops.intake import checks
from signloom_ops.intake.checks import probe
from tests.intake import found_corpus


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusOptions:
    """A corpus in the working folder, for which this process decodes: others take a second each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        checks, "probe_all", lambda segments: [probe(segment) for segment in segments]
    )
    return found_corpus(tmp_path)
