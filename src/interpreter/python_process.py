"""The process of a Python kernel: ipykernel with forms for charts and data frames.

Arguments: the connection file, the process that this one ends with, and a descriptor on which it
says "ready" once its sockets are there. Variables come in the metadata of a cell's request.
"""

import os
import sys

# Messages kept for a server that is busy, beyond which ipykernel drops them.
OUTPUT_MESSAGES = 200_000
# What data work imports anyway; imported before a caller waits for it.
EARLY_MODULES = ("numpy", "pandas", "matplotlib.pyplot")


def main():
    connection_file, parent, ready = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if os.getppid() != parent:
        raise SystemExit("the server is gone")
    folder = os.path.dirname(os.path.abspath(__file__))
    # The caller's modules are found in the working directory, not beside this file.
    import forms
    import kernel_shortcuts

    # A caller may have modules of these names.
    for name in ("charts", "forms", "kernel", "kernel_shortcuts", "output", "results"):
        sys.modules.pop(name, None)
    sys.path[:] = [""] + [path for path in sys.path if path != folder]
    sys.argv[1:] = []
    os.set_inheritable(ready, False)
    start(connection_file, ready, forms.register, kernel_shortcuts.take_shortcuts)


def start(connection_file, ready, register, take_shortcuts):
    from ipykernel.kernelapp import IPKernelApp

    # The server reads the output of programs itself, and knows its end.
    app = IPKernelApp.instance(connection_file=connection_file, capture_fd_output=False)
    options = ["--HistoryManager.enabled=False", "--colors=Linux", "--log-level=CRITICAL"]
    # The server waits for the last output of a cell, so the kernel need not wait after each.
    app.initialize([*options, "--Kernel._execute_sleep=0"])
    take_shortcuts(app.kernel)
    handlers = app.kernel.shell_handlers
    handlers["execute_request"] = with_variables(handlers["execute_request"])
    app.iopub_thread.socket.sndhwm = OUTPUT_MESSAGES
    register(app.shell.display_formatter)
    for name in EARLY_MODULES:
        try:
            __import__(name)
        except ImportError:
            # A template of somebody's own may lack it.
            continue
    os.write(ready, b"ready\n")
    os.close(ready)
    app.start()


def with_variables(execute):
    """Runs the cell of a request with its variables. Those of one call are taken back after it."""

    async def execute_request(stream, identity, request):
        metadata = request.get("metadata") or {}
        set_variables(metadata.get("sandbox_variables") or {})
        saved = set_variables(metadata.get("call_variables") or {})
        try:
            await execute(stream, identity, request)
        finally:
            set_variables(saved)

    return execute_request


def set_variables(variables):
    """Sets variables, or removes those without a value. Returns what they were before."""
    saved = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        try:
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        except (TypeError, ValueError):
            # Those of the sandbox may have names that no process can be given.
            continue
    return saved


if __name__ == "__main__":
    main()
