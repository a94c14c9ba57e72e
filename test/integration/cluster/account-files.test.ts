/** Token and certificates of a service account, which the kubelet replaces while a front runs. */

import { rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findCluster } from "../../../src/cluster/api/address.ts";
import { createClusterApi } from "../../../src/cluster/api/api.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { makeCertificate, type TestCertificate } from "../../support/network/certificate.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

async function find(directory: string, url = "https://127.0.0.1") {
  return findCluster({ url, namespace: "test", accountDirectory: directory, ageMs: 0 });
}

test("a token that is replaced counts, and one that cannot be read any more still does", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "token");
  const address = await find(folder.path);
  const readToken = async () => address.readToken();
  expect(await readToken()).toBeUndefined();
  await writeFile(path, "first\n");
  expect(await readToken()).toBe("first");
  await writeFile(path, "second\n");
  expect(await readToken()).toBe("second");
  await writeFile(path, "");
  expect(await readToken()).toBe("second");
  await rm(path);
  expect(await readToken()).toBe("second");
});

function toServer({ identity: { certificate: cert, key } }: TestCertificate): Server {
  return createServer({ cert, key }, (_request, response) => void response.end("{}"));
}

test("a server whose authority was replaced is trusted by the file that was replaced", async () => {
  await using folder = await makeTempFolder();
  await using before = await makeCertificate(["before.test"]);
  await using after = await makeCertificate(["after.test"]);
  const path = join(folder.path, "ca.crt");
  await writeFile(path, before.authority);
  const server = toServer(before);
  const port = await listenOnLoopback(server);
  using api = createClusterApi(await find(folder.path, `https://127.0.0.1:${port}`));
  const read = async () => api.read("/version");
  expect(await read()).toEqual({});
  const { certificate: cert, key } = after.identity;
  server.setSecureContext({ cert, key });
  server.closeAllConnections();
  await expect(read()).rejects.toMatchObject({ code: "unavailable" });
  await writeFile(path, after.authority);
  expect(await read()).toEqual({});
  server.close();
  server.closeAllConnections();
});
