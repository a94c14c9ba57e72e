/** The content of volumes, as the public client's class of that name offers it, beside sandboxes. */

import { describe, expect, test } from "vitest";
import { isOverTls, RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const service = useSdkServe(["--pool", "0"]);

describe.each(RELEASES)("e2b $release", ({ release, sdk }) => {
  test("a volume is filled from outside, read and changed in a sandbox, and read again", async () => {
    const name = `volume-${release.replaceAll(".", "-")}`;
    const volume = await sdk.Volume.create(name, service.options);
    // Over TLS the client finds the address by the volume's own domain.
    const way = isOverTls ? {} : { apiUrl: service.apiUrl };
    expect(await volume.exists("/in/a.txt", way)).toBe(false);
    await volume.makeDir("/in", { ...way, mode: 0o755 });
    const written = await volume.writeFile("/in/a.txt", "from outside", way);
    expect(written).toMatchObject({ path: "/in/a.txt", type: "file", size: 12, uid: 1000 });
    const sandbox = await sdk.Sandbox.create("base", {
      ...service.options,
      volumeMounts: { "/data": name },
    });
    try {
      const script = "cat /data/in/a.txt; printf inside > /data/in/b; ln -s /etc/passwd /data/link";
      expect((await sandbox.commands.run(script)).stdout).toBe("from outside");
      expect(await volume.readFile("/in/b", way)).toBe("inside");
      const bytes = await volume.readFile("in/b", { ...way, format: "bytes" });
      expect(Buffer.from(bytes).toString()).toBe("inside");
      const listed = await volume.list("/", { ...way, depth: 2 });
      const paths = listed.map(({ path }) => path);
      expect(paths).toEqual(["/in", "/in/a.txt", "/in/b", "/link"]);
      await expect(volume.readFile("/link", way)).rejects.toThrow(sdk.VolumePathNotFoundError);
      const changed = await volume.updateMetadata("/in/b", { mode: 0o600, uid: 0, gid: 0 }, way);
      expect(changed).toMatchObject({ mode: 0o600, uid: 0, gid: 0 });
      const seen = await sandbox.commands.run("stat -c '%a %u' /data/in/b");
      expect(seen.stdout.trim()).toBe("600 0");
      await volume.remove("/in", way);
      expect((await sandbox.commands.run("ls /data")).stdout.trim()).toBe("link");
    } finally {
      await sandbox.kill();
    }
    expect(await sdk.Volume.destroy(volume.volumeId, service.options)).toBe(true);
  });
});
