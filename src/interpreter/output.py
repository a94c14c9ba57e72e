"""The output of a kernel's process and of the programs that it starts, read from their pipes."""

import asyncio
import codecs
import os

from results import stream_lines

CHUNK_BYTES = 65_536
# What a cell wrote just before its end is read first; a child of it may write for ever.
LAST_CHUNKS = 1_024


class Output:
    """One stream of a kernel, read as it comes."""

    def __init__(self, kernel, name, descriptor):
        self.kernel = kernel
        self.name = name
        self.descriptor = descriptor
        self.decoder = codecs.getincrementaldecoder("utf8")("replace")
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self.read)

    def read(self):
        """Reads one part; false when there is none."""
        if self.descriptor is None:
            return False
        try:
            data = os.read(self.descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data == b"":
            self.close()
            return False
        self._pass(self.decoder.decode(data))
        return True

    def _pass(self, text):
        # Between cells, a program in the background writes for nobody.
        if self.kernel.emit is not None and text:
            for line in stream_lines(self.name, text):
                self.kernel.emit(line)

    def drain(self):
        for _ in range(LAST_CHUNKS):
            if not self.read():
                return

    def finish(self):
        self._pass(self.decoder.decode(b"", True))
        self.decoder.reset()

    def close(self):
        if self.descriptor is not None:
            asyncio.get_running_loop().remove_reader(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = None


async def open_writer(descriptor):
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def open_reader(descriptor, limit):
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb", buffering=0))
    return reader
