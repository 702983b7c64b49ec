"""GitHub's workflows: right by GitHub's schema, safe with what strangers name, and run for real."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def block(workflow: str, name: str) -> str:
    (script,) = [step["run"] for step in steps(read(workflow)) if step.get("name") == name]
    return script


def bash(script: str, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run a block as GitHub does with `shell: bash`."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_is_as_github_expects(path: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    process = subprocess.run(
        [*command, "vendor.github-workflows", str(path)], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_blocks_are_bash_and_no_text_of_strangers_becomes_code(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    for step in steps(workflow):
        if script := step.get("run"):
            assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
            # GitHub pastes the value into the script: a branch named `$(...)` would be run.
            assert "${{" not in script
    names = ("title", "body", "head.ref", "head_ref", "head.label", "message")
    assert not re.findall(rf"github[\w.]*\.({'|'.join(names)})\b", path.read_text())
    assert workflow[True].keys() <= {"push", "pull_request", "schedule", "workflow_dispatch"}


def test_the_newest_packages_are_tested_on_every_python_that_pip_accepts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    accepted = SpecifierSet(project["requires-python"])
    pythons = read("newest.yml")["jobs"]["newest"]["strategy"]["matrix"]["python"]
    assert pythons == [f"3.{minor}" for minor in range(30) if f"3.{minor}" in accepted]


def test_code_of_a_pull_request_never_runs_where_something_may_be_written() -> None:
    workflow = read("ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    gate, comment = workflow["jobs"]["gate"], workflow["jobs"]["comment"]
    assert "permissions" not in gate
    assert comment["permissions"] == {"pull-requests": "write"}
    assert "head.repo.full_name == github.repository" in comment["if"]
    assert not any("checkout" in step.get("uses", "") for step in comment["steps"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project on a runner: a clone with a `signloom` that ends as the test says."""

    def git(*command: str, cwd: Path = tmp_path) -> None:
        subprocess.run(["git", *command], cwd=cwd, check=True, capture_output=True)

    git("init", "--bare", "--initial-branch=main", "origin.git")
    git("clone", "origin.git", "project")
    root = tmp_path / "project"
    for name in ("name", "email"):
        git("config", f"user.{name}", "t@t", cwd=root)
    (root / "Makefile").write_text("setup:\n\t@echo set up\n")
    (root / ".gitignore").write_text("/.venv/\n")
    shutil.copytree(ROOT / "pipeline/schedule", root / "pipeline/schedule")
    (root / "params.yaml").write_text("start_from: ''\nepochs: 1\n\n\nlr: 1\n")
    git("checkout", "-q", "-B", "main", cwd=root)
    git("add", "--all", cwd=root)
    git("commit", "-qm", "start", cwd=root)
    git("push", "-q", "origin", "main", cwd=root)
    program = root / ".venv" / "bin" / "signloom"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@" > "$GITHUB_OUTPUT.asked"\nexit "$ENDS"\n')
    program.chmod(0o755)
    return root


@pytest.mark.parametrize(
    ("ends", "passes"),
    [
        (0, True),
        (1, False),
        (3, True),
        (4, True),
        (5, False),
        (6, False),
        (130, False),
    ],
)
def test_a_night_without_a_new_champion_is_no_failure(
    project: Path, tmp_path: Path, ends: int, passes: bool
) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary"
    process = bash(
        block("retrain.yml", "Retrain"),
        project,
        ENDS=str(ends),
        DRY_RUN="",
        GITHUB_OUTPUT=str(out),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert process.returncode == (0 if passes else ends), process.stderr
    assert out.read_text() == f"code={ends}\n"
    assert len(summary.read_text().splitlines()) == 1
    assert ("::error::" in process.stdout) is not passes
    assert Path(f"{out}.asked").read_text() == "retrain\n"


def test_the_commit_of_a_night_is_pushed_although_others_pushed_meanwhile(
    project: Path, tmp_path: Path
) -> None:
    take = block("retrain.yml", "Take the newest code")
    assert bash(take, project, BRANCH="main").returncode == 0
    assert "is not on the branch other" in bash(take, project, BRANCH="other").stdout
    colleague(tmp_path, "echo 1 > theirs; git add theirs")
    assert bash("echo 2 > night; git add night; git commit -qm night", project).returncode == 0
    process = bash(block("retrain.yml", "Push the commit of the night"), project, BRANCH="main")
    assert process.returncode == 0, process.stderr
    log = bash("git log --format=%s main", tmp_path / "origin.git").stdout.split()
    assert log == ["night", "theirs", "start"]


def colleague(tmp_path: Path, line: str) -> str:
    """Have somebody else push a change; return the commit."""
    script = (
        f"git clone -q origin.git colleague; cd colleague; {line}; "
        "git -c user.name=c -c user.email=c commit -qam theirs; git push -q origin main"
    )
    assert bash(script, tmp_path).returncode == 0
    return bash("git rev-parse main", tmp_path / "origin.git").stdout.strip()


def head(project: Path) -> str:
    return bash("git rev-parse HEAD", project).stdout.strip()


@pytest.mark.parametrize("name", ["Take the newest code", "Push the commit of the night"])
def test_what_a_night_did_not_commit_is_kept_or_a_person_is_asked(
    project: Path, tmp_path: Path, name: str
) -> None:
    night = "sed -i \"s/start_from.*/start_from: '1'/\" params.yaml"
    assert bash(night, project).returncode == 0
    pulled = colleague(tmp_path, "sed -i s/lr.*/lr:\\ 2/ params.yaml")
    script = block("retrain.yml", name)
    process = bash(script, project, BRANCH="main")
    assert process.returncode == 0, process.stderr
    assert head(project) == pulled
    mine = "start_from: '1'\nepochs: 1\n\n\nlr: 2\n"
    assert (project / "params.yaml").read_text() == mine

    shutil.rmtree(tmp_path / "colleague")
    colleague(tmp_path, "sed -i s/start_from.*/start_from:\\ 7/ params.yaml")
    for _ in range(2):  # the next night, too
        process = bash(script, project, BRANCH="main")
        assert process.returncode == 1
        assert "changed them, too: params.yaml; commit them there" in process.stdout
        assert head(project) == pulled
        assert (project / "params.yaml").read_text() == mine
        assert bash("git stash list; git ls-files -u", project).stdout == ""


def test_commits_that_do_not_fit_end_the_pull_as_it_began(project: Path, tmp_path: Path) -> None:
    colleague(tmp_path, "sed -i s/lr.*/lr:\\ 2/ params.yaml")
    assert bash("sed -i s/lr.*/lr:\\ 3/ params.yaml; git commit -qam n", project).returncode == 0
    before = head(project)
    process = bash(block("retrain.yml", "Take the newest code"), project, BRANCH="main")
    assert process.returncode == 1
    assert "::error::the pull failed" in process.stdout
    assert (head(project), bash("git status --porcelain", project).stdout) == (before, "")
    assert bash("git branch --show-current", project).stdout == "main\n"


def test_git_gets_the_token_from_the_environment_alone(project: Path) -> None:
    env = read("retrain.yml")["jobs"]["retrain"]["env"]
    helper = {name: value for name, value in env.items() if name.startswith("GIT_CONFIG")}
    command = "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill"
    process = bash(command, project, GH_TOKEN="secret", GIT_TERMINAL_PROMPT="0", **helper)
    assert "password=secret" in process.stdout.splitlines(), process.stderr


def test_the_container_installs_the_system_packages_that_the_gate_installs() -> None:
    def packages(name: str) -> set[str]:
        text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
        text = re.sub(r".*\|\| true\n", "", text)  # the gate goes on without these
        (line,) = re.findall(r"apt-get install ([^&>]*)", text)
        return {word for word in line.split() if not word.startswith("-")}

    assert packages(".ci/run") <= packages("Containerfile")
