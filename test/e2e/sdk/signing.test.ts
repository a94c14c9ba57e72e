/** File URLs that carry their own permission, and what a secured sandbox asks for without them. */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { MATRIX_RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const MISSING = {
  code: 401,
  message: "missing signature query parameter",
};
const WRONG = { code: 401, message: "invalid signature" };
const EXPIRED = { code: 401, message: "signature is already expired" };

const created = z.object({ sandboxID: z.string(), envdAccessToken: z.string().nullish() });

const service = useSdkServe();

/** A call of the control API that the client has no method for. */
async function control(path: string, body: object) {
  const reply = await fetch(`${service.apiUrl}${path}`, {
    method: "POST",
    headers: { "x-api-key": service.options.apiKey, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return created.parse(await reply.json());
}

/** Status and body of a URL. */
async function open(url: string, init: RequestInit = {}) {
  const reply = await fetch(url, init);
  const text = await reply.text();
  const isJson = reply.headers.get("content-type")?.startsWith("application/json") === true;
  const body: unknown = isJson ? JSON.parse(text) : text;
  return { status: reply.status, body };
}

/** A file URL that says nothing of who asks. */
function filesUrl(query: string): string {
  return `${service.sandboxUrl}/files?${query}`;
}

/** What a reply to the upload of `hello.txt` is, whole. */
function stored(path: string) {
  return { status: 200, body: [{ name: "hello.txt", path, type: "file" }] };
}

/** A form whose one field is plain text: it has neither a file name nor a type. */
function formOf(text: string): RequestInit {
  const body = new FormData();
  body.append("file", text);
  return { method: "POST", body };
}

describe.each(MATRIX_RELEASES)("e2b $release, secured", ({ sdk }) => {
  let sandbox: Sandbox;
  let token: string;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
    const { envdAccessToken } = await control(`/v2/sandboxes/${sandbox.sandboxId}/connect`, {});
    token = envdAccessToken ?? "";
    await sandbox.files.write("hello.txt", "hello");
  });

  afterAll(async () => sandbox.kill());

  function addressed(more: Record<string, string> = {}): RequestInit {
    const headers = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983", ...more };
    return { headers };
  }

  test("a file is read by its URL, with and without an end, as another user too", async () => {
    await sandbox.files.write("/root/hello.txt", "root's");
    expect(await open(await sandbox.downloadUrl("hello.txt"))).toEqual({
      status: 200,
      body: "hello",
    });
    expect(
      await open(await sandbox.downloadUrl("hello.txt", { useSignatureExpiration: 60 })),
    ).toEqual({
      status: 200,
      body: "hello",
    });
    expect(await open(await sandbox.downloadUrl("hello.txt", { user: "root" }))).toEqual({
      status: 200,
      body: "root's",
    });
    await sandbox.files.write("with space & more.txt", "named");
    expect(await open(await sandbox.downloadUrl("with space & more.txt"))).toMatchObject({
      status: 200,
      body: "named",
    });
  });

  test("a file is written by its URL from a bare form field", async () => {
    const plain = await sandbox.uploadUrl("hello.txt");
    expect(await open(plain, formOf("by form"))).toEqual(stored("/home/user/hello.txt"));
    const options = { useSignatureExpiration: 60, user: "root" };
    const limited = await sandbox.uploadUrl("hello.txt", options);
    expect(await open(limited, formOf("for root"))).toEqual(stored("/root/hello.txt"));
    expect(await sandbox.files.read("hello.txt")).toBe("by form");
  });

  test("without a path in the URL the form's file name decides", async () => {
    const body = new FormData();
    body.append("file", new Blob(["named by the form"]), "/home/user/form.txt");
    const reply = await open(await sandbox.uploadUrl(), { method: "POST", body });
    expect(reply).toEqual({
      status: 200,
      body: [{ name: "form.txt", path: "/home/user/form.txt", type: "file" }],
    });
  });

  test("an expired URL is refused in these words, to read and to write", async () => {
    const options = { useSignatureExpiration: -10 };
    expect(await open(await sandbox.downloadUrl("hello.txt", options))).toEqual({
      status: 401,
      body: EXPIRED,
    });
    expect(await open(await sandbox.uploadUrl("hello.txt", options), formOf("late"))).toEqual({
      status: 401,
      body: EXPIRED,
    });
    const zero = new URL(await sandbox.downloadUrl("hello.txt", { useSignatureExpiration: 0 }));
    expect(zero.searchParams.has("signature_expiration")).toBe(true);
  });

  test("an end that was not signed is no valid signature, even one in the past", async () => {
    const url = new URL(await sandbox.downloadUrl("hello.txt"));
    url.searchParams.set("signature_expiration", "1");
    expect(await open(url.href, addressed())).toEqual({ status: 401, body: WRONG });
    expect(await open(url.href)).toEqual({ status: 401, body: WRONG });
  });

  test("a signature is good for its file, user and direction alone", async () => {
    const url = new URL(await sandbox.downloadUrl("hello.txt"));
    expect(await open(url.href, formOf("x"))).toEqual({ status: 401, body: WRONG });
    url.searchParams.set("path", "other.txt");
    expect(await open(url.href, addressed())).toEqual({ status: 401, body: WRONG });
  });

  test("a valid signature of a missing file names the resolved path", async () => {
    expect(await open(await sandbox.downloadUrl("demo/test.txt"))).toEqual({
      status: 404,
      body: { code: 404, message: "path '/home/user/demo/test.txt' does not exist" },
    });
  });

  test("without token and signature nothing is read; the token alone is enough", async () => {
    const url = filesUrl("path=hello.txt");
    expect(await open(url, addressed())).toEqual({ status: 401, body: MISSING });
    expect(await open(url, addressed({ "x-access-token": "wrong" }))).toEqual({
      status: 401,
      body: { code: 401, message: "access token present in header but does not match" },
    });
    expect(await open(url, addressed({ "x-access-token": token }))).toMatchObject({ status: 200 });
    const signed = await sandbox.uploadUrl("both.txt");
    const both = { ...formOf("both"), ...addressed({ "x-access-token": token }) };
    expect(await open(signed, both)).toMatchObject({ status: 200 });
  });

  test("the signature is the one that everybody computes", async () => {
    const { signature } = await sdk.getSignature({
      path: "hello.txt",
      operation: "read",
      user: "user",
      envdAccessToken: "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0",
    });
    expect(signature).toBe("v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
  });

  test.for(["none", "wrong", "right"])("the host's own route is closed, token %s", async (kind) => {
    const value = { none: undefined, wrong: "wrong", right: token }[kind];
    const more = value === undefined ? {} : { "x-access-token": value };
    for (const path of ["/init", "/init/", "//init", "/files/../init"]) {
      const init = { ...addressed(more), method: "POST", body: "{}" };
      const reply = await open(`${service.sandboxUrl}${path}`, init);
      expect(reply).toMatchObject({
        status: 404,
        body: {
          code: 404,
          message:
            "This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL",
        },
      });
    }
  });

  test.for([true, false])("a pause changes neither token nor files (memory: %s)", async (keep) => {
    expect((await sandbox.commands.run("echo secured")).stdout).toBe("secured\n");
    await sandbox.files.write("kept.txt", "kept");
    await sandbox.pause({ keepMemory: keep });
    expect(await sandbox.isRunning()).toBe(false);
    await sandbox.connect();
    expect(await sandbox.isRunning()).toBe(true);
    const url = filesUrl("path=kept.txt");
    expect(await open(url, addressed({ "x-access-token": token }))).toEqual({
      status: 200,
      body: "kept",
    });
    expect(await open(url, addressed())).toEqual({ status: 401, body: MISSING });
    expect(await sandbox.files.read("kept.txt")).toBe("kept");
  });
});

describe.each(MATRIX_RELEASES)("e2b $release, open", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    const { sandboxID } = await control("/sandboxes", { templateID: "base", secure: false });
    sandbox = await sdk.Sandbox.connect(sandboxID, service.options);
  });

  afterAll(async () => sandbox.kill());

  test("files and commands need no credential at all", async () => {
    await sandbox.files.write("open.txt", "open");
    expect(await sandbox.files.read("open.txt")).toBe("open");
    expect((await sandbox.commands.run("cat open.txt")).stdout).toBe("open");
    const url = await sandbox.downloadUrl("open.txt");
    expect(new URL(url).searchParams.has("signature")).toBe(false);
    expect(await open(url)).toMatchObject({ status: 200, body: "open" });
    expect(await open(await sandbox.uploadUrl("up.txt"), formOf("up"))).toMatchObject({
      status: 200,
    });
  });

  test("an end of the URL is refused by the client itself", async () => {
    const options = { useSignatureExpiration: 60 };
    await expect(sandbox.downloadUrl("x", options)).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(sandbox.uploadUrl("x", options)).rejects.toThrow(sdk.InvalidArgumentError);
  });
});
