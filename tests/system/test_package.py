"""The built package in an empty environment: a project without a clone, and its upgrade."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.tiny import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with the wheel of the sdist, and the libraries of this one."""
    folder = tmp_path_factory.mktemp("package")
    build = (
        "from setuptools import build_meta as b; import sys;"
        "print(getattr(b, sys.argv[1])(sys.argv[2]))"
    )

    def make(kind: str, source: Path) -> Path:
        command = [sys.executable, "-c", build, kind, str(folder)]
        process = subprocess.run(command, cwd=source, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return folder / process.stdout.splitlines()[-1]

    clone = folder / "clone"  # as building leaves folders behind
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-co",
            "--exclude-standard",
            "--",
            "src",
            "pipeline",
            "presets",
            "data",
            "*.yaml",
            "*.json",
            "pyproject.toml",
            "setup.py",
            "MANIFEST.in",
            "README.md",
            "LICENSE",
            "constraints.txt",
            ".gitignore",
            ".dvcignore",
            ".dvc",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    sdist = make("build_sdist", clone)
    subprocess.run(["tar", "xf", sdist, "-C", folder], check=True)
    wheel = make("build_wheel", folder / sdist.name.removesuffix(".tar.gz"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    interpreter = folder / "env/bin/python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            interpreter,
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--force-reinstall",
            wheel,
        ],
        check=True,
        # With it, pip would find the package of this checkout and take it for installed.
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    (site,) = (folder / "env/lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Run:
    """Run a module in a folder of the environment, here `tmp_path`."""

    def run(*command: str, folder: str = ".", ok: bool = True) -> subprocess.CompletedProcess[str]:
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        process = subprocess.run(
            [python, "-m", *command],
            cwd=tmp_path / folder,
            capture_output=True,
            text=True,
            env=env | {"PATH": path, "DVC_NO_ANALYTICS": "true"},
        )
        assert (process.returncode == 0) == ok, process.stdout + process.stderr
        return process

    return run


def site_of(python: Path) -> Path:
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    return site


@pytest.mark.slow
def test_a_project_of_the_installed_package_runs_its_stages_and_is_upgraded(
    python: Path, run: Run, tmp_path: Path
) -> None:
    assert run("signloom_tools.cli.main", "--version").stdout.startswith("signloom 0.")
    run("signloom_tools.cli.main", "project", "Zeichen für alle")
    project = tmp_path / "Zeichen für alle"
    assert not any(path.is_symlink() for path in project.rglob("*"))
    stages = yaml.safe_load((project / "dvc.yaml").read_text())["stages"]
    assert "data/code/signloom.training" in stages["train"]["deps"]
    for stage in stages.values():
        assert not [dep for dep in stage.get("deps", ()) if dep.startswith("src/")]
    # The drawn corpus and the first stages, small.
    draw = project / "data/demo/params.yaml"
    few = yaml.safe_load(draw.read_text())
    few["draw"] |= {
        "train_signers": 1,
        "dev_signers": 1,
        "test_signers": 1,
        "clips_per_signer": 2,
        "max_signs": 1,
        "uncut_share": 0.0,
    }
    draw.write_text(yaml.safe_dump(few))
    run("dvc", "repro", "extract", folder=project.name)
    assert list((project / "data/landmarks/shards").glob("*.parquet"))
    run("dvc", "repro", "extract", folder=project.name)
    # Another version changes what `extract` does, and what `translation` does.
    package = site_of(python) / "signloom"
    changed = package / "detection/smoothing.py"
    before = changed.read_text()
    try:
        changed.write_text(f"{before}\n# another version\n")
        status = json.loads(run("dvc", "status", "--json", folder=project.name).stdout)
        assert "code" in status
        process = run("dvc", "repro", "extract", folder=project.name)
        assert "Running stage 'extract'" in process.stdout
        assert "Running stage 'check'" not in process.stdout
    finally:
        changed.write_text(before)
    params = (project / "params.yaml").read_text()
    mine = params.replace("epochs: 100", "epochs: 7")
    assert mine != params
    (project / "params.yaml").write_text(mine)
    template = site_of(python) / "signloom_tools/project/presets/base.yaml"
    before = template.read_text()
    state = json.loads((project / ".signloom.json").read_text())
    (project / ".signloom.json").write_text(json.dumps(state | {"version": "0.1.0"}))
    assert (
        "signloom project --upgrade"
        in run("dvc", "repro", "check", folder=project.name, ok=False).stderr
    )
    try:
        template.write_text(f"{before}# new\n")
        if kill_in_upgrade(python, project):
            message = run("signloom_tools.cli.project", folder=project.name, ok=False).stderr
            assert "signloom project --upgrade" in message
        run("signloom_tools.cli.main", "project", "--upgrade", folder=project.name)
        assert (project / "presets/base.yaml").read_text() == template.read_text()
        assert (project / "params.yaml").read_text() == mine
        run("signloom_tools.cli.project", folder=project.name)
        # What this version does not change may be changed by hand, what it changes may not.
        for name in ("pipeline/train.py", "presets/base.yaml"):
            (project / name).write_text("# mine\n")
        run("signloom_tools.cli.main", "project", "--upgrade", folder=project.name)
        template.write_text(f"{before}# newer\n")
        message = run(
            "signloom_tools.cli.main", "project", "--upgrade", folder=project.name, ok=False
        )
        assert "presets/base.yaml is not as Signloom" in message.stderr
        for name in ("pipeline/train.py", "presets/base.yaml"):
            assert (project / name).read_text() == "# mine\n"
    finally:
        template.write_text(before)


def kill_in_upgrade(python: Path, project: Path) -> bool:
    """Start an upgrade and kill it when it has begun to write; return whether it was in time."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.Popen(
        [python, "-m", "signloom_tools.cli.main", "project", "--upgrade"],
        cwd=project,
        env=env,
        stdout=subprocess.DEVNULL,
    )
    while process.poll() is None:
        if (project / "presets/base.yaml").read_text().endswith("# new\n"):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.001)
    process.wait()
    return json.loads((project / ".signloom.json").read_text())["version"] == "0.1.0"
