/** Registries that ask for a token, and registries that remove no images. */

import { createServer, type IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { createRegistry } from "../../../src/cluster/snapshots/registry.ts";
import { sendFront } from "../../support/cluster/pod-front.ts";
import { BASIC, startSnapshotWorld } from "../../support/cluster/snapshot-world.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** A registry whose tokens are given for a login; it notes what was sent to it. */
async function startTokenRegistry() {
  const seen: string[] = [];
  const answer = (request: IncomingMessage, host: string) => {
    const { authorization = "none" } = request.headers;
    const url = new URL(request.url ?? "", `http://${host}`);
    seen.push(`${request.method} ${url.pathname} ${authorization}`);
    if (url.pathname === "/token") {
      const scope = url.searchParams.get("scope");
      const isKnown = authorization === BASIC.authorization;
      const body = JSON.stringify({
        token: `token-of-${scope}-${url.searchParams.get("service")}`,
      });
      return isKnown ? { status: 200, body } : { status: 401, body: "" };
    }
    if (authorization === "Bearer token-of-repository:team/images:pull,push,delete-tests") {
      return { status: 200, body: "{}" };
    }
    const challenge = `Bearer realm="http://${host}/token",service="tests"`;
    return { status: 401, body: "", challenge };
  };
  const server = createServer((request, response) => {
    const { status, body, challenge } = { challenge: "", ...answer(request, host) };
    response.writeHead(status, challenge === "" ? {} : { "www-authenticate": challenge });
    response.end(body);
  });
  const host = `127.0.0.1:${await listenOnLoopback(server)}`;
  const end = async () => {
    server.close();
    server.closeAllConnections();
  };
  return { origin: `http://${host}`, seen, [Symbol.asyncDispose]: end };
}

const CALL = { method: "GET", path: "manifests/one" } as const;

test("a token is asked for with the login, for the repository alone, and used from then on", async () => {
  await using server = await startTokenRegistry();
  const credentials = { username: "tester", password: "secret" };
  const place = { origin: server.origin, repository: "team/images", credentials };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  expect([(await registry.send(CALL)).status, (await registry.send(CALL)).status]).toEqual([
    200, 200,
  ]);
  const bearer = "Bearer token-of-repository:team/images:pull,push,delete-tests";
  expect(server.seen).toEqual([
    "GET /v2/team/images/manifests/one none",
    `GET /token ${BASIC.authorization}`,
    `GET /v2/team/images/manifests/one ${bearer}`,
    `GET /v2/team/images/manifests/one ${bearer}`,
  ]);
});

test("a wrong login for a token is unavailable, and its password is in no message", async () => {
  await using server = await startTokenRegistry();
  const credentials = { username: "tester", password: "wrong-word" };
  const place = { origin: server.origin, repository: "team/images", credentials };
  const registry = createRegistry(place, AbortSignal.timeout(20_000));
  const fault: unknown = await registry.send(CALL).catch((error: unknown) => error);
  expect(fault).toMatchObject({ code: "unavailable" });
  expect(String(fault)).not.toContain("wrong-word");
});

test("a registry that refuses DELETE keeps the image; the snapshot is gone for clients", async () => {
  await using place = await startSnapshotWorld({ canDelete: false });
  const send = async (call: `${string} ${string}`, body?: object) =>
    sendFront(place.url, call, body);
  const created = await send("POST /sandboxes", { templateID: "base" });
  const path = `/sandboxes/${created.body.sandboxID}/snapshots`;
  expect((await send(`POST ${path}`, { name: "stays" })).status).toBe(201);
  const [record = ""] = [...place.world.api.objects.keys()].filter((name) =>
    name.startsWith("configmaps/snapshot-"),
  );
  expect((await send("DELETE /templates/stays")).status).toBe(204);
  expect(place.world.api.objects.has(record)).toBe(false);
  expect((await send("POST /sandboxes", { templateID: "stays" })).status).toBe(404);
  const image = `${place.snapshots}/manifests/${record.replace("configmaps/", "")}`;
  const accept = "application/vnd.oci.image.manifest.v1+json";
  expect((await fetch(image, { headers: { ...BASIC, accept } })).status).toBe(200);
});
