"""Bad input and bad disks: a typed error that names the file, and nothing acknowledged lost."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq import NewMessage, Record, Store, StoreOptions, errors

LOG_FILE_SIZE = 16 * 1024
NOBODY = 65534

_OPTIONS = f"""
from orbitmq import NewMessage, Store, StoreOptions, errors
options = StoreOptions(commit_log_file_size={LOG_FILE_SIZE}, consume_queue_file_size=1000,
                       index_slots=97, index_entries=500, flush="sync")
"""


def python(code: str, *arguments: str | Path) -> list[str]:
    """The command line of another process that runs `code` with the options of these tests."""
    return [sys.executable, "-c", _OPTIONS + textwrap.dedent(code), *map(str, arguments)]


def fill(store: Store, count: int = 200) -> list[Record]:
    store.append_many(
        [NewMessage("T", b"%d" % n * 20, properties={"KEYS": f"k{n}"}) for n in range(count)]
    )
    return records_of(store)


def records_of(store: Store) -> list[Record]:
    records: list[Record] = []
    while (result := store.read("T", 0, len(records))).count:
        records += result.records()
    return records


# ---- messages that do not fit --------------------------------------------------------------------


def test_too_large_messages_are_refused_and_those_before_them_stay(root: Path) -> None:
    options = StoreOptions(commit_log_file_size=LOG_FILE_SIZE, max_body_bytes=1000)
    good, large = NewMessage("T", bytes(1000)), NewMessage("T", bytes(1001))
    with Store.open(root, options, create=True) as store:
        with pytest.raises(errors.RecordTooLarge) as caught:
            store.append_many([good, good, large, good])
        assert [place.queue_offset for place in caught.value.appended] == [0, 1]
        assert not caught.value.retriable
        assert store.max_offset("T", 0) == 2

        with pytest.raises(errors.RecordTooLarge) as caught:
            store.append_many([good, large], atomic=True)
        assert list(caught.value.appended) == []
        assert store.max_offset("T", 0) == 2


def test_a_record_larger_than_a_log_file_is_refused(store: Store) -> None:
    with pytest.raises(errors.RecordTooLarge):
        store.append_many([NewMessage("T", bytes(LOG_FILE_SIZE))])
    assert store.max_physical_offset == 0


@pytest.mark.parametrize(
    "message",
    [
        NewMessage("x" * 128, b""),
        NewMessage("T", b"", properties="k\x01" + "v" * 32766),
    ],
    ids=["topic", "properties"],
)
def test_parts_that_do_not_fit_their_fields_are_refused(root: Path, message: NewMessage) -> None:
    with Store.open(root, StoreOptions(commit_log_file_size=1 << 20), create=True) as store:
        with pytest.raises(errors.InvalidMessage) as caught:
            store.append_many([message])
        assert caught.value.fault is errors.Fault.CALLER
        assert store.max_physical_offset == 0


@pytest.mark.parametrize("topic", ["../../escape", "a/b", "..", ""])
def test_a_topic_that_is_no_directory_name_is_refused(store: Store, topic: str) -> None:
    with pytest.raises(errors.InvalidMessage):
        store.append_many([NewMessage(topic, b"")])
    assert store.queues() == []
    assert store.max_physical_offset == 0


# ---- a directory that cannot be had --------------------------------------------------------------


def test_a_second_process_is_told_who_has_the_directory(root: Path, small: StoreOptions) -> None:
    holder = python(
        """
        import sys
        store = Store.open(sys.argv[1], options, create=True)
        print("open", flush=True)
        input()
        """,
        root,
    )
    with subprocess.Popen(
        holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(errors.StoreLocked, match=f"process {process.pid}") as caught:
            Store.open(root, small, create=True)
        assert caught.value.retriable
        assert caught.value.path is not None
        assert caught.value.path.is_relative_to(root)
        process.stdin.close()
    Store.open(root, small, create=True).close()


def test_a_second_opening_in_one_process_is_refused_too(
    store: Store, root: Path, small: StoreOptions
) -> None:
    with pytest.raises(errors.StoreLocked, match="this process"):
        Store.open(root, small, create=True)
    fill(store)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that every user may enter; those pytest makes only their owner may."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "a store"])
def test_a_read_only_directory(open_to_all: Path, small: StoreOptions, filled: bool) -> None:
    root = open_to_all / "store"
    root.mkdir()
    if filled:
        with Store.open(root, small, create=True) as store:
            fill(store)
    for path in [*root.rglob("*"), root]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # Permission bits do not bind root, so as root the other process becomes nobody first.
    opening = python(
        f"""
        import os, sys
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid({NOBODY})
            os.setuid({NOBODY})
        try:
            Store.open(sys.argv[1], options, create=True)
        except errors.ReadOnlyStore as error:
            print(error.path)
        """,
        root,
    )
    run = subprocess.run(opening, capture_output=True, text=True, check=True)
    assert Path(run.stdout.strip()).is_relative_to(root)


def test_a_full_disk_names_the_file_it_had_no_room_for(root: Path) -> None:
    # A limit on file sizes refuses a file like a full disk does, and needs no disk to fill.
    appending = python(
        f"""
        import resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, ({LOG_FILE_SIZE - 1}, {LOG_FILE_SIZE - 1}))
        try:
            Store.open(sys.argv[1], options, create=True).append_many([NewMessage("T", b"hello")])
        except errors.DiskFull as error:
            print(error.retriable, error.path)
        """,
        root,
    )
    run = subprocess.run(appending, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"True {root / 'commitlog' / ('0' * 20)}"


# ---- files that are not as they should be --------------------------------------------------------


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/T/0"])
def test_a_file_of_the_wrong_size_is_named(
    root: Path, reopen: Callable[[], Store], small: StoreOptions, name: str
) -> None:
    store = reopen()
    fill(store)
    store.close()
    file = sorted((root / name).iterdir())[0]
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(errors.WrongFileSize) as caught:
        Store.open(root, small, create=True)
    assert caught.value.path == file


def test_other_sizes_in_the_options_are_the_same_error(
    root: Path, store: Store, small: StoreOptions
) -> None:
    fill(store)
    store.close()
    with pytest.raises(errors.WrongFileSize, match="configured file size is 1073741824"):
        Store.open(root, create=True)


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/T/0"])
def test_a_stray_file_is_named(root: Path, store: Store, small: StoreOptions, name: str) -> None:
    fill(store)
    store.close()
    stray = root / name / "notes.txt"
    stray.write_bytes(bytes(LOG_FILE_SIZE))
    with pytest.raises(errors.StrayFile) as caught:
        Store.open(root, small, create=True)
    assert caught.value.path == stray


def test_a_missing_log_file_is_named(root: Path, store: Store, small: StoreOptions) -> None:
    fill(store, 600)
    store.close()
    files = sorted((root / "commitlog").iterdir())
    files[1].unlink()
    with pytest.raises(errors.MissingFile) as caught:
        Store.open(root, small, create=True)
    assert caught.value.path == files[1]


def test_a_deleted_queue_is_rebuilt(root: Path, reopen: Callable[[], Store]) -> None:
    store = reopen()
    before = fill(store)
    store.close()
    shutil.rmtree(root / "consumequeue")
    assert records_of(reopen()) == before


def test_a_garbled_record_in_the_middle_is_named(root: Path, reopen: Callable[[], Store]) -> None:
    store = reopen()
    records = fill(store, 600)
    victim = records[10]
    store.close()
    with (root / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.seek(victim.physical_offset + 4)
        file.write(b"\xff" * 4)
    store = reopen()
    assert store.read("T", 0, 0, max_messages=10).records() == records[:10]
    with pytest.raises(errors.CorruptStore) as caught:
        store.read("T", 0, 10)
    assert caught.value.offset == victim.physical_offset
    assert caught.value.path == root / "commitlog" / ("0" * 20)
    assert store.read("T", 0, 11).records()[0] == records[11], "the others are still there"


def test_a_garbled_body_does_not_pass_for_the_message(
    root: Path, reopen: Callable[[], Store]
) -> None:
    store = reopen()
    victim = fill(store, 600)[10]
    store.close()
    with (root / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.seek(victim.physical_offset + 90)
        file.write(b"\xff" * 4)
    result = reopen().read("T", 0, 10)
    with pytest.raises(errors.MalformedRecord, match="checksum"):
        result.records()


def killed_writer(root: Path) -> int:
    """Kills a process that has appended and flushed; says where its last record ends."""
    writing = python(
        """
        import sys
        store = Store.open(sys.argv[1], options, create=True)
        place = store.append_many([
            NewMessage("T", b"%d" % n * 20, properties={"KEYS": f"k{n}"}) for n in range(300)
        ])[-1]
        assert store.wait_flushed(place.end, 10_000)
        print(place.end, flush=True)
        input()
        """,
        root,
    )
    with subprocess.Popen(writing, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        end = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    return end


@pytest.mark.parametrize("tail", [None, 0, 0xA5], ids=["as left", "zeros", "garbage"])
def test_what_was_flushed_survives_a_kill_whatever_is_behind_it(
    root: Path, small: StoreOptions, tail: int | None
) -> None:
    end = killed_writer(root)
    if tail is not None:
        start = end // LOG_FILE_SIZE * LOG_FILE_SIZE
        with (root / "commitlog" / f"{start:020}").open("r+b") as file:
            file.seek(end - start)
            file.write(bytes([tail]) * (LOG_FILE_SIZE - (end - start)))
    with Store.open(root, small, create=True) as store:
        assert not store.recovery.clean_exit
        assert store.recovery.log_end == store.max_physical_offset == end
        records = records_of(store)
        assert [record.body for record in records] == [b"%d" % n * 20 for n in range(300)]
        for n in (0, 150, 299):
            assert store.query("T", f"k{n}") == [records[n].encoded]


def test_a_cut_last_record_is_dropped_and_its_offset_given_again(
    root: Path, small: StoreOptions
) -> None:
    end = killed_writer(root)
    start = end // LOG_FILE_SIZE * LOG_FILE_SIZE
    with (root / "commitlog" / f"{start:020}").open("r+b") as file:
        file.seek(end - start - 10)
        file.write(bytes(10))
    with Store.open(root, small, create=True) as store:
        assert len(records_of(store)) == store.max_offset("T", 0) == 299
        assert store.query("T", "k299") == []
        (place,) = store.append_many([NewMessage("T", b"again")])
        assert place.queue_offset == 299
        assert records_of(store)[-1].body == b"again"
