"""Reads the lines of disk-writer.py from standard input and prints each file that is not as said."""

import random
import sys

said = {}
for line in sys.stdin:
    words = line.split()
    if words[0] == "+" and len(words) == 4:
        said[words[1]] = (words[2], int(words[3]))
    elif words[0] == "-":
        said.pop(words[1], None)
for path, (seed, count) in said.items():
    block = random.Random(seed).randbytes(1 << 20)
    try:
        with open(path, "rb") as file:
            for at in range(count):
                if file.read(1 << 20) != block:
                    print(f"{path}: mebibyte {at} of {count} differs")
                    break
            else:
                if file.read(1):
                    print(f"{path} is too long")
    except OSError as error:
        print(f"{path}: {error}")
print(f"files: {len(said)}")
