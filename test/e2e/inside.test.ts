/** What programs of a sandbox see of the sandbox: a boot id of their own, and the daemon. */

import { readFile } from "node:fs/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { useSdkServe } from "../support/clients/sdk.ts";
import { hasSetId, isGvisor } from "../support/level.ts";

const service = useSdkServe(["--pool", "1"]);

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

async function run(sandbox: Sandbox, command: string): Promise<string> {
  return (await sandbox.commands.run(command)).stdout.trim();
}

// A runtime that shows it has set-id programs too.
test.skipIf(!hasSetId)("each start has a boot id of its own, which memory keeps", async () => {
  const sandbox = await Sandbox.create("base", service.options);
  const other = await Sandbox.create("base", { ...service.options, allowInternetAccess: false });
  const read = (one: Sandbox) => run(one, `cat ${BOOT_ID}`);
  const first = await read(sandbox);
  expect(first).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(await run(sandbox, "echo $E2B_BOOT_ID")).toBe(first);
  const ids = new Set([first, await read(other), (await readFile(BOOT_ID, "utf8")).trim()]);
  expect(ids.size).toBe(3);
  await sandbox.pause();
  await sandbox.connect();
  expect(await read(sandbox)).toBe(first);
  await sandbox.pause({ keepMemory: false });
  await sandbox.connect();
  const second = await read(sandbox);
  expect(second).not.toBe(first);
  expect(await run(sandbox, "echo $E2B_BOOT_ID")).toBe(second);
  // Nobody inside changes it, and its mount shows no path of the host.
  expect(await run(sandbox, `sudo sh -c 'echo x > ${BOOT_ID}' 2>&1 || true`)).toContain("ead-only");
  expect(await run(sandbox, `sudo umount ${BOOT_ID} 2>&1 || echo kept`)).toContain("kept");
  const mount = await run(sandbox, `grep boot_id /proc/self/mountinfo | cut -d' ' -f4,5,6`);
  // The mounts of gVisor have no source, and not all options show.
  const wanted = isGvisor
    ? `/ ${BOOT_ID} ro,nosuid`
    : `/boot_id ${BOOT_ID} ro,nosuid,nodev,noexec,relatime`;
  expect(mount).toBe(wanted);
  await Promise.all([sandbox.kill(), other.kill()]);
});

test("a new sandbox has nothing in its temporary folders", async () => {
  const sandbox = await Sandbox.create("base", service.options);
  const found = await sandbox.commands.run("find /tmp /var/tmp -mindepth 1", { user: "root" });
  expect(found.stdout).toBe("");
  await sandbox.kill();
});

test("programs inside see no disk of another sandbox, whose file has its id", async () => {
  const [sandbox, other] = [
    await Sandbox.create("base", service.options),
    await Sandbox.create("base", service.options),
  ];
  const found = await run(
    sandbox,
    `sudo grep -rIs ${other.sandboxId} /sys/devices /sys/block || true`,
  );
  expect(found).toBe("");
  expect(await run(sandbox, "ls /sys/block /sys/class/block 2>/dev/null | grep loop || true")).toBe(
    "",
  );
  await Promise.all([sandbox.kill(), other.kill()]);
});

test("programs inside reach the daemon: variables and health openly, all else by the token", async () => {
  const sandbox = await Sandbox.create("base", { ...service.options, envs: { GREETING: "hello" } });
  const url = "http://127.0.0.1:49983";
  const status = (words: string) => run(sandbox, `curl -s -o /dev/null -w '%{http_code}' ${words}`);
  expect(JSON.parse(await run(sandbox, `curl -s ${url}/envs`))).toMatchObject({
    GREETING: "hello",
    E2B_SANDBOX_ID: sandbox.sandboxId,
  });
  expect(await status(`${url}/health`)).toBe("204");
  const guarded = ["/metrics", "/files?path=/etc/passwd", "/envs/", "//envs", "/init", "/logs"];
  for (const path of guarded) expect(await status(`${url}${path}`)).toBe("401");
  expect(await status(`-X POST ${url}/envs`)).toBe("401");
  const rpc =
    "-X POST -H 'content-type: application/json' -H 'connect-protocol-version: 1' -d '{}'";
  expect(await status(`${rpc} ${url}/process.Process/List`)).toBe("401");
  const token = String(Reflect.get(sandbox, "envdAccessToken"));
  const header = `-H 'X-Access-Token: ${token}'`;
  expect(await status(`${header} ${url}/metrics`)).toBe("200");
  expect(await status(`${rpc} ${header} ${url}/process.Process/List`)).toBe("200");
  await sandbox.kill();
});
