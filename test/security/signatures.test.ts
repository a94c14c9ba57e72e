/** E53: guessing the signatures of file URLs is slowed for each address, at every door. */

import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import { signFile } from "../../src/wire/signature.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { sendRaw } from "../support/raw-call.ts";
import { startTestService, type TestService } from "../support/service.ts";

const DOMAIN = "sandbox.localhost";
const TRIES = 80;
const BURST = 60;

let certificate: TestCertificate;
let clock: FakeClock;
let service: TestService;
let sandbox: SandboxBody;
let right: string;
let session: ClientHttp2Session;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
  clock = createFakeClock(Date.now());
  const host = "127.0.0.1";
  const tcp = [
    { host, port: 0 },
    { host, port: 0, tls: certificate.identity },
  ];
  service = await startTestService({ tcp, clock });
  sandbox = await service.create({ timeout: 86_000 });
  const ca = certificate.authority;
  session = connectHttp2(`https://127.0.0.1:${port(1)}`, { ca, servername: DOMAIN });
  const path = join(service.home, "work", "signed.txt");
  await writeFile(path, "contents");
  const file = { path, operation: "read" as const, username: "" };
  const signature = signFile(file, String(sandbox.envdAccessToken));
  right = `/files?${new URLSearchParams({ path, signature }).toString()}`;
});
afterAll(async () => {
  session.close();
  await service[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

interface Answer {
  readonly status: number;
  readonly retryAfter: number;
}

type Ask = (path: string) => Promise<Answer>;

const port = (index: number) => Number(service.embedded.ports[index]);
const addressed = () => ({ "e2b-sandbox-id": sandbox.sandboxID, "e2b-sandbox-port": "49983" });

async function askTcp(path: string, headers: Record<string, string>): Promise<Answer> {
  const reply = await request(`http://127.0.0.1:${port(0)}${path}`, { headers });
  await reply.body.dump();
  return { status: reply.statusCode, retryAfter: Number(reply.headers["retry-after"] ?? 0) };
}

async function askHttp2(path: string): Promise<Answer> {
  const authority = `49983-${sandbox.sandboxID}.${DOMAIN}`;
  const stream = session.request({ ":authority": authority, ":path": path });
  const [reply] = await once(stream, "response");
  stream.resume();
  await once(stream, "close");
  return { status: Number(reply[":status"]), retryAfter: Number(reply["retry-after"] ?? 0) };
}

const DOORS: Readonly<Record<string, Ask>> = {
  "without an address": async (path) => askTcp(path, {}),
  "to a sandbox that is named": async (path) => askTcp(path, addressed()),
  "over HTTP/2": askHttp2,
};

const wrong = (index: number) => `/files?path=/x&signature=v1_${index}`;

/** A minute and more later the address is as it was at first. */
async function forget(): Promise<void> {
  await clock.advance(BURST * 1000);
}

test.for(Object.keys(DOORS))(
  "E53 wrong signatures %s become 429, a right one is served",
  async (name) => {
    const ask = DOORS[name] ?? askHttp2;
    const answers: Answer[] = [];
    for (let index = 0; index < TRIES; index += 1) {
      answers.push(await ask(wrong(index)));
    }
    const statuses = answers.map(({ status }) => status);
    expect(statuses.slice(0, BURST)).toEqual(Array.from({ length: BURST }, () => 401));
    const late = answers.slice(BURST);
    const slowed = late.filter(({ status }) => status === 429);
    expect(slowed.length).toBeGreaterThan(late.length / 2);
    expect(slowed.every(({ retryAfter }) => retryAfter > 0 && retryAfter <= 64)).toBe(true);
    const first = await ask(right);
    await clock.advance(first.retryAfter * 1000);
    expect((await ask(right)).status).toBe(200);
    await forget();
  },
);

test("E53 neither the private socket nor a token is counted, nor a signature that is right", async () => {
  for (let index = 0; index < TRIES; index += 1) {
    const headers = { ...addressed(), "x-access-token": String(sandbox.envdAccessToken) };
    const [local, token, good] = await Promise.all([
      service.enter(sandbox, { path: wrong(index) }),
      askTcp(wrong(index), headers),
      askTcp(right, {}),
    ]);
    expect([local.status, token.status, good.status]).toEqual([401, 404, 200]);
  }
  expect((await askTcp(wrong(0), {})).status).toBe(401);
  await forget();
});

test.for(["/files/../files", "/files/", "/files/.", "/files;", "/files%2F", "/Files"])(
  "E53 %s is no way around the count: no signature is looked at",
  async (path) => {
    const line = `GET ${path}?path=/x&signature=v1_x HTTP/1.1`;
    const bytes = [line, "host: localhost", "connection: close", "", ""].join("\r\n");
    expect(await sendRaw({ port: port(0) }, bytes)).not.toContain("invalid signature");
  },
);
