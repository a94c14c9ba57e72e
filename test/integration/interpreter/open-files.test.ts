/** A kernel that cannot start because the server may open no further file leaves none open. */

import { execFile } from "node:child_process";
import { userInfo } from "node:os";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const INTERPRETER = resolve(import.meta.dirname, "../../../src/interpreter");

/** Starts kernels with so many files left, and prints how many more are open after each. */
const PROGRAM = `
import asyncio, os, resource, sys
sys.path.insert(0, sys.argv[1])
from kernel import KernelFailed, Owner
from line_kernel import BashKernel

def open_files():
    return len(os.listdir("/proc/self/fd"))

async def attempt(left):
    _, hard = soft_and_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kernel = BashKernel(Owner(sys.argv[2]), "/")
    before = open_files()
    # The list of open files has been one of them.
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + left, hard))
    try:
        await kernel.start()
    except (KernelFailed, OSError):
        pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, soft_and_hard)
    await kernel.stop()
    return open_files() - before

async def attempts():
    await asyncio.create_subprocess_exec("true")
    print([await attempt(left) for left in range(16)])

asyncio.run(attempts())
`;

test("of its pipes all are there or none", async () => {
  const args = ["-B", "-c", PROGRAM, INTERPRETER, userInfo().username];
  const { stdout } = await promisify(execFile)("python3", args);
  expect(JSON.parse(stdout)).toEqual(Array(16).fill(0));
});
