"""Frames: what a Python kernel and its server send each other. A length, then a kind and its content."""

# A larger one ends the connection instead of filling the memory of its reader.
MAX_FRAME_BYTES = 96 * 1024 * 1024
LENGTH_BYTES = 4


def frame_of(kind, content):
    """A frame of a kind, which is a name, with its content as bytes."""
    size = len(kind) + 1 + len(content)
    return b"%b%b\n%b" % (size.to_bytes(LENGTH_BYTES, "big"), kind.encode("ascii"), content)


class Frames:
    """What came until now and is no whole frame yet."""

    def __init__(self):
        self.data = bytearray()

    def take(self, data):
        """Kind and content of each frame that is whole now. Raises ValueError for one that is too large."""
        self.data += data
        start, end = 0, len(self.data)
        while end - start >= LENGTH_BYTES:
            size = int.from_bytes(self.data[start : start + LENGTH_BYTES], "big")
            if size > MAX_FRAME_BYTES:
                raise ValueError(f"a message is larger than {MAX_FRAME_BYTES} bytes")
            if end - start - LENGTH_BYTES < size:
                break
            start += LENGTH_BYTES
            with memoryview(self.data) as view:
                kind, _, content = bytes(view[start : start + size]).partition(b"\n")
            start += size
            yield kind.decode("ascii", "replace"), content
        del self.data[:start]
