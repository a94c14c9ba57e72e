/** The name of the daemon's directory: another for whatever its compiled code depends on. */

import { expect, test } from "vitest";
import type { WarmUp } from "../../../src/engine/daemon/compile-cache.ts";
import { locateDaemon } from "../../../src/engine/daemon/daemon.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

const request = (body: string | Uint8Array): WarmUp => {
  const rest = { socket: "public", method: "POST", path: "/call" } as const;
  return (folder) => [{ ...rest, headers: { folder }, body }];
};

async function directoryOf(warmUp: WarmUp): Promise<string> {
  return locateDaemon("/home", {
    bundle: import.meta.filename,
    starter: import.meta.filename,
    node: process.execPath,
    perlDirectory: PERL_DIRECTORY,
    warmUp,
  });
}

test("the same parts have the same directory", async () => {
  expect(await directoryOf(request("a"))).toBe(await directoryOf(request("a")));
});

test("other requests of the warm-up run have another directory", async () => {
  const directories = [[], [request("a")], [request("b")], [request(Buffer.from("a"))]].map(
    async ([warmUp = () => []]) => directoryOf(warmUp),
  );
  expect(new Set(await Promise.all(directories)).size).toBe(directories.length);
});
