"""What ipykernel does for each cell and this server has no use for. Another version runs without."""

import functools

# IPython splits a cell into tokens several times, which takes seconds for so many lines.
MANY_LINES = 5_000


def take_shortcuts():
    flush_what_is_there()
    leave_python_alone()
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


def leave_python_alone():
    """A long cell that is Python as it stands has no magics, which is all that IPython looks for."""
    from IPython.core.inputtransformer2 import TransformerManager

    whole = TransformerManager.transform_cell

    def transform_cell(manager, cell):
        if cell.count("\n") < MANY_LINES or not is_python(cell):
            return whole(manager, cell)
        return without_blank_ends(cell)

    TransformerManager.transform_cell = transform_cell


def is_python(cell):
    import ast

    try:
        compile(cell, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def without_blank_ends(cell):
    """Without the blank lines around it, of which IPython takes away the first ones too."""
    text = cell.rstrip()
    blank = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, blank) + 1 :] + "\n"
