from pathlib import Path

import pytest

from signloom.report.build import build_report
from signloom.report.stage_files import ReportPaths
from tests.report_project import OPTIONS, write_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReportPaths:
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def built(project: ReportPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report, in which an older one had left a figure."""
    out = tmp_path_factory.mktemp("reports")
    (out / "figures").mkdir()
    (out / "figures" / "sample-99-old.svg").touch()
    build_report(project, out, OPTIONS)
    return out
