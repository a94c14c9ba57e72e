/**
 * The program in a router's network namespace: it answers the names of sandboxes whose rules name
 * hosts, and passes on what they send there. It has no rights and no files; its orders come by
 * standard input, and with the end of that it ends.
 */

import { createInterface } from "node:readline";
import { errorText } from "../common/errors.ts";
import { catchUncaught } from "../common/uncaught.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { parseControlMessage, parseSettings } from "./control-messages.ts";
import { startHttpProxy } from "./http-proxy.ts";
import { startNameServer } from "./name-server.ts";
import { createPolicies } from "./policies.ts";
import { createResolver } from "./resolver.ts";
import { startTlsProxy } from "./tls-proxy.ts";

const EXIT_BROKEN = 70;

const now = () => performance.now();
const policies = createPolicies();
let isReady = false;
// One sandbox or one server outside must not cut the names of all others.
catchUncaught({
  fail: () => false,
  report: (error) => void process.stderr.write(`${quoteUntrusted(errorText(error))}\n`),
  giveUp: () => process.exit(EXIT_BROKEN),
});

try {
  for await (const line of createInterface({ input: process.stdin })) {
    if (isReady) {
      const { sender, domains } = parseControlMessage(line);
      policies.replace(sender, domains);
    } else {
      await start(line);
      isReady = true;
    }
    process.stdout.write("ok\n");
  }
  process.exit(0);
} catch {
  // The engine sees the end, and starts this program anew.
  process.exit(EXIT_BROKEN);
}

async function start(line: string): Promise<void> {
  const { address, namePort, webPort, tlsPort, resolvers, never } = parseSettings(line);
  const resolver = createResolver({ servers: resolvers, never, now });
  await startNameServer({ address, port: namePort, policies, resolver, now });
  await startHttpProxy({ address, port: webPort, policies, resolver });
  await startTlsProxy({ address, port: tlsPort, policies, resolver });
}
