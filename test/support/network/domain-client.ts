/**
 * A program that knows a key and a domain only, as a user of the public client: it prints what it
 * saw as one line of JSON. Runs with loopback-names.ts before it.
 */

import { Sandbox } from "e2b";

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
