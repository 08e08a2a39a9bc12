"""The files for visitors (hooks, workflow, templates) name programs and files that exist."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_the_workflow_runs_what_ci_runs() -> None:
    (job,) = load(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    files = [
        value
        for step in job["steps"]
        for key, value in step.get("with", {}).items()
        if key.endswith("-file")
    ]
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_hooks_run_local_tools_on_files_that_exist() -> None:
    (repository,) = load(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local", "a remote repository would have to be downloaded"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        words = hook["entry"].split()
        assert words[0].startswith(".venv/bin/") or words[0] == "cargo"
        assert all((ROOT / word).is_file() for word in words if word.endswith(".py"))


def test_templates_link_to_files_that_exist() -> None:
    text = (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all((GITHUB / link).is_file() for link in links)
    for template in (GITHUB / "ISSUE_TEMPLATE").glob("*.md"):
        header = yaml.safe_load(template.read_text().split("---")[1])
        assert {"name", "about"} <= set(header)


def test_the_changelog_has_the_four_headings_in_order() -> None:
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    assert re.findall(r"^### (.+)$", newest, re.MULTILINE) == [
        "Added",
        "Changed",
        "Fixed",
        "Security",
    ]
