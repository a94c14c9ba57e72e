/** A plain stdio server gives ports and files an address on this machine, and nothing else with it. */

import assert from "node:assert/strict";
import { readdir, readFile, readlink } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { Agent, fetch as fetchWith } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestHome, type TestHome } from "../support/home.ts";
import { startMcpClient, type TestClient } from "../support/mcp/mcp-client.ts";

const PORT = 8_000;
const LOOPBACK = "0100007F";
const LISTENING = "0A";

let home: TestHome;
let client: TestClient;
let sandbox: { readonly sandbox_id: string };

beforeAll(async () => {
  home = await openTestHome();
  client = await startMcpClient(["--toolsets", "all", "--home", home.path]);
  const created = await client.call("create_sandbox", {});
  sandbox = { sandbox_id: String(created.fields["sandbox_id"]) };
});

afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await home[Symbol.asyncDispose]();
});

/** TCP ports on which a process listens, with the address in the kernel's spelling. */
async function listListeners(pid: number): Promise<{ address: string; port: number }[]> {
  const folder = `/proc/${pid}/fd`;
  const links = await Promise.all(
    (await readdir(folder)).map(async (name) => readLink(join(folder, name))),
  );
  const table = [await readFile("/proc/net/tcp", "utf8"), await readFile("/proc/net/tcp6", "utf8")];
  return table
    .flatMap((text) => text.split("\n").slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === LISTENING && links.includes(`socket:[${fields[9]}]`))
    .map(([, local = ""]) => {
      const [address = "", port = ""] = local.split(":");
      return { address, port: Number.parseInt(port, 16) };
    });
}

async function readLink(path: string): Promise<string> {
  return readlink(path).catch(() => "");
}

async function linkTo(path: string, content: string): Promise<string> {
  await client.call("write_file", { ...sandbox, path, content });
  const reply = await client.call("download_url", { ...sandbox, path });
  assert.equal(reply.isError, false, reply.text);
  expect(reply.text).toContain("on this machine only, until this session ends");
  return String(reply.fields["url"]);
}

/** One request with a Host of its own. */
async function ask(
  base: string,
  wanted: { readonly path: string; readonly headers: Readonly<Record<string, string>> },
): Promise<{ readonly status: number; readonly body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>();
  const { port } = new URL(base);
  const sent = request({ host: "127.0.0.1", port, agent: false, ...wanted }, (response) => {
    let body = "";
    response.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    response.once("end", () => resolve({ status: response.statusCode ?? 0, body }));
  });
  sent.once("error", reject).end();
  return promise;
}

test("no port is open before the first need; then one, on loopback, for all of them", async () => {
  expect(await listListeners(client.pid)).toEqual([]);
  const links = await Promise.all(
    ["a", "b", "c"].map(async (name) => linkTo(`${name}.txt`, `in ${name}`)),
  );
  const ports = new Set(links.map((link) => Number(new URL(link).port)));
  expect(ports.size).toBe(1);
  expect(await listListeners(client.pid)).toEqual([{ address: LOOPBACK, port: [...ports][0] }]);
});

test("a link gives the file to whoever has it, and to nobody with another signature", async () => {
  const link = new URL(await linkTo("shared & co.txt", "for everybody"));
  const reply = await fetch(link);
  expect([reply.status, await reply.text()]).toEqual([200, "for everybody"]);
  const signature = link.searchParams.get("signature") ?? "";
  expect(signature).not.toBe("");
  link.searchParams.set(
    "signature",
    signature.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
  );
  expect((await fetch(link)).status).toBe(401);
  link.searchParams.delete("signature");
  expect((await fetch(link)).status).toBe(400);
});

test("a page is fetched under the host of its port, and by the headers", async () => {
  await client.call("write_file", { ...sandbox, path: "page.html", content: "hello" });
  const server = { cmd: `python3 -m http.server ${PORT}`, wait_seconds: 0 };
  await client.call("run_process", { ...sandbox, ...server });
  const { fields, text } = await client.call("get_sandbox_url", { ...sandbox, port: PORT });
  const url = String(fields["url"]);
  expect(url).toMatch(new RegExp(`^http://${PORT}-${sandbox.sandbox_id}\\.localhost:\\d+$`));
  expect(text).toContain("on this machine only, until this session ends");
  const agent = new Agent({
    connect: {
      // As browsers and most name services answer names below localhost.
      lookup: (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]),
    },
  });
  const byHost = async () => {
    const reply = await fetchWith(`${url}/page.html`, { dispatcher: agent });
    return [reply.status, await reply.text()];
  };
  await expect.poll(byHost).toEqual([200, "hello"]);
  const headers = { "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": String(PORT) };
  const byHeaders = await fetch(`${String(fields["base"])}/page.html`, { headers });
  expect([byHeaders.status, await byHeaders.text()]).toEqual([200, "hello"]);
  await agent.close();
});

async function readKey(): Promise<string> {
  const [instance = ""] = await readdir(join(home.path, "instances"));
  return readFile(join(home.path, "instances", instance, "token"), "utf8");
}

test("neither the control API nor MCP is reached there, with whatever key and name", async () => {
  const base = await linkTo("x.txt", "x");
  const key = { "X-API-Key": await readKey(), authorization: `Bearer ${await readKey()}` };
  const paths = ["/sandboxes", "/v2/sandboxes", "/templates", "/mcp", "/metrics", "/"];
  const hosts = ["127.0.0.1", "localhost", "api.localhost", "sandbox.localhost", "[::1]"];
  for (const path of paths) {
    for (const host of hosts) {
      const reply = await ask(base, { path, headers: { host, ...key } });
      expect([host, path, reply.status]).toEqual([host, path, 404]);
    }
  }
});

test.for([
  { host: "evil.example", path: "/files?path=x" },
  { host: "localhost.evil.example", path: "/" },
  { host: `${PORT}-unknown.evil.example`, path: "/" },
  { host: "localhost@evil.example", path: "/" },
  { host: "127.0.0.1", path: "http://evil.example/" },
])("a request for $host $path is refused", async ({ host, path }) => {
  const base = await linkTo("x.txt", "x");
  expect((await ask(base, { path, headers: { host } })).status).toBe(400);
});

test("the daemon of a sandbox is not reached without its token", async () => {
  const base = await linkTo("x.txt", "x");
  const host = `49983-${sandbox.sandbox_id}.localhost`;
  const path = "/files?path=x.txt&username=user";
  expect((await ask(base, { path, headers: { host } })).status).toBe(401);
});

test("the service's key never enters a sandbox", async () => {
  const base = await linkTo("x.txt", "x");
  const host = `${PORT}-${sandbox.sandbox_id}.localhost`;
  const key = await readKey();
  expect((await ask(base, { path: `/?k=${key}`, headers: { host } })).status).toBe(400);
});

test("the address ends with the session", async () => {
  await using other = await startMcpClient(["--toolsets", "all", "--home", home.path]);
  const created = await other.call("create_sandbox", {});
  const own = { sandbox_id: String(created.fields["sandbox_id"]) };
  const link = String(
    (await other.call("download_url", { ...own, path: "/etc/hostname" })).fields["url"],
  );
  expect((await fetch(link)).status).toBe(200);
  await other[Symbol.asyncDispose]();
  await expect
    .poll(async () =>
      fetch(link).then(
        () => "open",
        () => "closed",
      ),
    )
    .toBe("closed");
});
