"""The published Python client against a service, unmodified: every method of its sandbox, sync and
async. Argument: the URL of the service. The key is in E2B_API_KEY."""

import asyncio
import os
import sys
import time

from e2b_code_interpreter import AsyncSandbox, Sandbox

URL = sys.argv[1]
OPTIONS = {"api_url": URL, "sandbox_url": URL, "timeout": 300}
LIMIT = {"timeout": 120, "request_timeout": 60}


def test_sync():
    sandbox = Sandbox.create(envs={"OF_SANDBOX": "one"}, **OPTIONS)
    try:
        seen = []
        execution = sandbox.run_code(
            "import sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay(7)\nx = 5\nx",
            on_stdout=lambda message: seen.append(("out", message.line)),
            on_stderr=lambda message: seen.append(("err", message.line)),
            on_result=lambda result: seen.append(("result", result.text)),
            **LIMIT,
        )
        assert sorted(seen) == sorted([("out", "a\n"), ("err", "b\n"), ("result", "7"), ("result", "5")]), seen
        assert execution.text == "5"
        assert execution.execution_count == 1, execution.execution_count
        errors = []
        execution = sandbox.run_code("1/0", on_error=errors.append, **LIMIT)
        assert execution.error.name == "ZeroDivisionError" and errors[0].name == execution.error.name
        for language, code in (("javascript", "3 + 4"), ("js", "7"), ("typescript", "7 as number"), ("ts", "7")):
            assert sandbox.run_code(code, language=language, **LIMIT).text == "7"
        assert sandbox.run_code("echo 7", language="bash", **LIMIT).logs.stdout == ["7\n"]
        shown = sandbox.run_code("len?", **LIMIT).results
        assert ["number of items" in result.text for result in shown] == [True]
        assert sandbox.run_code("import os; os.environ['OF_SANDBOX']", **LIMIT).text == "one"
        assert sandbox.run_code("os.environ['A']", envs={"A": "b"}, **LIMIT).text == "b"
        context = sandbox.create_code_context(cwd="/tmp", language="python", request_timeout=60)
        assert sandbox.run_code("import os; y = 1; os.getcwd()", context=context, **LIMIT).text == "/tmp"
        assert context.id in [known.id for known in sandbox.list_code_contexts()]
        sandbox.restart_code_context(context)
        assert sandbox.run_code("y", context=context, **LIMIT).error.name == "NameError"
        sandbox.remove_code_context(context)
        try:
            sandbox.run_code("1", context=context, **LIMIT)
            raise AssertionError("a removed context is there")
        except Exception as error:
            assert "not found" in str(error), error
        started = time.monotonic()
        try:
            sandbox.run_code("keep = 5\nwhile True: pass", timeout=2)
            raise AssertionError("no timeout")
        except Exception as error:
            assert "time" in str(error).lower(), error
        assert time.monotonic() - started < 30
        assert sandbox.run_code("keep", **LIMIT).text == "5"
        frame = sandbox.run_code("import pandas as pd; pd.DataFrame({'a': [1, 2]})", **LIMIT).results[0]
        assert frame.data == {"a": [1, 2]} and "html" in list(frame.formats())
        chart = sandbox.run_code(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='L')\nplt.title('T')\nplt.show()", **LIMIT
        ).results[0].chart
        assert chart.title == "T" and chart.type.value == "line", chart
        assert chart.elements[0].points == [(1, 3), (2, 4)], chart.elements[0].points
        for code, kind in (
            ("plt.bar(['a', 'b'], [1, 2])", "bar"),
            ("plt.scatter([1, 2], [3, 4])", "scatter"),
            ("plt.pie([1, 3], labels=['p', 'q'])", "pie"),
            ("plt.boxplot([[1, 2, 3, 4, 20]])", "box_and_whisker"),
        ):
            found = sandbox.run_code(f"{code}\nplt.show()", **LIMIT).results[0].chart
            assert found.type.value == kind, (code, found)
            assert found.elements, code
    finally:
        sandbox.kill()


async def test_async():
    sandbox = await AsyncSandbox.create(**OPTIONS)
    try:
        contexts = await asyncio.gather(*(sandbox.create_code_context() for _ in range(4)))
        runs = (
            sandbox.run_code(f"v = {index}\nimport time; time.sleep(.05)\nv", context=contexts[index % 4], **LIMIT)
            for index in range(20)
        )
        assert [run.text for run in await asyncio.gather(*runs)] == [str(index) for index in range(20)]
        assert len(await sandbox.list_code_contexts()) >= 4
        await sandbox.restart_code_context(contexts[0])
        await sandbox.remove_code_context(contexts[0].id)
        lines = []
        await sandbox.run_code("console.log('a')", language="js", on_stdout=lambda message: lines.append(message.line), **LIMIT)
        assert lines == ["a\n"]
    finally:
        await sandbox.kill()


for name, run in (("sync", test_sync), ("async", lambda: asyncio.run(test_async()))):
    started_at = time.monotonic()
    run()
    print(f"ok   python client, {name} ({round((time.monotonic() - started_at) * 1000)} ms)")

# The client's native HTTP library can abort the process while the interpreter shuts down, after
# everything has passed.
sys.stdout.flush()
os._exit(0)
