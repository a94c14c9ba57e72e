/** A service that quotes the keys of a request: no error that is shown or logged has them. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startRecorder } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

const KEY = "secret/key+of-a-team";
const TOKEN = "secret/token+of-a-sandbox";
const { signal } = new AbortController();

/** A service of another maker, whose every RPC is answered with these bytes. */
async function startQuoting(type: string, reply: Buffer | string, status = 200) {
  await using stack = new AsyncDisposableStack();
  const recorder = stack.use(
    await startRecorder(({ url }, response) => {
      const isDetail = url === "/sandboxes/i1";
      response.writeHead(isDetail ? 200 : status, {
        "content-type": isDetail ? "application/json" : type,
      });
      response.end(
        isDetail ? JSON.stringify({ ...SANDBOX_DETAIL, envdAccessToken: TOKEN }) : reply,
      );
    }),
  );
  const { url } = recorder;
  const service = stack.use(createService({ url, sandboxUrl: url, apiKey: KEY }));
  const sandbox = await service.attach("i1", signal);
  const owned = stack.move();
  return { service, sandbox, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Everything that an error and its causes say. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const hint = "hint" in error ? String(error.hint) : "";
  return `${error.message} ${hint} ${wordsOf(error.cause)}`;
}

async function failureOf(work: Promise<unknown>): Promise<string> {
  return work.then(() => "it succeeded", wordsOf);
}

const STREAM = "application/connect+json";
const ENDED = envelope(`{"error":{"code":"permission_denied","message":"bad ${TOKEN}"}}`, {
  flags: 2,
});
const UNREADABLE = envelope(`{"event":{"start":{"pid":"bad ${TOKEN}"}}}`);

test.for([
  { name: "the end of a stream", reply: ENDED },
  { name: "a message that cannot be read", reply: UNREADABLE },
])("a token in $name does not come to light", async ({ reply }) => {
  await using world = await startQuoting(STREAM, reply);
  const { process } = world.sandbox;
  const command = { cmd: "true", args: [], env: {}, hasStdin: false };
  const words = await failureOf(process.start(command, { signal }).next());
  expect(words).toContain("bad [redacted]");
  expect(words).not.toContain(TOKEN);
});

test("a token in the end of an input does not come to light", async () => {
  await using world = await startQuoting(STREAM, ENDED);
  const words = await failureOf(world.sandbox.process.sendInput(1, [Buffer.from("a")], signal));
  expect(words).toContain("bad [redacted]");
  expect(words).not.toContain(TOKEN);
});

/** As some encoders write them, and as any reader takes them. */
const ESCAPED = KEY.replaceAll("/", String.raw`\/`).replaceAll("+", String.raw`\u002b`);

test("a key that is written with escapes does not come to light", async () => {
  const body = `{"code":401,"message":"bad ${ESCAPED}"}`;
  await using world = await startQuoting("application/json", body, 401);
  const words = await failureOf(world.service.control.list({}, signal));
  expect(words).toContain("bad [redacted]");
  expect(words).not.toContain(KEY);
});
