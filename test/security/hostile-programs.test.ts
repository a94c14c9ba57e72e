/** The replies of a hostile program in a real sandbox, at each listener of a service in its own process. */

import { chmod } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Agent, request } from "undici";
import { describe, expect, test } from "vitest";
import type { Sandbox } from "../../src/client/envd.ts";
import { createService } from "../../src/client/service.ts";
import { openSocketPath } from "../../src/common/socket-path.ts";
import { sandboxSchema } from "../../src/wire/control.ts";
import {
  openListeners,
  type TestListener,
  type CallOutcome,
} from "../support/hostile/every-listener.ts";
import { eachHostileReply } from "../support/hostile/hostile-replies.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { tellCells } from "../support/run/cells.ts";
import { attackPlaces, IS_WHOLE_RUN, type AttackPlace } from "../support/runtimes.ts";
import { startServe } from "../support/serve.ts";

const DOMAIN = "sandbox.localhost";
const PORT = 8000;
/** Every how manieth reply is tried, besides the status that no listener can carry. */
const STRIDE = IS_WHOLE_RUN ? 1 : 8;
const SERVER = `
import base64, json, socket, threading
replies = json.load(open("/tmp/replies.json"))
server = socket.create_server(("127.0.0.1", ${PORT}), backlog=128)
def serve(connection):
    with connection:
        path = connection.recv(65536).split(b" ", 2)[1]
        connection.sendall(base64.b64decode(replies[int(path[1:])]))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(65536)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
`;
const { signal } = new AbortController();
const STATUS_600 = "HTTP/1.1 600 X\r\ncontent-length: 2\r\n\r\nok";

function isRight(outcome: CallOutcome, isUpgrade: boolean): boolean {
  if (typeof outcome === "string") return false;
  const { status } = outcome;
  return status === 101 ? isUpgrade : status >= 200 && status <= 599 && status !== 500;
}

/** A service with TLS on this place, and a sandbox in it whose program answers by number. */
async function startGround(place: AttackPlace, replies: readonly string[]) {
  await using stack = new AsyncDisposableStack();
  const certificate = stack.use(await makeCertificate([DOMAIN, `*.${DOMAIN}`]));
  const { certificatePath, keyPath } = certificate;
  // The service may be that of an ordinary user.
  await chmod(dirname(keyPath), 0o755);
  await chmod(keyPath, 0o644);
  const account = place.isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
  const flags = ["--runtime", place.runtime, "--pool", "0", "--on-exit", "kill"];
  const tls = ["--tls-cert", certificatePath, "--tls-key", keyPath];
  const serve = stack.use(await startServe([...flags, ...tls], { account }));
  const door = stack.use(await openSocketPath(join(serve.home, "instances/serve/door.sock")));
  const socketPath = door.path;
  const { apiKey } = serve;
  const client = stack.use(createService({ url: "http://localhost", socketPath, apiKey }));
  const dispatcher = new Agent({ connect: { socketPath } });
  stack.defer(() => dispatcher.destroy());
  const create = async (): Promise<Sandbox> => {
    const made = await request("http://localhost/v2/sandboxes", {
      dispatcher,
      method: "POST",
      headers: { "x-api-key": apiKey, "content-type": "application/json" },
      body: JSON.stringify({ templateID: "base" }),
    });
    const { sandboxID } = sandboxSchema.parse(await made.body.json());
    return client.attach(sandboxID, signal);
  };
  const sandbox = await create();
  const encoded = replies.map((text) => Buffer.from(text, "latin1").toString("base64"));
  await sandbox.files.write("/tmp/replies.json", Buffer.from(JSON.stringify(encoded)), { signal });
  const command = { cmd: "python3", args: ["-c", SERVER], env: {}, hasStdin: false };
  await sandbox.process.start(command, { signal }).next();
  const tlsPort = Number(new URL(serve.url).port);
  const { authority } = certificate;
  const opened = stack.use(
    openListeners({ socketPath, plainPort: undefined, tlsPort, authority, host: DOMAIN }),
  );
  const owned = stack.move();
  return {
    serve,
    sandbox,
    create,
    listeners: opened.listeners,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe.each(attackPlaces())("on $name", (place) => {
  test("E41 a program that answers what no listener can carry costs its own requests alone", async (context) => {
    const every = eachHostileReply().map(({ pieces }) => Buffer.concat(pieces).toString("latin1"));
    const replies = [STATUS_600, ...every.filter((_, index) => index % STRIDE === 0)];
    await using ground = await startGround(place, replies);
    const headers = { host: `${PORT}-${ground.sandbox.id}.${DOMAIN}` };
    const wrong: unknown[] = [];
    let count = 0;
    async function attack(listener: TestListener, number: number): Promise<void> {
      for (const isUpgrade of listener.hasUpgrades ? [false, true] : [false]) {
        const outcome = await listener.call({
          method: "GET",
          path: `/${number}`,
          headers,
          isUpgrade,
        });
        count += 1;
        if (!isRight(outcome, isUpgrade)) {
          wrong.push({ listener: listener.name, reply: replies[number], outcome });
        }
      }
    }
    for (const number of replies.keys()) {
      for (const listener of ground.listeners) await attack(listener, number);
    }
    tellCells(context, count);
    expect(wrong).toEqual([]);
    // The same process serves the next ones.
    expect(ground.serve.program.child.exitCode).toBeNull();
    expect(ground.serve.program.stderr()).not.toContain("uncaught error");
    const stat = await (await ground.create()).filesystem.stat("/tmp", { signal });
    expect(stat.name).toBe("tmp");
  });
});
