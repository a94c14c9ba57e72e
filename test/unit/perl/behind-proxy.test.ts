/** The program that shuts another one into a namespace from which only sockets of the service are reached. */

import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Runs a script of bash there; each socket says its name and sends back what it is sent. */
async function run(script: string, listeners: readonly string[]) {
  await using stack = new AsyncDisposableStack();
  const { path: cwd } = stack.use(await makeTempFolder());
  for (const name of listeners.map((one) => one.replace(/^\d+=/, ""))) {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => socket.destroy());
      socket.write(`${name}: `);
      socket.pipe(socket);
    });
    stack.defer(() => void server.close());
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(join(cwd, name), resolve);
    await promise;
  }
  const words = [process.arch, ...listeners, "--", "bash", "--norc", "-c", script];
  const { code, stdout, stderr } = await runPerl("behind-proxy", {
    words,
    cwd,
    env: { NO_PROXY: "*" },
  });
  return { code, stdout: stdout.toString(), stderr };
}

test("the program has the proxy in its environment, and reaches it", async () => {
  const script = `
    [ "$HTTP_PROXY" = "$https_proxy" ] && [ -z "\${NO_PROXY+x}" ] || exit 9
    exec 3<>"/dev/tcp/127.0.0.1/\${HTTP_PROXY##*:}"
    echo hello >&3
    head -n 1 <&3`;
  expect(await run(script, ["0=proxy"])).toEqual({
    code: 0,
    stdout: "proxy: hello\n",
    stderr: "",
  });
});

test("each port of loopback is its own socket, and megabytes pass both ways", async () => {
  const script = `
    exec 3<>/dev/tcp/127.9.9.9/5000
    head -c 5000000 /dev/zero >&3 &
    head -c 5000007 <&3 | wc -c`;
  expect(await run(script, ["0=proxy", "5000=other"])).toEqual({
    code: 0,
    stdout: "5000007\n",
    stderr: "",
  });
});

/** The kernel takes a free port by chance, mostly an odd one: of one among 32 here, unless it is kept off. */
test("the free port of the proxy is none of the others, however many there are", async () => {
  const ports = Array.from({ length: 440 }, (_, index) => `${32_769 + 64 * index}=none`);
  const words = [process.arch, "0=proxy", ...ports, "--", "true"];
  for (let attempt = 0; attempt < 60; attempt += 1) {
    const { code, stderr } = await runPerl("behind-proxy", { words });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  }
});

test("there is no other network, and no other listener", async () => {
  const { stdout } = await run("cat /proc/self/net/dev; exec 3<>/dev/tcp/127.0.0.1/22", [
    "0=proxy",
  ]);
  expect(stdout.match(/^\s*\S+(?=:)/gm)).toEqual(["    lo"]);
  expect(readFileSync("/proc/self/net/dev", "utf8")).toContain(":");
});

test.for([
  ["exit 7", 7],
  ["kill -KILL $$", 137],
] as const)("it ends as the program ends: %s", async ([script, code]) => {
  expect(await run(script, ["0=proxy"])).toEqual({ code, stdout: "", stderr: "" });
});

test("a program that cannot be started is a fault", async () => {
  const { code, stderr } = await runPerl("behind-proxy", {
    words: [process.arch, "0=proxy", "--", "/none"],
  });
  expect({ code, stderr }).toEqual({ code: 2, stderr: "/none: No such file or directory\n" });
});

test("without a listener or a program nothing is started", async () => {
  for (const words of [["--", "true"], ["0=proxy", "--"], ["x"]]) {
    const { code } = await runPerl("behind-proxy", { words: [process.arch, ...words] });
    expect(code).not.toBe(0);
  }
});
