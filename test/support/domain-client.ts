/**
 * A program that knows a key and a domain only, as a user of the public client: it prints what it
 * saw as one line of JSON. Every name resolves to this machine.
 */

import dns from "node:dns";
import { Sandbox } from "e2b";

const LOOPBACK = { address: "127.0.0.1", family: 4 };

type Done = (error: null, address: unknown, family?: number) => void;

Object.assign(dns, {
  lookup(_name: string, options: { readonly all?: boolean }, done: Done) {
    if (options.all === true) done(null, [LOOPBACK]);
    else done(null, LOOPBACK.address, LOOPBACK.family);
  },
});

const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
const { stdout } = await sandbox.commands.run("echo over TLS");
await sandbox.files.write("tls.txt", "written");
const url = await sandbox.downloadUrl("tls.txt");
const download = await fetch(url);
const seen = {
  stdout,
  isRunning: await sandbox.isRunning(),
  isListed: (await Sandbox.list().nextItems()).some(
    ({ sandboxId }) => sandboxId === sandbox.sandboxId,
  ),
  downloaded: await download.text(),
  scheme: new URL(url).protocol,
  killed: await sandbox.kill(),
};
process.stdout.write(`${JSON.stringify(seen)}\n`);
