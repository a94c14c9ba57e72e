/** Certificates that another program renews in their files while a service shows them. */

import { generateKeyPairSync } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openCertificateFiles } from "../../src/commands/serve/certificate-files.ts";
import { openAuthority } from "../../src/commands/serve/local-authority.ts";
import { issueServerCertificate, type KeyedCertificate } from "../../src/listener/certificates.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const DOMAIN = "sandbox.localhost";
const MINUTE_MS = 60_000;

async function startFiles() {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const authority = await openAuthority({ home: folder.path, domain: DOMAIN }, Date.now());
  const issue = (): KeyedCertificate => {
    const { certificate, key } = issueServerCertificate(authority, DOMAIN, Date.now());
    return { certificate, key };
  };
  const paths = { certificate: join(folder.path, "c.pem"), key: join(folder.path, "k.pem") };
  const put = async ({ certificate, key }: Partial<KeyedCertificate>) => {
    if (certificate !== undefined) await writeFile(paths.certificate, certificate);
    if (key !== undefined) await writeFile(paths.key, key);
  };
  const first = issue();
  await put(first);
  const clock = createFakeClock(Date.now());
  const end = new AbortController();
  stack.defer(() => end.abort());
  const lines: string[] = [];
  const log = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(line) });
  const identity = await openCertificateFiles(paths, { log, signal: end.signal, clock });
  const shown: KeyedCertificate[] = [];
  identity.onRenewal?.((next) => shown.push(next));
  const owned = stack.move();
  return {
    paths,
    issue,
    put,
    first,
    identity,
    shown,
    lines,
    /** Lets as many checks run. */
    async check(count: number) {
      for (let made = 0; made < count; made += 1) {
        await expect.poll(() => clock.isAwaited(MINUTE_MS)).toBe(true);
        await clock.advance(MINUTE_MS);
      }
      await expect.poll(() => clock.isAwaited(MINUTE_MS)).toBe(true);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("a renewed pair is shown, once and for all of its parts", async () => {
  await using files = await startFiles();
  expect(files.identity).toMatchObject(files.first);
  await files.check(2);
  const next = files.issue();
  await files.put({ certificate: next.certificate });
  await files.check(1);
  await files.put({ key: next.key });
  await files.check(1);
  expect(files.shown).toEqual([]);
  await files.check(3);
  expect(files.shown).toEqual([next]);
  expect(files.lines).toEqual([expect.stringContaining("certificate renewed")]);
});

test.for([
  { what: "an empty key", change: (): Partial<KeyedCertificate> => ({ key: "" }) },
  { what: "no certificate", change: () => ({ certificate: "half a certi" }) },
  {
    what: "a new certificate alone",
    change: (next: KeyedCertificate) => ({ certificate: next.certificate }),
  },
  {
    what: "a key of another kind",
    change: () => {
      const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
      return { key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
    },
  },
])("$what is not shown but logged once, and a whole pair after it is shown", async ({ change }) => {
  await using files = await startFiles();
  const next = files.issue();
  await files.put(change(next));
  await files.check(4);
  expect(files.shown).toEqual([]);
  expect(files.lines).toEqual([expect.stringContaining("certificate not renewed")]);
  await files.put(next);
  await files.check(2);
  expect(files.shown).toEqual([next]);
});

test("a fault that ended is logged again when it is back", async () => {
  await using files = await startFiles();
  for (const count of [1, 2]) {
    await rm(files.paths.key);
    await files.check(2);
    await files.put(files.first);
    await files.check(2);
    const line = expect.stringContaining("certificate not renewed");
    expect(files.lines).toEqual(Array(count).fill(line));
  }
});

test("files that are gone for a while change nothing", async () => {
  await using files = await startFiles();
  await rm(files.paths.key);
  await files.check(2);
  await files.put(files.first);
  await files.check(2);
  expect(files.shown).toEqual([]);
  expect(files.lines).toEqual([expect.stringContaining("certificate not renewed")]);
});
