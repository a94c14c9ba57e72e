"""The floor of the code interpreter: ipykernel behind a bare jupyter_client, on the host.

Takes one JSON text a line, the code of a cell, and answers each by a line: the milliseconds until the
kernel was idle and had replied, and the bytes of text and images that came. `null` is answered by the
memory of client and kernel, in MiB.
"""

import json
import os
import sys
import time

from jupyter_client.manager import start_new_kernel


def main():
    manager, client = start_new_kernel(startup_timeout=120)
    try:
        for line in sys.stdin:
            code = json.loads(line)
            answer = [memory_mib(manager), 0] if code is None else run(client, code)
            print(json.dumps(answer), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client, code):
    size = 0

    def count(message):
        nonlocal size
        content = message["content"]
        size += len(content.get("text", ""))
        size += sum(len(part) for part in content.get("data", {}).values() if isinstance(part, str))

    started_at = time.perf_counter()
    client.execute_interactive(code, output_hook=count, timeout=120)
    return [(time.perf_counter() - started_at) * 1_000, size]


def memory_mib(manager):
    return sum(resident_kib(number) for number in (os.getpid(), manager.provisioner.pid)) / 1_024


def resident_kib(number):
    with open(f"/proc/{number}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1_024


main()
