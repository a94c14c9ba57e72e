"""The process of a Python kernel: ipykernel with forms for charts and data frames.

Arguments: the connection file, the process that this one ends with, and the descriptor of the
connection to the server, which says "ready" once cells can come. Variables come with each cell.
"""

import os
import sys

# What data work imports anyway; imported before a caller waits for it.
EARLY_MODULES = ("numpy", "pandas", "matplotlib.pyplot")
# A caller may have modules of these names.
OWN_MODULES = ("cell_channel", "charts", "figures", "forms", "frames", "kernel_shortcuts")


def main():
    connection_file, parent, descriptor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if os.getppid() != parent:
        raise SystemExit("the server is gone")
    folder = os.path.dirname(os.path.abspath(__file__))
    # The caller's modules are found in the working directory, not beside this file.
    import cell_channel
    import figures
    import forms
    import kernel_shortcuts

    for name in OWN_MODULES:
        sys.modules.pop(name, None)
    sys.path[:] = [""] + [path for path in sys.path if path != folder]
    sys.argv[1:] = []
    kernel_shortcuts.take_shortcuts()
    channel = cell_channel.CellChannel(descriptor)
    start(connection_file, channel, forms.register, figures.prepare_figures)


def start(connection_file, channel, register, prepare_figures):
    from ipykernel.kernelapp import IPKernelApp
    from IPython.core import page
    from tornado.ioloop import IOLoop

    # The server reads the output of programs itself, and knows its end.
    app = IPKernelApp.instance(connection_file=connection_file, capture_fd_output=False)
    options = ["--HistoryManager.enabled=False", "--colors=Linux", "--log-level=CRITICAL"]
    # The server waits for the last output of a cell, so the kernel need not wait after each.
    app.initialize([*options, "--Kernel._execute_sleep=0"])
    channel.replace(app.session, app.iopub_thread)
    register(app.shell.display_formatter)
    # What `name?` shows is a result: clients have no pager.
    app.shell.set_hook("show_in_pager", page.as_hook(page.display_page), 0)
    for name in EARLY_MODULES:
        try:
            __import__(name)
        except ImportError:
            # A template of somebody's own may lack it.
            continue
    prepare_figures()
    channel.start(IOLoop.current().asyncio_loop, cell_runner(app.kernel, channel))
    channel.tell("ready")
    app.start()


def cell_runner(kernel, channel):
    """Runs the cell of a request with its variables. Those of one call are taken back after it."""
    execute = kernel.shell_handlers["execute_request"]

    async def run(request):
        set_variables(request["sandbox_variables"])
        saved = set_variables(request["call_variables"])
        message = kernel.session.msg("execute_request", request["content"])
        kernel.set_parent([], message)
        channel.cell = message["header"]["msg_id"]
        kernel.pre_handler_hook()
        try:
            try:
                await execute(None, [], message)
            finally:
                kernel.post_handler_hook()
        except KeyboardInterrupt:
            # It came before or after the cell; from here on another one is ignored.
            kernel.post_handler_hook()
        finally:
            set_variables(saved)
        if kernel.shell.exit_now:
            # By `exit()`; its loop stops a moment after the cell.
            channel.tell("leaving")

    return run


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
