"""The output of a kernel's process and of the programs that it starts, read from their pipes."""

import asyncio
import codecs
import fcntl
import os
import struct
import termios

from results import stream_lines

CHUNK_BYTES = 65_536


class Output:
    """One stream of a kernel, read as it comes."""

    def __init__(self, kernel, name, descriptor):
        self.kernel = kernel
        self.name = name
        self.descriptor = descriptor
        self.decoder = codecs.getincrementaldecoder("utf8")("replace")
        os.set_blocking(descriptor, False)
        self.resume()

    def resume(self):
        if self.descriptor is not None:
            asyncio.get_running_loop().add_reader(self.descriptor, self._read)

    def pause(self):
        """What is not read fills the pipe, and stops whoever writes to it."""
        if self.descriptor is not None:
            asyncio.get_running_loop().remove_reader(self.descriptor)

    def _read(self, size=CHUNK_BYTES):
        """Reads one part, and returns its size."""
        try:
            data = os.read(self.descriptor, size)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data == b"":
            self.close()
        else:
            self._pass(self.decoder.decode(data))
        return len(data)

    def _pass(self, text):
        # Between cells, a program in the background writes for nobody.
        if self.kernel.emit is not None and text:
            for line in stream_lines(self.name, text):
                self.kernel.emit(line)

    def drain(self):
        """Reads what was written until now; a program in the background may write for ever."""
        if self.descriptor is None:
            return
        left = unread_bytes(self.descriptor)
        while left > 0 and self.descriptor is not None:
            size = self._read(min(left, CHUNK_BYTES))
            if size == 0:
                return
            left -= size

    def finish(self):
        self._pass(self.decoder.decode(b"", True))
        self.decoder.reset()

    def close(self):
        if self.descriptor is not None:
            asyncio.get_running_loop().remove_reader(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = None


def unread_bytes(descriptor):
    """How many bytes a pipe has now."""
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return count


async def open_writer(descriptor):
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
