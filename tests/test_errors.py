"""The exception tree: complete, drawn as it is, and with whose fault it is."""

import inspect
import re

from orbitmq import errors
from orbitmq.errors import Fault, OrbitError


def _classes() -> dict[str, type[OrbitError]]:
    return {
        name: cls
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, OrbitError)
    }


def test_the_picture_shows_the_tree_as_it_is() -> None:
    drawn: dict[str, str | None] = {}
    ancestors: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*)(├── |└── )?([A-Z]\w+)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + (found[2] is not None)
        del ancestors[depth:]
        drawn[found[3]] = ancestors[-1] if ancestors else None
        ancestors.append(found[3])
    real = {
        name: None if cls is OrbitError else cls.__mro__[1].__name__
        for name, cls in _classes().items()
    }
    assert drawn == real


def test_every_class_says_whose_fault_it_is_and_whether_to_retry() -> None:
    for cls in _classes().values():
        if cls is OrbitError:
            continue
        assert isinstance(cls.fault, Fault), cls
        assert isinstance(cls.retriable, bool), cls


def test_all_lists_every_class() -> None:
    assert set(errors.__all__) == {*_classes(), "Fault", "FAILURES"}
