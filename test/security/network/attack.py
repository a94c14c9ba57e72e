"""Tries to get out of a sandbox: each attempt of the JSON argument at once, one outcome for each.

An attempt is [kind, host, port]. "answered" means that something came back.
"""
import json
import socket
import sys
import threading
import time

SECONDS = 1


def tcp(host, port):
    with socket.create_connection((host, port), SECONDS) as stream:
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return stream.recv(99)


def udp(host, port):
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, 0, socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as channel:
        channel.settimeout(SECONDS)
        channel.connect(address)
        channel.send(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05other\x04test\x00\x00\x01\x00\x01")
        return channel.recv(99)


def icmp(host, _port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as channel:
        channel.settimeout(SECONDS)
        channel.sendto(b"\x08\x00\xf7\xfd\x00\x01\x00\x01", (host, 0))
        return channel.recv(99)


def raw(host, _port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
        channel.settimeout(SECONDS)
        channel.sendto(b"\x08\x00\xf7\xfd\x00\x01\x00\x01", (host, 0))
        return channel.recv(99)


def name(host, _port):
    return socket.getaddrinfo(host, 80, socket.AF_INET)[0][4][0]


def literal(host, port):
    """An address in a spelling that the C library understands."""
    return tcp(socket.inet_ntoa(socket.inet_aton(host)), port)


def abstract(host, _port):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(SECONDS)
        stream.connect("\0" + host)
        return stream.recv(99)


KINDS = {kind.__name__: kind for kind in (tcp, udp, icmp, raw, name, literal, abstract)}


def attempt(kind, host, port, outcomes, index):
    try:
        outcomes[index] = "answered" if KINDS[kind](host, port) else "silent"
    except OSError as error:
        outcomes[index] = "failed: " + (error.strerror or type(error).__name__)


def attempt_all(attempts):
    outcomes = ["silent"] * len(attempts)
    threads = [
        threading.Thread(target=attempt, args=(*entry, outcomes, index), daemon=True)
        for index, entry in enumerate(attempts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Names are asked more than once before the C library gives up.
        thread.join(5 * SECONDS)
    return outcomes


deadline = time.monotonic() + float(sys.argv[2])
outcomes = attempt_all(json.loads(sys.argv[1]))
while time.monotonic() < deadline:
    outcomes = attempt_all(json.loads(sys.argv[1]))
print(json.dumps(outcomes))
