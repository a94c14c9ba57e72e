/** Links of an earlier process, where containers have loopback alone by now. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import {
  EVERYTHING,
  makeNetwork,
  startConnectable,
  within,
} from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** A container that an earlier process connected, and one that never was. */
async function openLeft() {
  await using parts = new AsyncDisposableStack();
  const folder = parts.use(await makeTempFolder());
  const namespace = parts.use(await makeNetwork(join(folder.path, "outside")));
  const program = "/nonexistent";
  const found = { program, perlDirectory: PERL_DIRECTORY, resolvers: [], changes: 0 };
  const outside = { ...namespace, ...found };
  const owner = join(folder.path, "s");
  await mkdir(owner);
  const connected = parts.use(await startConnectable(join(owner, "i1")));
  const never = parts.use(await startConnectable(join(owner, "i2")));
  const earlier = createRouters(PERL_DIRECTORY);
  await earlier.setEgress({ ...connected, outside }, EVERYTHING);
  parts.defer(async () => earlier.disconnect(connected.directory));
  const open = parts.move();
  const linksOf = async ({ record }: typeof connected) =>
    within(`/proc/${record.pid}/ns/net`, "ip -oneline link show type veth");
  return {
    connected,
    never,
    hasLink: async (one: typeof connected) => (await linksOf(one)) !== "",
    tables: async () => within(namespace.path, "nft list tables"),
    [Symbol.asyncDispose]: async () => open.disposeAsync(),
  };
}

test.for([{ egress: "none" as const }, { egress: EVERYTHING }])(
  "a link of an earlier process goes with the next rules: $egress",
  async ({ egress }) => {
    await using left = await openLeft();
    await createRouters(PERL_DIRECTORY).setEgress(
      { ...left.connected, outside: undefined },
      egress,
    );
    expect({ hasLink: await left.hasLink(left.connected), tables: await left.tables() }).toEqual({
      hasLink: false,
      tables: "",
    });
  },
);

test("a container that never had a link takes none of another one away", async () => {
  await using left = await openLeft();
  await createRouters(PERL_DIRECTORY).setEgress({ ...left.never, outside: undefined }, EVERYTHING);
  expect(await left.hasLink(left.connected)).toBe(true);
});

const ROUTER = join(import.meta.dirname, "../../../src/engine/network/router.ts");
/** Takes a container's link away, twice, and prints what is logged. */
const DISCONNECT = `
const [perlDirectory, directory] = process.argv.slice(1);
const { createRouters } = await import(${JSON.stringify(ROUTER)});
const routers = createRouters(perlDirectory, { warn: ({ outcome }) => console.log(outcome) });
await routers.disconnect(directory);
await routers.disconnect(directory);
`;

test("a process without CAP_NET_ADMIN leaves a router of an earlier one, and tells it once", async () => {
  await using left = await openLeft();
  const weak = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"] as const;
  const node = [process.execPath, "--input-type=module", "--eval", DISCONNECT];
  const said = await runProgram([...weak, ...node, PERL_DIRECTORY, left.connected.directory]);
  expect({ said, hasLink: await left.hasLink(left.connected) }).toEqual({
    said: "left\n",
    hasLink: true,
  });
});
