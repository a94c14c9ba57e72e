/** The daemon of a real sandbox, reached through its service by the same calls as one alone. */

import { Sandbox } from "e2b";
import { openRpcSandbox } from "../clients/rpc-sandbox.ts";
import type { TestDaemon } from "../daemon/envd.ts";
import { openOrdinaryUser } from "../ordinary-user.ts";
import type { AttackPlace } from "../runtimes.ts";
import { startServe } from "../serve.ts";

export interface GatewayDaemon extends AsyncDisposable {
  readonly files: TestDaemon["files"];
  /** Address of the service, and what leads through it to the daemon, as root. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly sandbox: Sandbox;
  /** What a command of root inside prints. */
  run(command: string): Promise<string>;
}

/** As the SDKs name a user. */
const AS_ROOT = { authorization: `Basic ${Buffer.from("root:").toString("base64")}` };

/** Starts a service on this runtime with one sandbox. */
export async function openGatewayDaemon(place: AttackPlace): Promise<GatewayDaemon> {
  await using stack = new AsyncDisposableStack();
  const account = place.isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
  const serve = stack.use(
    await startServe(["--runtime", place.runtime, "--pool", "0"], { account }),
  );
  const made = stack.use(await openRpcSandbox(serve));
  const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  const sandbox = await Sandbox.connect(made.sandboxId, options);
  const owned = stack.move();
  return {
    files: made.clients({ useBinaryFormat: false, headers: AS_ROOT }).files,
    url: serve.url,
    headers: made.headers,
    sandbox,
    run: async (command) => (await sandbox.commands.run(command, { user: "root" })).stdout,
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}
