"""Sends requests by hand, all to an address that no rule names, and tells what answered each.

"203.0.113.10" and the like is the host that the request arrived at; a number is the status of a
refusal; "closed" means no answer at all. With the argument "flow" it keeps one connection busy.
"""
import json
import re
import socket
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ELSEWHERE = "198.51.100.7"
LIMIT = 4
SILENCE = 1


def outcomes_of(data):
    """Each reply in turn: where it came from, or its status."""
    found = []
    for reply in re.split(rb"(?=HTTP/1\.1 \d\d\d)", data)[1:]:
        at = re.search(rb'"at":"([^"]+)"', reply)
        found.append((at.group(1) if at else reply[9:12]).decode())
    return " ".join(found) or "closed"


def receive(stream, until=None):
    data = b""
    try:
        while until is None or data.count(until) < 1:
            more = stream.recv(65536)
            if not more:
                break
            data += more
    except OSError:
        pass
    return data


def web(*requests):
    """Requests one after the other on one connection; after the last nothing may come any more."""
    with socket.create_connection((ELSEWHERE, 80), LIMIT) as stream:
        data = b""
        try:
            for request in requests[:-1]:
                stream.sendall(request)
                data += receive(stream, b"}\n")
            stream.sendall(requests[-1])
            data += receive(stream, b"\n")
            stream.settimeout(SILENCE)
        except OSError:
            pass
        return outcomes_of(data + receive(stream))


def get(host, *more, target=b"/", method=b"GET"):
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: " + host, *more]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def context():
    made = ssl.create_default_context()
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def secure(server_name, host):
    try:
        with socket.create_connection((ELSEWHERE, 443), LIMIT) as plain:
            with context().wrap_socket(plain, server_hostname=server_name) as stream:
                stream.sendall(get(host, b"Connection: close"))
                return outcomes_of(receive(stream))
    except OSError as error:
        return "denied" if "DENIED" in str(error).upper() else "closed"


def hello(name, written, pieces=1):
    """The first message of a client with another name written into it: "answered" or "denied"."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context().wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    message = outgoing.read().replace(name.encode(), written)
    with socket.create_connection((ELSEWHERE, 443), LIMIT) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = -(-len(message) // pieces)
        for at in range(0, len(message), size):
            stream.sendall(message[at : at + size])
            time.sleep(0.01)
        stream.settimeout(LIMIT)
        try:
            first = stream.recv(7)
        except OSError:
            return "closed"
        return {22: "answered", 21: "denied"}.get(first[0] if first else 0, "closed")


def dresses():
    allowed, other = b"allowed.test", b"other.test"
    hidden = get(other)
    length = b"Content-Length: " + str(len(hidden)).encode()
    return {
        "plain": lambda: web(get(allowed)),
        "other name": lambda: web(get(other)),
        "trailing dot": lambda: web(get(b"allowed.test.")),
        "two trailing dots": lambda: web(get(b"allowed.test..")),
        "upper case": lambda: web(get(b"ALLOWED.Test")),
        "not ASCII": lambda: web(get("b\u00fccher.test".encode())),
        "Kelvin sign": lambda: web(get("allowed.te\u212at".encode())),
        "NUL": lambda: web(get(b"allowed.test\0.other.test")),
        "user": lambda: web(get(b"allowed.test@other.test")),
        "other port": lambda: web(get(b"allowed.test:8080")),
        "its own port": lambda: web(get(b"allowed.test:80")),
        "address": lambda: web(get(ELSEWHERE.encode())),
        "address as a number": lambda: web(get(b"3325256711")),
        "two hosts": lambda: web(get(allowed, b"Host: other.test")),
        "two equal hosts": lambda: web(get(allowed, b"Host: allowed.test")),
        "no host": lambda: web(b"GET / HTTP/1.1\r\n\r\n"),
        "old version": lambda: web(b"GET / HTTP/1.0\r\n\r\n"),
        "leading line ends": lambda: web(b"\r\n\r\n" + get(other)),
        "absolute form": lambda: web(get(allowed, target=b"http://other.test/")),
        "CONNECT": lambda: web(get(allowed, method=b"CONNECT", target=b"198.51.100.7:443")),
        "one connection, two hosts": lambda: web(get(allowed), get(other)),
        "both at once": lambda: web(get(allowed) + get(other)),
        "hidden in a body": lambda: web(get(allowed, b"Connection: content-length", length) + hidden),
        "two lengths": lambda: web(get(allowed, length, b"Transfer-Encoding: chunked") + b"0\r\n\r\n" + hidden),
        "odd coding": lambda: web(get(allowed, b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n"),
        "no HTTP": lambda: web(b"SSH-2.0-client\r\n"),
        "server name": lambda: secure("allowed.test", allowed),
        "server name, other host": lambda: secure("allowed.test", other),
        "other server name": lambda: secure("other.test", allowed),
        "no server name": lambda: secure(None, allowed),
        "server name in pieces": lambda: hello("allowed.test", allowed, 60),
        "server name in upper case": lambda: hello("allowed.test", b"Allowed.TEST"),
        "server name with a dot": lambda: hello("allowed.testx", b"allowed.test."),
        "server name with NUL": lambda: hello("allowed.testx.other.test", b"allowed.test\0.other.test"),
        "server name with a user": lambda: hello("allowed.testx.other.test", b"allowed.test@.other.test"),
    }


def flow():
    """One TLS connection that is asked again and again; the file tells whether it answers."""
    state = "shut"
    while True:
        try:
            with socket.create_connection((ELSEWHERE, 443), LIMIT) as plain:
                with context().wrap_socket(plain, server_hostname="allowed.test") as stream:
                    while state is not None:
                        stream.sendall(get(b"allowed.test"))
                        if not stream.recv(65536):
                            break
                        note("open")
                        time.sleep(0.05)
        except OSError:
            pass
        note("shut")
        time.sleep(0.05)


def note(state):
    with open("/tmp/flow", "w") as file:
        file.write(state)


if sys.argv[1:] == ["flow"]:
    flow()
with ThreadPoolExecutor(8) as pool:
    waiting = {name: pool.submit(make) for name, make in dresses().items()}
print(json.dumps({name: outcome.result() for name, outcome in waiting.items()}))
