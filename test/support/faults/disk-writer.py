"""Writes files until it is ended, and says of each one, in memory, that it is written.

Arguments: a seed, then the folders to write in. A line of /dev/shm/acknowledged is `+ path seed
mebibytes` for a file that was written and synced, `- path` for one that is about to be removed.
"""

import mmap
import os
import random
import sys
import time

MEBIBYTE = 1 << 20
# Of all files together, in mebibytes: four of these fill the disk of the test, but not once more.
MOST = 260
seed, folders = sys.argv[1], sys.argv[2:]
chance = random.Random(seed)
said = open("/dev/shm/acknowledged", "a", buffering=1)
refused = open("/dev/shm/refused", "a", buffering=1)
there = []


def write_plainly(path, block, count):
    with open(path, "wb") as file:
        for _ in range(count):
            file.write(block)


def write_at_once(path, block, count):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    data, at = block * count, 0
    while at < len(data):
        at += os.write(file, data[at:])
    os.close(file)


def write_allocated(path, block, count):
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, count * MEBIBYTE)
        for _ in range(count):
            file.write(block)


def write_mapped(path, block, count):
    # A page that finds no space ends its process.
    child = os.fork()
    if child == 0:
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.truncate(file, count * MEBIBYTE)
        with mmap.mmap(file, count * MEBIBYTE) as pages:
            for at in range(count):
                pages[at * MEBIBYTE : (at + 1) * MEBIBYTE] = block
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError(28, "no space for a page")


def sync(path):
    if chance.randrange(2):
        os.sync()
        return
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


WAYS = [write_plainly, write_at_once, write_allocated, write_mapped]
number = 0
while True:
    number += 1
    path = f"{chance.choice(folders)}/written-{seed}-{number}"
    count = chance.randrange(1, 24)
    block = random.Random(f"{seed}/{number}").randbytes(MEBIBYTE)
    try:
        chance.choice(WAYS)(path, block, count)
        sync(path)
        said.write(f"+ {path} {seed}/{number} {count}\n")
        there.append((path, count))
    except OSError as error:
        refused.write(f"{path} {error}\n")
        if os.path.exists(path):
            os.unlink(path)
        time.sleep(0.1)
    while sum(size for _, size in there) > MOST or (len(there) > 4 and chance.randrange(4) == 0):
        gone, _ = there.pop(chance.randrange(len(there)))
        said.write(f"- {gone}\n")
        os.unlink(gone)
