"""The page in a real browser, as a phone and as a desk show it.

Quick twins: test_build.py (what the page says, escapes and refers to), test_skeletons.py.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import DESK, NEEDS_CHROMIUM, PHONE, Tab, open_tab

pytestmark = [
    pytest.mark.slow,
    NEEDS_CHROMIUM,
]
LINES = '[...document.querySelectorAll(".player path")].map((line) => line.getAttribute("d"))'
SECOND = "new Promise((done) => setTimeout(done, 1000))"


@pytest.fixture
def page(built: Path, tmp_path: Path) -> Path:
    folder = shutil.copytree(built, tmp_path / "report")  # other tests compare what was built
    weights = re.findall(r'data-for="([^"]+)"', (folder / "index.html").read_text())[0]
    made = f'window.made = {{"commit": "0a1b2c", "weights": "{weights}"}};'
    (folder / "made.js").write_text(made)
    return folder / "index.html"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_opens_without_complaint_and_fits(
    tab: Tab, page: Path, width: int, scheme: str
) -> None:
    tab.requests.clear()
    tab.show(page, width=width, prefers_color_scheme=scheme)
    tab.run(SECOND)
    assert tab.complaints == []
    names = {request.rpartition("/")[2] for request in tab.requests}
    assert names <= {"index.html", "made.js", "data:,"}
    assert "0a1b2c" in tab.run("document.querySelector('#made').textContent")
    # Also with everything open: what is wide scrolls in its own place.
    tab.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert tab.run("document.documentElement.scrollWidth") == width
    dark = tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 27)"
    assert dark == (scheme == "dark")
    (page.parent / "made.js").write_text('window.made = {"commit": "0a1b2c", "weights": "other"};')
    tab.show(page, width=width, prefers_color_scheme=scheme)
    tab.run(SECOND)
    assert "0a1b2c" not in tab.run("document.querySelector('#made').textContent")


def test_a_skeleton_moves_until_the_reader_stops_it(tab: Tab, page: Path) -> None:
    tab.show(page, width=DESK, prefers_reduced_motion="no-preference")
    first = "document.querySelector('.player')"
    text = f"{first}.querySelector('button').textContent"
    assert not tab.run(f"{first}.querySelector('.controls').hidden")
    tab.run("document.querySelector('footer').scrollIntoView({behavior: 'instant'})")
    tab.run(SECOND)
    assert tab.run(text) == "Play"  # out of sight
    still = tab.run(LINES)
    tab.run(f"{first}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    tab.run(SECOND)
    assert tab.run(text) == "Pause"
    assert tab.run(LINES) != still
    tab.run(f"{first}.querySelector('button').click()")
    stopped = tab.run(LINES)
    tab.run(SECOND)
    assert tab.run(text) == "Play"
    assert tab.run(LINES) == stopped
    assert tab.complaints == []


def test_the_slider_shows_any_moment_and_moves_the_line_in_the_attention(
    tab: Tab, page: Path
) -> None:
    tab.show(page, width=DESK, prefers_reduced_motion="reduce")
    still = tab.run(LINES)
    tab.run("document.querySelector('.picker').closest('details.sample').open = true")
    article = "document.querySelector('.picker').closest('article')"
    tab.run(f"{article}.querySelector('.player').scrollIntoView({{behavior: 'instant'}})")
    tab.run(SECOND)
    assert tab.run(LINES) == still  # nothing moves by itself
    tab.run(
        f"{{ const slider = {article}.querySelector('.player input'); slider.value = 5;"
        " slider.dispatchEvent(new Event('input')); }"
    )
    assert tab.run(f"{article}.querySelector('.player output').value") == "0.2 s"
    # Frame 5 has no left hand: the line of one finger of it is empty, of the right one not.
    script = (
        f"[...{article}.querySelectorAll('.player path')].map((line) => line.getAttribute('d'))"
    )
    lines = tab.run(script)
    assert lines[1] == ""
    assert lines[12].startswith("M")
    moved = f"{article}.querySelector('[data-per-second]').getAttribute('transform')"
    columns, step_s, width = 8, 0.1, 760 - 110 - 8
    assert float(tab.run(moved)[10:-1]) == pytest.approx(0.2 / step_s * width / columns, abs=0.01)
    tab.run(f"{article}.querySelector('.player button').click()")
    tab.run(SECOND)
    assert tab.run(script) != lines  # asked for, it moves
    assert tab.complaints == []


def test_the_first_picture_is_what_the_script_draws(tab: Tab, page: Path) -> None:
    tab.show(page, width=DESK, prefers_reduced_motion="reduce")
    numbers = f"{LINES}.map((line) => line.match(/[0-9.]+/g)?.map(Number) ?? [])"
    before = tab.run(numbers)
    tab.run(
        "document.querySelectorAll('.player input').forEach("
        "(slider) => slider.dispatchEvent(new Event('input')))"
    )
    after = tab.run(numbers)
    assert [len(line) for line in after] == [len(line) for line in before]
    flat = [number for line in after for number in line]
    assert flat == pytest.approx([number for line in before for number in line], abs=0.08)


def test_what_people_wrote_is_shown_and_never_run(tab: Tab, page: Path) -> None:
    tab.show(page, width=PHONE)
    assert '<script>alert("1 & 2")</script>' in tab.run("document.body.innerText")
    rtl = "[...document.querySelectorAll('dd')].find((part) => part.textContent.includes('هي'))"
    assert tab.run(f"getComputedStyle({rtl}).direction") == "rtl"
    assert tab.complaints == []
