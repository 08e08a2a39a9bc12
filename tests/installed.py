"""What `make test-wheel` runs in an environment that has nothing but the installed wheel.

A program, no test of pytest's: the environment has no pytest, and must not see the sources.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orbitmq
from orbitmq import Consumer, Message, Producer
from orbitmq.testing import LocalCluster

COUNT = 100


def run(script: str, *words: str, code: int = 0) -> str:
    """Run one of the wheel's commands; returns what it prints."""
    command = [str(Path(sys.prefix) / "bin" / script), *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == code, ran
    return ran.stdout


def main() -> None:
    package = Path(orbitmq.__file__).parent
    assert Path(sys.prefix) in package.parents, f"{package} is not what was installed"
    assert (package / "py.typed").is_file()
    with LocalCluster() as cluster:
        with Producer(cluster.address, group="installers") as producer:
            for number in range(COUNT):
                producer.send(Message("installed", str(number).encode()))
        with Consumer(
            cluster.address, "installed", group="users", consume_from="first"
        ) as consumer:
            messages = iter(consumer)
            received = {int(next(messages).body) for _ in range(COUNT)}
        assert received == set(range(COUNT))
        said = run("orbitmq", "topic", "list", "--namesrv", cluster.address)
        assert "installed" in said, said
        said = run("mqadmin", "topicList", "-n", cluster.address)
        assert "installed" in said, said
    for script in ("mqnamesrv", "mqbroker"):
        assert "--configFile" in run(script, "-h"), script
    assert "Useage: mqshutdown broker | namesrv" in run("mqshutdown", code=1)
    print(
        f"orbitmq {orbitmq.__version__}, installed from its wheel: {COUNT} messages there and back"
    )


if __name__ == "__main__":
    main()
