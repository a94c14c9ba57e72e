/** What becomes of a connection that is open when the rules change. */

import { describe, expect, test } from "vitest";
import { LAB } from "../../support/network/lab.ts";
import { inside, type Field } from "./ground.ts";

const OPENED = `
import http.client, time
to = http.client.HTTPConnection('${LAB.publicHost}', ${LAB.port})
def say(what): open('/tmp/said', 'w').write(what)
def ask():
    to.request('GET', '/'); to.getresponse().read()
`;
const ASKING = `
try:
    while True: ask(); say('open'); time.sleep(0.05)
except OSError as fault: say(type(fault).__name__)
`;
const WAITING = `
to.connect(); to.sock.send(b'GET / HTTP/1.1\\r\\n'); say('open')
try: say('read ' + str(len(to.sock.recv(1))))
except OSError as fault: say(type(fault).__name__)
`;

const DENIED = { what: "its address is denied", rules: { denyOut: [`${LAB.publicHost}/32`] } };
const CLOSED = { what: "internet access is taken away", rules: { allowInternetAccess: false } };

/** @param endsSilent whether a connection without a packet ends too; a kernel of its own lets it wait. */
export function describeOpenConnections(ground: () => Field, endsSilent: boolean): void {
  const cases = [
    { who: "asks", script: ASKING, ...DENIED },
    { who: "asks", script: ASKING, ...CLOSED },
    ...(endsSilent ? [{ who: "waits", script: WAITING, ...CLOSED }] : []),
  ];
  describe("open connections", () => {
    test.for(cases)("a program that $who has an error when $what", async ({ script, rules }) => {
      await using changing = await ground().create({});
      await changing.files.write("/tmp/program.py", OPENED + script);
      await changing.commands.run("python3 /tmp/program.py", { background: true, timeoutMs: 0 });
      const said = async () => inside(changing, "cat /tmp/said");
      await expect.poll(said).toBe("open");
      await changing.updateNetwork(rules);
      await expect.poll(said).toMatch(/^(?:ConnectionResetError|ConnectionAbortedError)$/);
    });
  });
}
