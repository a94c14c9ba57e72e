"""The process of a Python kernel: ipykernel with forms for charts and data frames.

Arguments: the connection file, the process that this one ends with, and a descriptor on which it
says "ready" once its sockets are there.
"""

import builtins
import json
import os
import sys

from kernel import die_with_parent

# Messages kept for a server that is busy, beyond which ipykernel drops them.
OUTPUT_MESSAGES = 200_000
# What data work imports anyway; imported before a caller waits for it.
EARLY_MODULES = ("numpy", "pandas", "matplotlib.pyplot")


def main():
    connection_file, parent, ready = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    die_with_parent()
    if os.getppid() != parent:
        raise SystemExit("the server is gone")
    folder = os.path.dirname(os.path.abspath(__file__))
    # The caller's modules are found in the working directory, not beside this file.
    import forms

    # A caller may have modules of these names.
    for name in ("charts", "forms", "kernel", "output", "results"):
        sys.modules.pop(name, None)
    sys.path[:] = [""] + [path for path in sys.path if path != folder]
    sys.argv[1:] = []
    builtins.__sandbox_variables__ = set_variables
    os.set_inheritable(ready, False)
    start(connection_file, forms.register, ready)


def start(connection_file, register, ready):
    from ipykernel.kernelapp import IPKernelApp


    # The server reads the output of programs itself, and knows its end.
    app = IPKernelApp.instance(connection_file=connection_file, capture_fd_output=False)
    app.initialize(["--HistoryManager.enabled=False", "--colors=Linux", "--log-level=CRITICAL"])
    app.iopub_thread.socket.sndhwm = OUTPUT_MESSAGES
    register(app.shell.display_formatter)
    for name in EARLY_MODULES:
        try:
            __import__(name)
        except ImportError:
            # A template of somebody's own may lack it.
            continue
    app.shell.user_ns.pop("__sandbox_variables__", None)
    os.write(ready, b"ready\n")
    os.close(ready)
    app.start()


_saved = []


def set_variables(text=None, is_kept=False):
    """Sets the variables of one call, and without an argument takes them back."""
    while _saved:
        for name, value in _saved.pop().items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    if text is None:
        return
    variables = json.loads(text)
    if not is_kept:
        _saved.append({name: os.environ.get(name) for name in variables})
    os.environ.update(variables)


if __name__ == "__main__":
    main()
