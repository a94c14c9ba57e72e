/** The link between two namespaces is made wherever their files lie. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeLink } from "../../../src/engine/network/make-link.ts";
import { listLinks } from "../../../src/engine/network/namespace.ts";
import { senderLinks } from "../../../src/engine/network/router-links.ts";
import { makeNetwork } from "../../support/router-parts.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a home may have a space and a hash in its path", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "a #b");
  await mkdir(home);
  await using router = await makeNetwork(join(home, "router"));
  await using network = await makeNetwork(join(home, "network"));
  await makeLink(router.path, senderLinks(1, network.path), network.path);
  expect(await listLinks(network.path)).toContain("eth0");
});
