"""``orbitmq stop`` ends our servers in order, and no other process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

from orbitmq.cli.core.exits import ExitCode
from tests.cli.processes import LIMIT_S, Home, line_of

COUNTING = """
import signal
from orbitmq.cli.core.pid_files import announced

with announced("broker", "somewhere") as stopping:
    def told(*_):
        stopping()
        print("told", flush=True)
    signal.signal(signal.SIGTERM, told)
    print("ready", flush=True)
    while True:
        signal.pause()
"""


def up(home: Home, name: str) -> subprocess.Popen[str]:
    process = home.start("orbitmq", "up", "--port", "0", "--data", str(home.path / name))
    line_of(process.stdout, "OrbitMQ is up")
    return process


def files(home: Home) -> list[Path]:
    return sorted(home.run_directory.glob("*.pid"))


def test_stop_waits_for_the_orderly_end(home: Home) -> None:
    process = up(home, "data")
    (file,) = files(home)
    assert file.read_text().splitlines() == [str(process.pid), "up", str(home.path / "data")]
    ran = home.run("orbitmq", "stop")
    assert ran.returncode == ExitCode.DONE
    assert ran.stdout == f"stopped up, {home.path / 'data'} (process {process.pid})\n"
    assert process.wait(LIMIT_S) == 0
    assert not (home.path / "data" / "abort").exists()
    assert not files(home)
    assert home.run("orbitmq", "stop").returncode == ExitCode.NOT_FOUND


def test_only_the_named_one_of_several_servers_is_stopped(home: Home) -> None:
    first, second, third = (up(home, name) for name in ("one", "two", "three"))
    unclear = home.run("orbitmq", "stop")
    assert unclear.returncode == ExitCode.NOT_STARTED
    assert f"--pid {first.pid}: up, {home.path / 'one'}" in unclear.stderr
    assert home.run("orbitmq", "stop", "broker").returncode == ExitCode.NOT_FOUND
    one = home.run("orbitmq", "stop", "--pid", str(second.pid), "-o", "json")
    assert [server["pid"] for server in json.loads(one.stdout)["stopped"]] == [second.pid]
    assert second.wait(LIMIT_S) == 0
    assert (first.poll(), third.poll()) == (None, None)
    assert home.run("orbitmq", "stop", "up", "--all").returncode == ExitCode.DONE
    assert (first.wait(LIMIT_S), third.wait(LIMIT_S)) == (0, 0)


def test_mqshutdown_points_to_stop_where_up_runs(home: Home) -> None:
    process = up(home, "data")
    ran = home.run("mqshutdown", "broker")
    assert (ran.returncode, ran.stdout) == (255, "No mqbroker running.\n")
    assert "orbitmq stop up" in ran.stderr
    assert process.poll() is None


def test_a_stale_pid_file_ends_no_other_process(home: Home) -> None:
    killed = up(home, "data")
    (file,) = files(home)
    killed.kill()
    killed.wait(LIMIT_S)
    stranger = home.start(
        "python", "-c", "import signal; print('here', flush=True); signal.pause()"
    )
    line_of(stranger.stdout, "here")
    stale = file.with_name(f"broker-{socket.gethostname()}-{stranger.pid}.pid")
    stale.write_text(f"{stranger.pid}\nbroker\nsomewhere\n")
    assert len(files(home)) == 2
    assert home.run("mqshutdown", "broker").returncode == 255
    assert home.run("orbitmq", "stop", "--all").returncode == ExitCode.NOT_FOUND
    assert stranger.poll() is None
    assert not files(home), "files of the dead are deleted"


def test_a_slow_server_gets_only_one_signal(home: Home) -> None:
    """A second signal would end it at once."""
    server = home.start("python", "-c", COUNTING)
    line_of(server.stdout, "ready")
    late = home.run("orbitmq", "stop", "--timeout", "0.1")
    assert late.returncode == ExitCode.FAILED
    assert f"still at work after 0.1 s: broker, somewhere (process {server.pid})" in late.stderr
    line_of(server.stdout, "told")
    assert home.run("orbitmq", "stop", "--timeout", "0.1").returncode == ExitCode.FAILED
    assert home.run("mqshutdown", "broker").returncode == 0
    server.send_signal(signal.SIGKILL)
    out, _ = server.communicate()
    assert out == "", "told once"


def test_a_server_starts_without_a_place_for_its_pid_file(home: Home) -> None:
    (home.path / "file").touch()
    process = home.start(
        *("orbitmq", "up", "--port", "0", "--data", str(home.path / "data")),
        ORBITMQ_RUN_DIR=str(home.path / "file" / "run"),
    )
    line_of(process.stdout, "OrbitMQ is up")
    process.terminate()
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert "no pid file, so that orbitmq stop will not find this process" in err
