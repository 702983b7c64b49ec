"""Pages name only what exists, and a figure is the same on each page that has it."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.tiny import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
MANUAL = [
    *(page for page in PAGES if "log" not in page.parts and page.name != "CHANGELOG.md"),
    *sorted((ROOT / "studies").rglob("*.md")),
]
FIGURES = yaml.safe_load((ROOT / "tests/figures.yaml").read_text(encoding="utf-8"))
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
NAMED_IN = [
    "src",
    "pipeline",
    "tests",
    "params.yaml",
    "dvc.yaml",
    "data/demo",
    ".github",
    "Makefile",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
]


def anchors(page: Path) -> set[str]:
    """Return the names by which GitHub links the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_that_code_and_parameters_name_exists() -> None:
    listed = subprocess.run(
        ["git", "ls-files", *NAMED_IN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    named = set()
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {"", ".py", ".yaml", ".yml", ".toml", ".md", ".service", ".timer"}:
            pages = re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
            named |= {(page, name) for page in pages}
    assert len(named) > 20
    assert [pair for pair in sorted(named) if not (ROOT / pair[0]).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), target


def test_every_test_that_a_page_names_exists() -> None:
    sources = list((ROOT / "tests").rglob("*.py"))
    written = "".join(path.read_text(encoding="utf-8") for path in sources)
    names = {path.stem for path in sources} | set(re.findall(r"def (test_\w+)", written))
    named = {
        (page.relative_to(ROOT).as_posix(), name)
        for page in {*PAGES, *MANUAL}
        for name in re.findall(r"\btest_[a-z0-9_]+", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert {(page, name) for page, name in named if name not in names} == set()


def read_items() -> list[tuple[str, str]]:
    """Return each item of the five documents, and where the page says that it works."""
    items, claims = re.split(
        r"^## (?:What they claim|Where they).*$",
        (ROOT / "docs/log/documents.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )[:2]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", items + claims, re.MULTILINE)
    return [row for row in rows if row[0] not in ("it shows or says", "claim")]


def test_every_item_of_the_documents_has_a_proof() -> None:
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    items = read_items()
    assert len(items) > 80
    proof = re.compile(r"test_\w+|\(\S+\.md\S*\)|-m studies\.|\bno[:,]|^the same")
    assert [item for item, here in items if not proof.search(here)] == []
    page = (ROOT / "docs/log/documents.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+\.(?:py|yaml))`", page))
    named |= {name.replace(".", "/") + ".py" for name in re.findall(r"-m (studies[\w.]+)", page)}
    assert {name for name in named if not any(f"/{f}".endswith(f"/{name}") for f in files)} == set()


def test_every_path_of_the_repository_that_the_manual_names_exists() -> None:
    houses = "src|studies|pipeline|tests|presets|schemas"
    named = {
        (page.relative_to(ROOT).as_posix(), path)
        for page in MANUAL
        for path in re.findall(rf"`((?:{houses})/[\w./-]+)`", page.read_text(encoding="utf-8"))
        if "NAME" not in path
    }
    assert len(named) > 20
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()


def read_text(page: str) -> str:
    """Return the text of a page in one line; of the changelog that of its newest version."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page == "CHANGELOG.md":
        text = text.split("\n## [")[1]
    return " ".join(text.split())


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_the_same_on_each_page_that_has_it(figure: str) -> None:
    pages = dict(FIGURES[figure])
    value = pages.pop("value")
    assert len(pages) > 1
    for page, phrases in pages.items():
        for phrase in [phrases] if isinstance(phrases, str) else phrases:
            pattern = re.escape(phrase).replace(r"\{\}", f"({NUMBER})")
            values = re.findall(pattern, read_text(page))
            if page != "CHANGELOG.md" or values:
                assert set(values) == {value}, f"{page}: {phrase}"


@pytest.mark.parametrize(
    ("study", "answer"),
    re.findall(
        r"^\| \[(\w+)\]\(.*?\) \| (.*\d.*) \|$",
        (ROOT / "studies/README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    ),
)
def test_the_short_answer_of_a_study_has_the_figures_of_its_page(study: str, answer: str) -> None:
    pages = f"studies/{study}/README.md", "docs/results.md"
    figures = [
        float(figure.replace(",", ""))
        for page in pages
        for figure in re.findall(NUMBER, read_text(page))
    ]
    for figure in re.findall(NUMBER, answer):
        step = 10.0 ** -len(figure.partition(".")[2])
        rounded = float(figure.replace(",", ""))
        assert any(abs(rounded - exact) <= step / 2 for exact in figures), figure


def test_the_manual_has_one_word_for_what_a_score_is_compared_with() -> None:
    pages = [page for page in MANUAL if page.name != "glossary.md"]
    texts = {
        page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8").lower()
        for page in (*pages, ROOT / "src/signloom_tools/cli/main.py")
    }
    other = re.compile(r"(?<!dvc_)baselines?\b|simple systems?\b")  # the word is floor
    assert {page: other.findall(text) for page, text in texts.items() if other.search(text)} == {}
