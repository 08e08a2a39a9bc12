"""Peers that send one request repeatedly and read nothing, in their own process.

Takes the address and the number of peers; the request comes as the first line of the input, in
hexadecimal digits. Prints a line when all peers have sent, and ends with its input.
"""

from __future__ import annotations

import select
import socket
import sys

CHUNK_BYTES = 1 << 16
RECEIVE_BUFFER_BYTES = 1 << 15


def main() -> None:
    address, count = sys.argv[1], int(sys.argv[2])
    request = bytes.fromhex(sys.stdin.readline())
    chunk = memoryview(request * (1 + CHUNK_BYTES // len(request)))
    host, _, port = address.rpartition(":")
    sent: dict[socket.socket, int] = {}
    for _ in range(count):
        peer = socket.socket()
        # Buffers of the kernel would only make the tests longer.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        peer.connect((host, int(port)))
        peer.setblocking(False)
        sent[peer] = 0
    is_told = False
    while True:
        heard, ready, _ = select.select([sys.stdin], sent, [])
        if heard:
            return
        for peer in ready:
            sent[peer] += peer.send(chunk[sent[peer] % len(chunk) :])
        if not is_told and all(sent.values()):
            is_told = True
            print("flooding", flush=True)


if __name__ == "__main__":
    main()
