"""A DNS server on loopback that knows a few names and returns NXDOMAIN for all others (RFC 1035)."""

import socket
import struct
import threading

A, AAAA = 1, 28
NO_ERROR, NO_SUCH_NAME = 0, 3


class Dns:
    """Listens on 127.0.0.1:53 in a separate network namespace; `names` resolve to loopback."""

    def __init__(self, *names):
        self.names = names
        self.queried = set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(4096)
            self.socket.sendto(self.answer(query), client)

    def answer(self, query):
        end = query.index(b"\0", 12)
        labels, at = [], 12
        while at < end:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        name = ".".join(labels).lower()
        kind, _ = struct.unpack("!HH", query[end + 1 : end + 5])
        self.queried.add(name)
        addresses = {A: socket.inet_pton(socket.AF_INET, "127.0.0.1"), AAAA: socket.inet_pton(socket.AF_INET6, "::1")}
        known = name in self.names
        address = addresses.get(kind) if known else None
        header = query[:2] + struct.pack(
            "!HHHHH", 0x8580 | (NO_ERROR if known else NO_SUCH_NAME), 1, 1 if address else 0, 0, 0
        )
        # Pointer to the name in the question, at offset 12.
        record = struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(address)) + address if address else b""
        return header + query[12 : end + 5] + record
