import pytest

from signloom.translation.translator import Translator
from tests.unit.evaluation.world import Knowing, corpus, targets, untrained


@pytest.fixture(scope="session")
def translator() -> Translator:
    return untrained()


@pytest.fixture
def knowing(translator: Translator) -> Knowing:
    clips = corpus()
    return Knowing(translator, {len(clips[t.clip_id].points): t.text for t in targets()})
