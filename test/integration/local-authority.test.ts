/** The authority of a home: its files, its renewal, and what clients accept of what it signs. */

import assert from "node:assert";
import { once } from "node:events";
import { chmod, readFile, rm, stat, writeFile } from "node:fs/promises";
import { get } from "node:https";
import { join } from "node:path";
import { connect, createServer, TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { openAuthority, openServerIdentity } from "../../src/commands/serve/local-authority.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { issueServerCertificate, type KeyedCertificate } from "../../src/listener/certificates.ts";
import { createTlsServer, type TlsIdentity } from "../../src/listener/tls.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const DOMAIN = "sandbox.localhost";
const YEAR_MS = 365 * 86_400_000;
const MINUTE_MS = 60_000;

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o777;
}

test("the key is the owner's alone, and what is there is used again", async () => {
  await using home = await makeTempFolder();
  const place = { home: home.path, domain: `${DOMAIN}:8443` };
  const first = await openAuthority(place, Date.now());
  expect(first.path).toBe(join(home.path, `ca-${DOMAIN}.pem`));
  expect(await readFile(first.path, "utf8")).toBe(first.certificate);
  const keyPath = join(home.path, `ca-${DOMAIN}.key`);
  expect([await modeOf(first.path), await modeOf(keyPath)]).toEqual([0o644, 0o600]);
  await chmod(keyPath, 0o666);
  expect(await openAuthority(place, Date.now())).toEqual(first);
  expect(await modeOf(keyPath)).toBe(0o600);
});

test("several at once make one authority", async () => {
  await using home = await makeTempFolder();
  const place = { home: home.path, domain: DOMAIN };
  const [first, ...others] = await Promise.all(
    Array.from({ length: 5 }, () => openAuthority(place, Date.now())),
  );
  for (const other of others) expect(other).toEqual(first);
});

test("it is renewed a year before its end, with the same key; a lost file is made anew", async () => {
  await using home = await makeTempFolder();
  const place = { home: home.path, domain: DOMAIN };
  const first = await openAuthority(place, Date.now());
  expect(await openAuthority(place, Date.now() + 3.9 * YEAR_MS)).toEqual(first);
  const renewed = await openAuthority(place, Date.now() + 4.1 * YEAR_MS);
  expect(renewed.certificate).not.toBe(first.certificate);
  expect(renewed.key).toBe(first.key);
  await writeFile(first.path, "half a certi");
  expect((await openAuthority(place, Date.now())).key).toBe(first.key);
  await rm(join(home.path, `ca-${DOMAIN}.key`));
  expect((await openAuthority(place, Date.now())).key).not.toBe(first.key);
});

test("one of the future is renewed, with the same key", async () => {
  await using home = await makeTempFolder();
  const place = { home: home.path, domain: DOMAIN };
  const future = await openAuthority(place, Date.now() + YEAR_MS);
  const renewed = await openAuthority(place, Date.now());
  expect(renewed.key).toBe(future.key);
  const own = issueServerCertificate(renewed, DOMAIN, Date.now());
  expect(await judge(own, renewed.certificate, DOMAIN)).toBe("accepted");
});

test.for([
  { name: "a year back", fromMs: YEAR_MS },
  { name: "a year on", fromMs: -YEAR_MS },
])("a clock that was set $name gives a running server another certificate", async ({ fromMs }) => {
  await using home = await makeTempFolder();
  const place = { home: home.path, domain: DOMAIN };
  const clock = createFakeClock(Date.now() + fromMs);
  const end = new AbortController();
  const terms = { log: createSilentLog(), signal: end.signal, clock };
  const { identity } = await openServerIdentity(place, terms);
  const shown: KeyedCertificate[] = [];
  identity.onRenewal?.((next) => shown.push(next));
  await clock.advance(MINUTE_MS);
  expect(shown).toEqual([]);
  clock.set(Date.now());
  await clock.advance(MINUTE_MS);
  await expect.poll(() => shown.length).toBe(1);
  const [next] = shown;
  assert(next !== undefined);
  const { certificate } = await openAuthority(place, Date.now());
  expect(await judge(next, certificate, DOMAIN)).toBe("accepted");
  end.abort();
});

test("a key that is none is not replaced, but named", async () => {
  await using home = await makeTempFolder();
  const place = { home: home.path, domain: DOMAIN };
  const { path } = await openAuthority(place, Date.now());
  const keyPath = path.replace(/pem$/, "key");
  await writeFile(keyPath, "");
  await expect(openAuthority(place, Date.now())).rejects.toMatchObject({
    code: "failed_precondition",
    message: `${keyPath} holds no private key`,
  });
});

test.for(["localhost", "127.0.0.1", "a..b", "-a.test", "a.test.", "a.b/../c"])(
  "no authority for %s",
  async (domain) => {
    await using home = await makeTempFolder();
    await expect(openAuthority({ home: home.path, domain }, Date.now())).rejects.toMatchObject({
      code: "failed_precondition",
    });
  },
);

/** What a client that trusts the authority says of a server with this certificate. */
async function judge(identity: KeyedCertificate, ca: string, servername: string): Promise<string> {
  const server = createServer({ cert: identity.certificate, key: identity.key });
  server.on("secureConnection", (socket: TLSSocket) => socket.on("error", () => undefined).end());
  const port = await listenOnLoopback(server);
  const socket = connect({ host: "127.0.0.1", port, ca, servername });
  try {
    await once(socket, "secureConnect");
    return "accepted";
  } catch (error) {
    return error instanceof Error ? error.message : "failed";
  } finally {
    socket.destroy();
    server.close();
  }
}

test("clients accept the domain, and of no other domain what the authority signs", async () => {
  await using home = await makeTempFolder();
  const authority = await openAuthority({ home: home.path, domain: DOMAIN }, Date.now());
  const ca = authority.certificate;
  const own = issueServerCertificate(authority, DOMAIN, Date.now());
  expect(await judge(own, ca, `api.${DOMAIN}`)).toBe("accepted");
  expect(await judge(own, ca, `8080-iabc.${DOMAIN}`)).toBe("accepted");
  expect(await judge(own, ca, "evil.test")).toContain("does not match certificate");
  const foreign = issueServerCertificate(authority, "evil.test", Date.now());
  expect(await judge(foreign, ca, "evil.test")).toBe("permitted subtree violation");
  const similar = issueServerCertificate(authority, `evil${DOMAIN}`, Date.now());
  expect(await judge(similar, ca, `evil${DOMAIN}`)).toBe("permitted subtree violation");
});

test("a server shows a renewed certificate to connections that come after", async () => {
  await using home = await makeTempFolder();
  const authority = await openAuthority({ home: home.path, domain: DOMAIN }, Date.now());
  let renew: ((next: TlsIdentity) => void) | undefined;
  const identity: TlsIdentity = {
    ...issueServerCertificate(authority, DOMAIN, Date.now()),
    onRenewal(use) {
      renew = use;
    },
  };
  const { server } = createTlsServer({
    http: { maxHeaderSize: 16_384, headersTimeout: 10_000, keepAliveTimeout: 10_000 },
    identity,
    log: createSilentLog(),
  });
  server.on("request", (_request, response) => response.end("ok"));
  const port = await listenOnLoopback(server);
  const ask = async () => {
    const request = get({
      host: "127.0.0.1",
      port,
      ca: authority.certificate,
      servername: DOMAIN,
      agent: false,
    });
    const [reply] = await once(request, "response");
    reply.resume();
    assert(reply.socket instanceof TLSSocket);
    return reply.socket.getPeerCertificate().serialNumber;
  };
  const before = await ask();
  expect(await ask()).toBe(before);
  renew?.(issueServerCertificate(authority, DOMAIN, Date.now()));
  expect(await ask()).not.toBe(before);
  server.close();
});
