/** The ready commands of the official clients, run by a real bash that finds none of their programs. */

import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { withReadyPrograms } from "../../../src/sandboxes/boot/ready-programs.ts";
import { newestSdk } from "../../support/clients/sdk.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const { waitForPort, waitForProcess, waitForURL } = newestSdk;

async function run(
  command: string,
  path = "/nowhere",
): Promise<{ code: number | null; stderr: string }> {
  const args = ["-c", withReadyPrograms(command)];
  const child = spawn("/bin/bash", args, {
    env: { PATH: path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const code = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [stderr] = await Promise.all([text(child.stderr), text(child.stdout)]);
  return { code: await code, stderr };
}

async function listen(server: Server, host?: string) {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    port: address.port,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}

// Without an address node listens on that of IPv6, where the machine has one.
test.for([
  { host: "127.0.0.1", name: "127.0.0.1" },
  { host: undefined, name: "every address" },
])("waitForPort sees a port of $name open and closed", async ({ host }) => {
  const open = await listen(createServer(), host);
  const command = waitForPort(open.port).getCmd();
  expect(await run(command)).toEqual({ code: 0, stderr: "" });
  await open[Symbol.asyncDispose]();
  expect(await run(command)).toEqual({ code: 1, stderr: "" });
});

test("the port of a longer number is another one", async () => {
  await using open = await listen(createServer(), "127.0.0.1");
  const shorter = Math.floor(open.port / 10);
  const listed = `ss -Htuln sport = :${open.port}`;
  expect(await run(`[[ $(${listed}) == *:${shorter}" "* ]]`)).toEqual({ code: 1, stderr: "" });
});

test("waitForProcess sees a program by its name", async () => {
  const { promise: started, resolve } = Promise.withResolvers<void>();
  const child = spawn("/bin/bash", ["-c", "exec -a other sleep 1000"]);
  child.once("spawn", resolve);
  await started;
  try {
    await expect.poll(() => run(waitForProcess("sleep").getCmd())).toMatchObject({ code: 0 });
  } finally {
    child.kill("SIGKILL");
  }
  expect(await run(waitForProcess("no-program-of-this").getCmd())).toMatchObject({ code: 1 });
});

test.for([
  { served: 200, wanted: 200, code: 0 },
  { served: 503, wanted: 200, code: 1 },
  { served: 401, wanted: 401, code: 0 },
])("waitForURL of $wanted where the server answers $served → $code", async (row) => {
  const server = createHttpServer((_, response) => response.writeHead(row.served).end("body"));
  await using open = await listen(server, "127.0.0.1");
  const url = `http://127.0.0.1:${open.port}/a?b=c`;
  const command = waitForURL(url, row.wanted).getCmd().replace("| grep", "| /bin/grep");
  expect(await run(command)).toEqual({ code: row.code, stderr: "" });
});

test.for(["ss -tlnp", "pgrep -f server", "curl -sf http://127.0.0.1:1/"])(
  "%s is refused rather than half understood",
  async (command) => {
    const name = command.split(" ", 1).join("");
    expect(await run(command)).toEqual({ code: 127, stderr: `no ${name} in this template\n` });
  },
);

test("a template that has the program runs its own", async () => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "pgrep"), "#!/bin/sh\nexit 5\n", { mode: 0o755 });
  const { code } = await run("pgrep any", folder.path);
  expect(code).toBe(5);
});
