"""Disks that are full, cannot read a sector, or are several: the store says so and stays up."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from orbitmq import NewMessage, Store, StoreOptions

PAGE = 4096
MESSAGES = 300


def _cannot_run(reason: str) -> NoReturn:
    """Skip a test for want of a tool; under CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


_OPTIONS = """
import os, signal, sys
from orbitmq import NewMessage, Store, StoreOptions, errors
options = StoreOptions(commit_log_file_size=65536, consume_queue_file_size=20000, index_slots=97,
                       index_entries=500, flush="sync", checkpoint_interval_ms=3_600_000)
def records_of(store):
    found, offset = [], store.min_offset("T", 0)
    while (result := store.read("T", 0, offset)).count:
        found += result.records()
        offset = result.next_offset
    return found
"""

_BAD_SECTOR = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t pread64(int fd, void *buffer, size_t len, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    struct stat file;
    if (fstat(fd, &file) == 0 && file.st_ino == (ino_t)atoll(getenv("BAD_INODE"))) {
        off64_t from = atoll(getenv("BAD_AT"));
        if (at < from + 4096 && at + (off64_t)len > from) {
            if (at >= from) { errno = EIO; return -1; }
            len = from - at;
        }
    }
    return real(fd, buffer, len, at);
}
"""


def run(
    code: str, *arguments: str | Path, within: list[str] | None = None, **environment: str
) -> str:
    """Run `code` in another process with the options of these tests; return its output."""
    command = [*(within or []), sys.executable, "-c", _OPTIONS + textwrap.dedent(code)]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode in {0, -9}, done.stderr
    return done.stdout.strip()


@pytest.fixture
def killed(root: Path) -> Path:
    """A store whose process was killed before its first checkpoint."""
    run(
        f"""
        store = Store.open(sys.argv[1], options, create=True)
        places = store.append_many([NewMessage("T", b"%d" % n * 20) for n in range({MESSAGES})])
        assert store.wait_flushed(places[-1].end, 10_000)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        root,
    )
    assert (root / "abort").exists()
    return root


@pytest.fixture(scope="module")
def bad_sector(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that, loaded first, makes a page of one file unreadable."""
    compiler = shutil.which("cc")
    if compiler is None:
        _cannot_run("no C compiler; apt-get install gcc")
    place = tmp_path_factory.mktemp("shim")
    (place / "shim.c").write_text(_BAD_SECTOR)
    library = place / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, place / "shim.c", "-ldl"], check=True
    )
    return str(library)


# ---- sectors that cannot be read -----------------------------------------------------------------


def test_a_file_that_is_cut_while_it_is_read_is_an_error_and_not_the_end(root: Path) -> None:
    printed = run(
        """
        store = Store.open(sys.argv[1], options, create=True)
        store.append_many([NewMessage("T", bytes(1000)) for n in range(40)])
        file = sys.argv[1] + "/commitlog/" + "0" * 20
        os.truncate(file, 2 * 4096)
        first = store.read("T", 0, 0, max_messages=32)
        print(first.count, first.next_offset)
        try:
            store.read("T", 0, first.next_offset)
        except errors.CorruptStore as error:
            print(error.path == type(error.path)(file), error.offset)
        """,
        root,
    )
    assert printed.splitlines() == ["7 7", f"True {2 * PAGE}"]


def test_recovery_goes_on_behind_a_sector_of_the_log(killed: Path, bad_sector: str) -> None:
    log = killed / "commitlog" / ("0" * 20)
    printed = run(
        """
        store = Store.open(sys.argv[1], options, create=True)
        print(*store.recovery.notes, sep="; ")
        print(store.min_offset("T", 0), store.max_offset("T", 0))
        print(*[record.queue_offset for record in records_of(store)])
        """,
        killed,
        BAD_INODE=str(log.stat().st_ino),
        BAD_AT=str(3 * PAGE),
        LD_PRELOAD=bad_sector,
    )
    note, bounds, offsets = printed.splitlines()
    assert f"the disk cannot read {log} at {3 * PAGE}" in note
    assert bounds == f"0 {MESSAGES}"
    found = [int(offset) for offset in offsets.split()]
    missing = sorted(set(range(MESSAGES)) - set(found))
    assert 0 < len(missing) < PAGE // 91 + 2
    assert missing == list(range(missing[0], missing[-1] + 1))


@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_with_a_sector_that_cannot_be_read_is_made_anew(
    killed: Path, bad_sector: str, clean: bool
) -> None:
    if clean:
        run("Store.open(sys.argv[1], options, create=True).close()", killed)
    units = killed / "consumequeue" / "T" / "0" / ("0" * 20)
    os.link(units, killed.with_name("sector"))  # or the new file is given its blocks
    printed = run(
        """
        store = Store.open(sys.argv[1], options, create=True)
        print(*store.recovery.notes, sep="; ")
        print(*[record.queue_offset for record in records_of(store)])
        """,
        killed,
        BAD_INODE=str(units.stat().st_ino),
        BAD_AT=str(2 * PAGE if clean else 0),  # what is looked at first
        LD_PRELOAD=bad_sector,
    )
    note, offsets = printed.splitlines()
    assert "queue 0 of T is made anew from the log" in note
    assert offsets.split() == [str(number) for number in range(MESSAGES)]


def test_a_scan_counts_a_sector_as_damage_and_reads_the_rest(killed: Path, bad_sector: str) -> None:
    log = killed / "commitlog" / ("0" * 20)
    printed = run(
        """
        from orbitmq._native import LogScan
        log = sys.argv[1]
        scan = LogScan([(log, 0, 65536)], 65536, [[(0, 65536, True)]], columns=["queueOffset"])
        rows = sum(batch.num_rows for batch in scan)
        report = scan.report()
        print(rows, report.damages)
        """,
        log,
        BAD_INODE=str(log.stat().st_ino),
        BAD_AT=str(3 * PAGE),
        LD_PRELOAD=bad_sector,
    )
    assert "the disk cannot read the page at" in printed
    assert int(printed.split()[0]) > MESSAGES // 2


# ---- disks that are full, and disks of their own -------------------------------------------------


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory on another file system than the usual one for temporary files."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        _cannot_run("no second file system; mount a tmpfs at /dev/shm")
    with TemporaryDirectory(dir=shared) as place:
        yield Path(place)


def test_a_log_on_a_file_system_of_its_own(root: Path, elsewhere: Path) -> None:
    if root.parent.stat().st_dev == elsewhere.stat().st_dev:
        _cannot_run("no second file system; mount a tmpfs at /dev/shm")
    root.mkdir()
    (root / "commitlog").symlink_to(elsewhere)
    options = StoreOptions(commit_log_file_size=16 * 1024, index_slots=97, index_entries=500)
    with Store.open(root, options, create=True) as store:
        for _ in range(3):
            store.append_many([NewMessage("T", bytes(5000)) for _ in range(5)])
        assert len(list(elsewhere.iterdir())) >= 5
    names = [file.name for place in (root, elsewhere) for file in place.iterdir()]
    assert not [name for name in names if "creating" in name]
    with Store.open(root, options, create=True) as store:
        assert store.max_offset("T", 0) == 15


def test_a_store_opens_on_a_full_disk_that_has_no_checkpoint_yet(root: Path) -> None:
    namespace = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        _cannot_run("no mount namespaces for this user; run as root")
    root.mkdir()
    mounting = ["sh", "-c", 'mount -t tmpfs -o size=2m none "$0" && exec "$@"', str(root)]
    printed = run(
        """
        import subprocess
        store_dir = sys.argv[1] + "/store"
        if os.fork() == 0:
            store = Store.open(store_dir, options, create=True)
            written = 0
            try:
                while True:
                    written += len(store.append_many([NewMessage("T", bytes(100))]))
            except errors.DiskFull:
                pass
            with open(sys.argv[1] + "/filler", "wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(bytes(512))
                except OSError:
                    pass
            os.write(1, b"%d\\n" % written)
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        store = Store.open(store_dir, options, create=True)
        print(len(records_of(store)))
        """,
        root,
        within=[*namespace, *mounting],
    )
    written, found = map(int, printed.split())
    assert found == written > 1000
