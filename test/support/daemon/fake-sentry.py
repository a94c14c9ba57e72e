"""Stands for the kernel of a sandbox, as its host's relay knows it: a control socket in the working
folder. A descriptor that is handed over is joined to a port of loopback; one direction that ends
ends both. Starts the relay on three listeners in that folder and ends it by its own end. A further
line of its standard input starts another relay, after one that died.

Arguments: Node's name of the processor, the id, the two ports, the relay's program. Standard input:
the daemon's secret; its end ends all. Standard output: one word for each call, the first of them
`relay` with its pid.
"""

import fcntl
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
NAMES = ("public", "control", "orders")
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


def start_relay():
    for name in NAMES:
        if os.path.exists(name):
            os.unlink(name)
    places = [listener(name) for name in NAMES]
    # Out of the way of the numbers by which the relay inherits them.
    copies = [fcntl.fcntl(place, fcntl.F_DUPFD, 100) for place in places]
    numbers = " ".join(f"{3 + index}<&{copy}" for index, copy in enumerate(copies))
    words = ["perl", PROGRAM, ARCHITECTURE, ID, PUBLIC, CONTROL, NUMBER_FILE]
    command = ["bash", "-c", f'exec "$@" {numbers}', "relay", *words]
    subprocess.run(command, input=secret.encode(), pass_fds=copies, check=True)
    for place in places:
        place.close()
    for copy in copies:
        os.close(copy)
    with open(NUMBER_FILE, encoding="ascii") as file:
        tell(f"relay {file.read().strip()}")


kernel = listener(f"runsc-{ID}.sock")
threading.Thread(target=accept, args=(kernel,), daemon=True).start()
secret = sys.stdin.readline()
start_relay()
for _ in sys.stdin:
    start_relay()
