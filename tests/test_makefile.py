"""The steps of `make up` are announced, and so is how to use what it has built."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("M")}
"""Without the flags of a make that runs this test."""


def recipe_of(target: str) -> list[str]:
    """Return the commands that a first `make target` would run."""
    words = ["make", "--dry-run", "--always-make", target]
    run = subprocess.run(
        words, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return run.stdout.replace("\\\n", " ").splitlines()


def test_every_long_step_of_make_up_is_announced_before_it_runs() -> None:
    commands = recipe_of("up")
    announced = ""
    steps = []
    for command in commands:
        if "==>" in command:
            announced = command
        for tool in ("-m pip install", "maturin develop", "orbitmq up"):
            if tool in command:
                assert announced, f"nothing is printed before: {command}"
                steps.append((tool, announced))
    texts = dict(steps)
    assert "about" in texts["-m pip install"]
    assert "about" in texts["maturin develop"]
    assert len(set(texts.values())) == 3, "each step has its own line"


def test_make_up_says_how_to_activate_the_environment_it_builds() -> None:
    announced = [command for command in recipe_of("up") if "==> " in command]
    (start,) = [command for command in announced if "Starting" in command]
    assert re.search(r"\. \.venv/bin/activate\b", start)
    assert ". .venv/bin/activate\n" in (ROOT / "README.md").read_text()
