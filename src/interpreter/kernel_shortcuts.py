"""What ipykernel does for each cell and this server has no use for. Another version runs without."""

import functools


def take_shortcuts():
    flush_what_is_there()
    # Whether a function takes an argument, asked anew for each cell.
    import ipykernel.ipkernel
    import ipykernel.kernelbase

    for module in (ipykernel.ipkernel, ipykernel.kernelbase):
        if hasattr(module, "_accepts_cell_id"):
            module._accepts_cell_id = functools.lru_cache(module._accepts_cell_id)


def flush_what_is_there():
    """A flush wakes another thread and waits for it, six times in each cell, also without any output."""
    from ipykernel.iostream import OutStream

    whole = OutStream.flush

    def flush(stream):
        try:
            is_empty = stream._buffer.tell() == 0
        except (AttributeError, ValueError):
            # Of another version, or closed just now by the thread that sends it.
            is_empty = False
        if not is_empty:
            whole(stream)

    OutStream.flush = flush
