"""Stands for the kernel of a sandbox, as its host's relay knows it: a control socket in the working
folder. A descriptor that is handed over is joined to a port of loopback; one direction that ends
ends both. Starts the relay on three listeners in that folder and ends it by its own end.

Arguments: Node's name of the processor, the id, the two ports, the relay's program. Standard input:
the daemon's secret; its end ends all. Standard output: one word for each call, the first of them
`relay` with its pid.
"""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time

ARCHITECTURE, ID, PUBLIC, CONTROL, PROGRAM = sys.argv[1:]
REFUSED = "refused"
HELD = "held"
NUMBER_FILE = "relay"


def tell(word):
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def listener(name):
    made = socket.socket(socket.AF_UNIX)
    made.bind(name)
    made.listen(512)
    return made


def join(one, other):
    try:
        while True:
            for ready in select.select([one, other], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                (other if ready is one else one).sendall(data)
    except OSError:
        return
    finally:
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def forward(call, passed):
    if os.path.exists(REFUSED):
        os.close(passed[0])
        return False
    near = socket.socket(fileno=passed[0])
    far = socket.create_connection(("127.0.0.1", call["arg"]["Port"]))
    threading.Thread(target=join, args=(near, far), daemon=True).start()
    return True


def answer(connection):
    try:
        serve(connection)
    except ConnectionError:
        # The relay does not wait for each answer.
        return


def serve(connection):
    while True:
        text, passed, _, _ = socket.recv_fds(connection, 4096, 1)
        if not text:
            return
        call = json.loads(text)
        method = call["method"].removeprefix("containerManager.")
        done = forward(call, passed) if method == "PortForward" else True
        tell(method)
        while method == "Pause" and os.path.exists(HELD):
            time.sleep(0.01)
        connection.sendall(json.dumps({"success": done}, separators=(",", ":")).encode())


def accept(listening):
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


# First of all that this program opens: the relay inherits them by their numbers.
places = [listener(name) for name in ("public", "control", "orders")]
numbers = [place.fileno() for place in places]
assert numbers == [3, 4, 5], numbers
kernel = listener(f"runsc-{ID}.sock")
threading.Thread(target=accept, args=(kernel,), daemon=True).start()
secret = sys.stdin.readline()
words = ["perl", PROGRAM, ARCHITECTURE, ID, PUBLIC, CONTROL, NUMBER_FILE]
subprocess.run(words, input=secret.encode(), pass_fds=numbers, check=True)
for place in places:
    place.close()
with open(NUMBER_FILE, encoding="ascii") as file:
    tell(f"relay {file.read().strip()}")
sys.stdin.read()
