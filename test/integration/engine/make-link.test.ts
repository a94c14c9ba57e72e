/** The link between two namespaces is made wherever their files lie. */

import { execFileSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeLink } from "../../../src/engine/network/make-link.ts";
import { listLinks } from "../../../src/engine/network/namespace.ts";
import { senderLinks } from "../../../src/engine/network/router-rules.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a home may have a space and a hash in its path", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "a #b");
  await mkdir(home);
  await using stack = new AsyncDisposableStack();
  const makeNamespace = async (name: string) => {
    const path = join(home, name);
    await writeFile(path, "");
    execFileSync("unshare", [`--net=${path}`, "true"]);
    stack.defer(() => void execFileSync("umount", [path]));
    return path;
  };
  const router = await makeNamespace("router");
  const network = await makeNamespace("network");
  await makeLink(router, senderLinks(1, network), network);
  expect(await listLinks(network)).toContain("eth0");
});
