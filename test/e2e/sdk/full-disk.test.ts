/** A disk without room: refused with the client's own class, and nothing else breaks. */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const service = useSdkServe(["--disk-mb", "64"]);

/** A full disk may have some kilobytes again after a write that failed: a few more writes have room. */
const MAX_MORE = 50;

async function untilRefused(write: (name: string) => Promise<unknown>): Promise<unknown> {
  for (let count = 0; count < MAX_MORE; count += 1) {
    try {
      await write(`room-${count}`);
    } catch (error) {
      return error;
    }
  }
  return "never refused";
}

describe.each(RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
  });

  afterAll(async () => sandbox.kill());

  test("no room for content: a class of its own, and room again after a removal", async () => {
    await sandbox.files.write("here-before", "some text that is here");
    // The file system holds blocks back until it knows where they go; then they can be taken too.
    const fill = `cat /dev/zero > fill; n=0
while sync -f . && head -c 2048 /dev/zero > fill.$n; do n=$((n+1)); done 2>/dev/null; true`;
    await sandbox.commands.run(fill, { user: "root" });
    const large = "x".repeat(100_000);
    const refused = await untilRefused((name) =>
      sandbox.files.write(`${name}-large`, large, { useOctetStream: true }),
    );
    expect(refused).toBeInstanceOf(sdk.NotEnoughSpaceError);
    expect(String(refused)).toContain("not enough disk space available");
    const headers = { "content-type": "application/octet-stream" };
    const answer = await untilRefused(async (name) => {
      const url = await sandbox.uploadUrl(`${name}-little`);
      const reply = await fetch(url, { method: "POST", headers, body: "x".repeat(2048) });
      if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`);
    });
    const message = "attempted to write 2048 bytes: not enough disk space available";
    expect(String(answer)).toBe(`Error: 507 ${JSON.stringify({ code: 507, message })}`);
    await sandbox.files.write("here-before", "other text");
    expect(await sandbox.files.read("here-before")).toBe("other text");
    await sandbox.commands.run("rm -f fill fill.* room-*", { user: "root" });
    await sandbox.files.write("too-much", "fits now");
  });

  test("no room for another file: told as such", async () => {
    const script = `import os
os.makedirs("/home/user/many", exist_ok=True)
try:
    for number in range(1_000_000):
        os.close(os.open(f"/home/user/many/{number}", os.O_CREAT))
except OSError as error:
    print(error.errno)`;
    await sandbox.files.write("many.py", script);
    const { stdout } = await sandbox.commands.run("python3 many.py");
    expect(stdout).toBe("28\n");
    const upload = sandbox.files.write("one-more", "x");
    await expect(upload).rejects.toThrow(sdk.NotEnoughSpaceError);
    await expect(upload).rejects.toThrow("not enough inodes available");
  });
});
