# SPDX-License-Identifier: MIT
"""The steps of action.yml and the job of gitlab-gate.yml, run as GitHub and GitLab run them, on allocators with planted
faults; except what builds heaptape and uploads.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from heaptape.features.gate.test.pieces import make_workload

from tests.support import OUT, REPOSITORY

PLANTED = OUT / "test-programs" / "libplanted.so"
WORSE = f"{PLANTED}:PLANT_MAP_EVERY=10"
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
GITLAB = yaml.safe_load((REPOSITORY / "gitlab-gate.yml").read_text())[".heaptape-gate"]
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SUMMARY = "the table on the run's page"


@pytest.fixture
def job(tmp_path):
    """A job's working folder; beside it the built action, and a workload."""
    (tmp_path / "action" / "tools").mkdir(parents=True)
    (tmp_path / "action" / "out").symlink_to(OUT)
    shutil.copy(REPOSITORY / "tools" / "gate-in-ci", tmp_path / "action" / "tools")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "job").mkdir()
    make_workload(tmp_path, 300).rename(tmp_path / "recordings" / "history.work")
    return tmp_path / "job"


def run_step(job: Path, name: str, **inputs: object) -> subprocess.CompletedProcess[str]:
    """Runs one step's script, with these inputs and the defaults of other inputs."""
    step = STEPS[name]
    values = {key: str(inputs.get(key, one.get("default", ""))) for key, one in ACTION["inputs"].items()}
    said = {f"${{{{ inputs.{key} }}}}": value for key, value in values.items()}
    environment = {key: said[text] for key, text in step.get("env", {}).items()}
    home = job.parent
    places = {"GITHUB_ACTION_PATH": str(home / "action"), "GITHUB_STEP_SUMMARY": str(home / "summary")}
    return run_script(job, step["run"], environment | places, ["-eo", "pipefail"])


def run_script(job: Path, text: str, environment: dict, options: list[str]) -> subprocess.CompletedProcess[str]:
    home = job.parent
    script = home / "step.sh"
    script.write_text(text)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", *options, script],
        cwd=job,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def run_gate(job: Path, **inputs: object) -> subprocess.CompletedProcess[str]:
    """Runs the step of the gate, then the step that shows its table, which has to succeed in any case."""
    done = run_step(job, "heaptape gate", corpus=job.parent / "recordings", **inputs)
    assert run_step(job, SUMMARY).returncode == 0
    return done


def test_equal_builds_pass_and_the_runs_page_has_the_table(job):
    done = run_gate(job, old=PLANTED, new=PLANTED)
    assert done.returncode == 0, done.stderr
    assert (job / "heaptape-gate" / "gate.xml").stat().st_size > 0
    assert json.loads((job / "heaptape-gate" / "gate.json").read_text())["passed"]
    assert (job.parent / "summary").read_text() == (job / "heaptape-gate" / "gate.md").read_text() == done.stdout
    assert "| history |" in done.stdout


def test_a_worse_build_fails_and_leaves_the_minimised_tape_to_be_uploaded(job):
    done = run_gate(job, old=PLANTED, new=WORSE, tolerate="syscalls=10%", options="--minimise-runs 5")
    assert done.returncode == 1, done.stderr
    assert (job / "heaptape-gate" / "gate" / "history-syscalls" / "minimised.tape").is_file()
    assert "| history |" in (job.parent / "summary").read_text()
    assert Path(STEPS["figures and minimised tapes"]["with"]["path"]) == Path("heaptape-gate")


def test_inputs_are_data_and_no_script(job):
    done = run_gate(job, old=PLANTED, new="$(touch ran); touch ran", tolerate="`touch ran`")
    assert done.returncode == 2, done.stderr
    assert not list(job.glob("**/ran"))
    assert not (job.parent / "summary").exists()


@pytest.mark.parametrize(("new", "status"), [(PLANTED, 0), (WORSE, 1)])
def test_the_job_of_gitlab_fails_where_the_new_build_is_worse_and_keeps_its_reports(job, new, status):
    asked = {
        "OLD": str(PLANTED),
        "NEW": str(new),
        "CORPUS": str(job.parent / "recordings"),
        "OPTIONS": "--minimise none",
    }
    variables = GITLAB["variables"] | asked | {"HEAPTAPE": str(job.parent / "action")}
    lines = [line for line in GITLAB["script"] if not line.startswith("make ")]
    done = run_script(job, "\n".join(lines), variables, ["-e"])
    assert done.returncode == status, done.stderr
    assert "| history |" in done.stdout
    assert (job / GITLAB["artifacts"]["reports"]["junit"]).stat().st_size > 0
    assert all((job / path).is_dir() for path in GITLAB["artifacts"]["paths"])
    assert GITLAB["artifacts"]["when"] == "always"
