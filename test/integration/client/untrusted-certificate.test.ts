/** A service whose certificate is not accepted: the reason is told, and no log of the service has it. */

import { createServer as createPlainServer } from "node:http";
import { createServer } from "node:https";
import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { openAuthority } from "../../../src/commands/serve/local-authority.ts";
import { issueServerCertificate } from "../../../src/listener/certificates.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { closeServer, listenOnLoopback } from "../../support/loopback.ts";
import { answerJson, startRecorder } from "../../support/network/recorder.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const { signal } = new AbortController();

/** A server with TLS of an authority that nobody trusts. */
async function startUntrusted() {
  await using stack = new AsyncDisposableStack();
  const home = stack.use(await makeTempFolder());
  const authority = await openAuthority({ home: home.path, domain: "box.example" }, Date.now());
  const { certificate, key } = issueServerCertificate(authority, "box.example", Date.now());
  const server = createServer({ cert: certificate, key }, (_, response) => response.end());
  const port = await listenOnLoopback(server);
  stack.defer(() => closeServer(server));
  const owned = stack.move();
  return {
    url: `https://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const REFUSED = {
  code: "failed_precondition",
  message: expect.stringMatching(/TLS with 127\.0\.0\.1: "unable to verify the first certificate/),
  hint: expect.stringMatching(/NODE_EXTRA_CA_CERTS.* tell the user/),
};

test("a control API with a certificate of an unknown authority", async () => {
  await using untrusted = await startUntrusted();
  await using service = createService({ url: untrusted.url, apiKey: "k" });
  await expect(service.control.list({}, signal)).rejects.toMatchObject(REFUSED);
  const creating = service.control.create({ templateID: "base" }, signal);
  await expect(creating).rejects.toMatchObject(REFUSED);
});

test("a daemon with a certificate of an unknown authority", async () => {
  await using untrusted = await startUntrusted();
  await using recorder = await startRecorder((_, response) =>
    answerJson(response, 200, { body: SANDBOX_DETAIL }),
  );
  const address = { url: recorder.url, sandboxUrl: untrusted.url };
  await using service = createService({ ...address, apiKey: "k" });
  const { sandboxID } = SANDBOX_DETAIL;
  const sandbox = await service.attach(sandboxID, signal);
  await expect(sandbox.filesystem.stat("/a", { signal })).rejects.toMatchObject(REFUSED);
  await expect(sandbox.files.read("/a", { offset: 0, limit: 1 }, { signal })).rejects.toMatchObject(
    REFUSED,
  );
});

test("a server that speaks no TLS", async () => {
  const server = createPlainServer();
  const port = await listenOnLoopback(server);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => closeServer(server));
  const service = stack.use(createService({ url: `https://127.0.0.1:${port}`, apiKey: "k" }));
  await expect(service.control.list({}, signal)).rejects.toMatchObject({
    code: "failed_precondition",
    message: expect.stringMatching(/TLS with 127\.0\.0\.1: "wrong version number"$/),
    hint: expect.stringContaining("speaks no TLS"),
  });
});
