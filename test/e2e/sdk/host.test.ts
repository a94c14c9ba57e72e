/** Servers inside a sandbox, reached from outside by the sandbox's own host name. */

import { request } from "node:http";
import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const DOMAIN = "example.test";

/** The interpreter inside needs most of it, on a machine that has other work. */
const SERVER_START_MS = 10_000;

const service = useSdkServe(["--domain", DOMAIN]);

/** GET / of a host name that leads to the service. */
async function get(host: string): Promise<{ readonly status: number; readonly text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const call = request(service.sandboxUrl, { headers: { host }, agent: false }, (reply) => {
    let text = "";
    reply.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    reply.once("error", reject);
    reply.once("end", () => resolve({ status: reply.statusCode ?? 0, text }));
  });
  call.once("error", reject);
  call.end();
  return promise;
}

describe.each(RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", { ...service.options, domain: DOMAIN });
  });

  afterAll(async () => sandbox.kill());

  test.for([
    ["0.0.0.0", 8001],
    ["::", 8002],
    ["127.0.0.1", 8003],
    ["localhost", 8004],
    ["::1", 8005],
  ] as const)("a server on %s is reachable by the name of its port", async ([address, port]) => {
    await sandbox.files.write("page/index.html", "served");
    const command = await sandbox.commands.run(
      `python3 -m http.server ${port} --bind ${address} --directory page`,
      { background: true },
    );
    const own = new URL(service.sandboxUrl).port;
    expect(sandbox.getHost(port)).toBe(`${port}-${sandbox.sandboxId}.${DOMAIN}:${own}`);
    await expect
      .poll(async () => get(sandbox.getHost(port)), { timeout: SERVER_START_MS, interval: 20 })
      .toEqual({ status: 200, text: "served" });
    await command.kill();
  });

  test("a port on which nothing listens is told as such", async () => {
    const reply = await get(sandbox.getHost(8099));
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      502,
      {
        sandboxId: sandbox.sandboxId,
        message: "The sandbox is running but port is not open",
        port: 8099,
        code: 502,
      },
    ]);
  });

  test("a killed sandbox is not found, by every kind of call", async () => {
    const doomed = await sdk.Sandbox.create("base", {
      ...service.options,
      domain: DOMAIN,
    });
    await doomed.kill();
    const reply = await get(doomed.getHost(8000));
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      502,
      { sandboxId: doomed.sandboxId, message: "The sandbox was not found", code: 502 },
    ]);
    expect(await doomed.isRunning()).toBe(false);
    await expect(doomed.files.read("x")).rejects.toThrow(sdk.TimeoutError);
    await expect(doomed.files.list(".")).rejects.toThrow(sdk.TimeoutError);
    await expect(doomed.commands.run("true")).rejects.toThrow(sdk.SandboxError);
    await expect(sdk.Sandbox.connect(doomed.sandboxId, service.options)).rejects.toThrow(
      sdk.SandboxNotFoundError,
    );
  });

  test("killing a sandbox ends the command in flight with the words of its end", async () => {
    const doomed = await sdk.Sandbox.create("base", service.options);
    const command = await doomed.commands.run("exec sleep 600", { background: true });
    const [outcome] = await Promise.allSettled([command.wait(), doomed.kill()]);
    expect(outcome).toMatchObject({
      status: "rejected",
      reason: expect.any(sdk.TimeoutError),
    });
    expect(String(outcome.status === "rejected" && outcome.reason)).toContain(
      "sandbox was killed or reached its end of life",
    );
  });
});
