"""What names a page of docs names one that exists, and links lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.tiny import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
NAMED_IN = ["src", "pipeline", "tests", "params.yaml", "dvc.yaml", "data/demo", ".github",
            "Makefile", "pyproject.toml", "README.md", "CONTRIBUTING.md"]  # fmt: skip


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
