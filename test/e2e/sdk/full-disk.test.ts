/** A disk without room: refused with the client's own class, and nothing else breaks. */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const service = useSdkServe(["--disk-mb", "64"]);

describe.each(RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
  });

  afterAll(async () => sandbox.kill());

  test("no room for content: a class of its own, and room again after a removal", async () => {
    await sandbox.files.write("here-before", "some text that is here");
    // The file system holds blocks back until it knows where they go; then they can be taken too. One
    // write without room is no proof: others may have held blocks at that moment.
    const fill = `cat /dev/zero > fill; n=0; late=0
while sync -f . && [ $late -lt 3 ]; do
if head -c 2048 /dev/zero > fill.$n; then n=$((n+1)); late=0; else late=$((late+1)); fi
done 2>/dev/null; df --output=avail . | tail -n 1`;
    const { stdout } = await sandbox.commands.run(fill, { user: "root" });
    // Kibibytes: each write above has two.
    expect(Number(stdout)).toBeLessThan(2);
    const upload = sandbox.files.write("too-much", "x".repeat(100_000), { useOctetStream: true });
    await expect(upload).rejects.toThrow(sdk.NotEnoughSpaceError);
    await expect(upload).rejects.toThrow("not enough disk space available");
    const url = await sandbox.uploadUrl("little");
    const headers = { "content-type": "application/octet-stream" };
    const reply = await fetch(url, { method: "POST", headers, body: "x".repeat(2048) });
    expect([reply.status, await reply.json()]).toEqual([
      507,
      {
        code: 507,
        message: "attempted to write 2048 bytes: not enough disk space available",
      },
    ]);
    await sandbox.files.write("here-before", "other text");
    expect(await sandbox.files.read("here-before")).toBe("other text");
    await sandbox.commands.run("rm fill fill.*", { user: "root" });
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
