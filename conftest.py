"""Markers of all suites: see `markers` in pyproject.toml."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that count losses and repeats no second try, also where CI gives one to others."""
    for item in items:
        if item.get_closest_marker("counted"):
            item.add_marker(pytest.mark.flaky(reruns=0))
