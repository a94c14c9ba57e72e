/**
 * What uploads say of their files: kept as attributes of the files themselves. Where the sandbox's
 * kernel keeps none, an upload succeeds all the same.
 */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keepsAttributes, RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const service = useSdkServe();

describe.each(RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;
  let isKept: boolean;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
    isKept = await keepsAttributes(sandbox);
  });

  afterAll(async () => sandbox.kill());

  async function metadataOf(path: string) {
    return (await sandbox.files.getInfo(path)).metadata;
  }

  const ifKept = <T>(metadata: T) => (isKept ? metadata : undefined);

  test.for([false, true])("it comes back with the file (raw upload: %s)", async (isRaw) => {
    const metadata = { author: "somebody", "content-kind": "a draft; v=2" };
    const options = { metadata, useOctetStream: isRaw };
    const path = `kept-${isRaw}.txt`;
    const written = await sandbox.files.write(path, "x", options);
    expect(written.metadata).toEqual(ifKept(metadata));
    expect(await metadataOf(path)).toEqual(ifKept(metadata));
    const listed = await sandbox.files.list(".");
    expect(listed.find((entry) => entry.name === path)?.metadata).toEqual(ifKept(metadata));
    const moved = await sandbox.files.rename(path, `${path}.moved`);
    expect(moved.metadata).toEqual(ifKept(metadata));
  });

  test("several files of one call share it, and keys become lower case", async () => {
    const files = ["a", "b"].map((name) => ({ path: `shared/${name}`, data: name }));
    await sandbox.files.write(files, { metadata: { MixedCase: "yes" } });
    expect(await metadataOf("shared/a")).toEqual(ifKept({ mixedcase: "yes" }));
    expect(await metadataOf("shared/b")).toEqual(ifKept({ mixedcase: "yes" }));
  });

  test("each upload replaces all of it; one without any clears it", async () => {
    await sandbox.files.write("replaced", "1", { metadata: { a: "1", b: "1" } });
    await sandbox.files.write("replaced", "2", { metadata: { c: "3" } });
    expect(await metadataOf("replaced")).toEqual(ifKept({ c: "3" }));
    await sandbox.files.write("replaced", "3");
    expect(await metadataOf("replaced")).toBeUndefined();
  });

  test("an attribute that a program sets is seen, and the other way round", async () => {
    await sandbox.files.write("both", "x", { metadata: { wire: "outside" } });
    const script = `import os
os.setxattr("both", "user.e2b.inside", b"python")
print(os.getxattr("both", "user.e2b.wire").decode())`;
    await sandbox.files.write("set.py", script);
    const { stdout, stderr } = await sandbox.commands.run("python3 set.py || true");
    expect(stdout).toBe(isKept ? "outside\n" : "");
    expect(stderr).toMatch(isKept ? /^$/ : /Operation not supported/);
    expect(await metadataOf("both")).toEqual(ifKept({ wire: "outside", inside: "python" }));
  });

  test.for([
    ["an empty key", { "": "x" }],
    ["a key with a space", { "a b": "x" }],
    ["a key beyond ASCII", { ä: "x" }],
    ["a value with a line break", { a: "x\ny" }],
    ["a value beyond ASCII", { a: "ä" }],
    ["a key that is too long", { ["k".repeat(247)]: "x" }],
    ["more than fits", { a: "x".repeat(4096) }],
  ] as const)("%s is refused, and no file is made", async ([, metadata]) => {
    const upload = sandbox.files.write("never", "x", { metadata: { ...metadata } });
    await expect(upload).rejects.toThrow(sdk.InvalidArgumentError);
    expect(await sandbox.files.exists("never")).toBe(false);
  });
});
