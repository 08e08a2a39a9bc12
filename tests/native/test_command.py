"""Commands and the reader that cuts them from a stream, in both header encodings."""

import json
import struct
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import errors
from orbitmq._native import Command, FrameReader, encode_commands

Encoding = Literal["json", "binary"]
both_encodings = pytest.mark.parametrize("encoding", ["json", "binary"])

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_I32 = st.integers(-(2**31), 2**31 - 1)
_COMMANDS = st.fixed_dictionaries(
    {
        "code": st.integers(0, 2**15 - 1),
        "opaque": _I32,
        "flag": _I32,
        "remark": st.none() | _TEXT,
        "ext": st.none() | st.dictionaries(_TEXT, _TEXT, min_size=1),
        "body": st.binary(max_size=100),
        "language": st.sampled_from(["JAVA", "GO", "PYTHON", "RUST", "OTHER"]),
        "version": st.integers(0, 2**15 - 1),
        "encoding": st.sampled_from(["json", "binary"]),
    }
)


def _fields(command: Command) -> dict[str, Any]:
    names = "code opaque flag remark ext body language version encoding"
    return {name: getattr(command, name) for name in names.split()}


def _read(data: bytes) -> list[Command]:
    reader = FrameReader()
    commands = reader.feed(data)
    assert reader.failure is None
    assert reader.pending_bytes == 0
    return commands


@given(st.lists(_COMMANDS, max_size=4))
def test_commands_come_back_with_every_field(commands: list[dict[str, Any]]) -> None:
    data = b"".join(encode_commands([Command(**fields) for fields in commands]))
    assert [_fields(command) for command in _read(data)] == commands


def test_large_bodies_are_not_copied() -> None:
    small, large = b"s" * 100, b"l" * (64 << 10)
    commands = [Command(1, opaque=number, body=(small, large)[number % 2]) for number in range(4)]
    buffers = encode_commands(commands)
    assert [buffer is large for buffer in buffers] == [False, True, False, True]
    assert [command.body for command in _read(b"".join(buffers))] == [small, large] * 2
    assert len(encode_commands(commands[::2])) == 1
    assert encode_commands([]) == []


@given(st.lists(_COMMANDS, min_size=1, max_size=4), st.lists(st.integers(1, 40), min_size=1))
def test_it_does_not_matter_where_reads_end(
    commands: list[dict[str, Any]], sizes: list[int]
) -> None:
    data = b"".join(Command(**fields).encode() for fields in commands)
    reader = FrameReader()
    got: list[Command] = []
    at, turn = 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        got += reader.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert [_fields(command) for command in got] == commands
    assert reader.pending_bytes == 0


def test_a_json_frame_is_what_java_would_send() -> None:
    frame = Command(
        310, opaque=7, ext={"a": "P1", "e": "1"}, body=b"hi", language="JAVA", encoding="json"
    ).encode()
    length, header_length = struct.unpack(">iI", frame[:8])
    assert length == len(frame) - 4
    header = frame[8 : 8 + header_length]
    assert header == (
        b'{"code":310,"extFields":{"a":"P1","e":"1"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":407}'
    )
    assert frame[8 + header_length :] == b"hi"


def test_a_binary_frame_is_what_java_would_send() -> None:
    frame = Command(
        310, opaque=7, ext={"a": "P1"}, remark="no", language="GO", version=317, encoding="binary"
    ).encode()
    header = struct.pack(">hbhii i2s i h1s i2s", 310, 9, 317, 7, 0, 2, b"no", 9, 1, b"a", 2, b"P1")
    assert frame == struct.pack(">iBBH", 4 + len(header), 1, 0, len(header)) + header


@both_encodings
def test_flags_and_ext_lookups(encoding: Encoding) -> None:
    (command,) = _read(Command(1, flag=3, ext={"queueId": "2"}, encoding=encoding).encode())
    assert command.is_response
    assert command.is_oneway
    assert command.get_ext("queueId") == "2"
    assert command.get_ext("topic") is None
    (bare,) = _read(Command(1, encoding=encoding).encode())
    assert not bare.is_response
    assert not bare.is_oneway
    assert bare.ext is None
    assert bare.get_ext("topic") is None


def test_java_numbers_in_ext_fields_read_as_text() -> None:
    header = json.dumps({"code": 1, "extFields": {"n": 5, "b": True}}).encode()
    (command,) = _read(struct.pack(">ii", 4 + len(header), len(header)) + header)
    assert command.ext == {"n": "5", "b": "true"}


@both_encodings
def test_the_commands_before_a_bad_frame_are_not_lost(encoding: Encoding) -> None:
    good = Command(1, encoding=encoding).encode()
    reader = FrameReader()
    commands = reader.feed(good + good + struct.pack(">ii", -1, 0))
    assert len(commands) == 2
    assert isinstance(reader.failure, errors.MalformedFrame)
    assert reader.failure.offset == 2 * len(good)
    with pytest.raises(errors.MalformedFrame):
        reader.feed(good)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (struct.pack(">i", 2**24), errors.FrameTooLarge),
        (struct.pack(">i", 3), errors.MalformedFrame),
        (struct.pack(">iI", 10, 7), errors.MalformedFrame),
        (struct.pack(">iI", 4, 0x02000000), errors.MalformedFrame),
        (struct.pack(">iI", 5, 1) + b"{", errors.MalformedHeader),
        (struct.pack(">iI", 5, 0x01000001) + b"x", errors.MalformedHeader),
    ],
)
def test_each_kind_of_bad_frame_has_its_class(data: bytes, error: type[errors.WireError]) -> None:
    reader = FrameReader()
    assert reader.feed(data) == []
    assert type(reader.failure) is error


def test_the_limit_can_be_lowered() -> None:
    reader = FrameReader(max_frame_bytes=100)
    reader.feed(struct.pack(">i", 97))
    assert isinstance(reader.failure, errors.FrameTooLarge)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_garbage_is_an_error_value(reads: list[bytes]) -> None:
    reader = FrameReader()
    for data in reads:
        if reader.failure is not None:
            assert reader.failure.fault is errors.Fault.PEER
            break
        reader.feed(data)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(errors.MalformedHeader, match="code"):
        Command(40_000, encoding="binary").encode()
    with pytest.raises(errors.FrameTooLarge):
        Command(1, body=bytes(2**24)).encode()
    with pytest.raises(ValueError, match="KLINGON"):
        Command(1, language="KLINGON")


def test_the_size_of_a_received_command_counts_body_and_fields() -> None:
    (command,) = _read(Command(1, ext={"name": "x" * 1000}, body=bytes(500)).encode())
    assert 1504 <= command.size < 1600
    assert Command(1).size == 0
