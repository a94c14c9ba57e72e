/** Replies in the place of those of the API server: of proxies, of servers that start, half of them. */

import { createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createClusterApi } from "../../../src/cluster/api/api.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** A server that answers each request so. */
async function open(
  answer: (socket: Socket, request: string) => void,
  { path = "", ...options }: { callTimeoutMs?: number; path?: string } = {},
) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("data", (data) => answer(socket, data.toString()));
    socket.on("error", () => socket.destroy());
  });
  const port = await listenOnLoopback(server);
  const api = createClusterApi({
    url: new URL(`http://127.0.0.1:${port}${path}`),
    namespace: "test",
    readToken: async () => undefined,
    ...options,
  });
  return {
    api,
    async [Symbol.asyncDispose]() {
      api[Symbol.dispose]();
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

function toReply(status: string, body: string, type = "application/json"): string {
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n${body}`;
}

const toStatus = (code: number, reason: string) =>
  JSON.stringify({ kind: "Status", status: "Failure", code, reason, message: "planned" });

test.for([
  ["an object that is not there", toReply("404 Not Found", toStatus(404, "NotFound")), "not_found"],
  [
    "a proxy without a server",
    toReply("404 Not Found", "<html>404</html>", "text/html"),
    "unavailable",
  ],
  [
    "a server whose paths are not installed",
    toReply("404 Not Found", "404 page not found", "text/plain"),
    "unavailable",
  ],
  ["a page of a proxy", toReply("200 OK", "<html>soon</html>", "text/html"), "unavailable"],
  ["a reply that is cut", "HTTP/1.0 200 OK\r\n\r\n{", "unavailable"],
  ["an expired token", toReply("401 Unauthorized", toStatus(401, "Unauthorized")), "unavailable"],
  ["a lost right", toReply("403 Forbidden", toStatus(403, "Forbidden")), "unavailable"],
  [
    "a redirection to a login page",
    toReply("302 Found\r\nlocation: https://192.0.2.1/login", "", "text/html"),
    "unavailable",
  ],
  [
    "a switch of protocols",
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: none\r\n\r\n",
    "unavailable",
  ],
] as const)("%s", async ([, reply, code]) => {
  await using server = await open((socket) => void socket.end(reply));
  for (const method of ["GET", "DELETE"] as const) {
    const call = server.api.call({ method, path: "configmaps/one" });
    await expect(call).rejects.toMatchObject({ code });
  }
});

test("a refusal of a watch that does not end is given up", async () => {
  const half = "HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\n{";
  await using server = await open((socket) => void socket.write(half), { callTimeoutMs: 500 });
  const watching = server.api.watch({ path: "pods" }, new AbortController().signal);
  await expect(watching).rejects.toMatchObject({ code: "unavailable" });
});

const BUSY = toReply("429 Too Many Requests\r\nretry-after: 0", toStatus(429, "TooManyRequests"));

test.for([
  ["an API server that is busy", "PATCH", BUSY],
  ["creates that collide at a quota", "POST", toReply("409 Conflict", toStatus(409, "Conflict"))],
] as const)("%s is asked again: nothing was done", async ([, method, refusal]) => {
  let count = 0;
  await using server = await open((socket) => {
    count += 1;
    socket.end(count < 3 ? refusal : toReply("200 OK", JSON.stringify({ kind: "Pod" })));
  });
  const path = method === "POST" ? "pods" : "pods/one";
  expect(await server.api.call({ method, path, body: {} })).toEqual({ kind: "Pod" });
  expect(count).toBe(3);
});

test.for([
  { name: "that is busy for long", wait: "60", told: 60 },
  { name: "that does not say how long", wait: undefined, told: 2 },
])("an API server $name is not waited for", async ({ wait, told }) => {
  let count = 0;
  const head = wait === undefined ? "" : `\r\nretry-after: ${wait}`;
  await using server = await open((socket) => {
    count += 1;
    socket.end(toReply(`429 Too Many Requests${head}`, toStatus(429, "TooManyRequests")));
  });
  const call = server.api.call({ method: "GET", path: "pods/one" });
  await expect(call).rejects.toMatchObject({ code: "unavailable", retryAfterSeconds: told });
  expect(count).toBe(1);
});

test("a change of another version is a conflict, and is not sent again", async () => {
  let count = 0;
  await using server = await open((socket) => {
    count += 1;
    socket.end(toReply("409 Conflict", toStatus(409, "Conflict")));
  });
  const call = server.api.call({ method: "PATCH", path: "configmaps/one", body: {} });
  await expect(call).rejects.toMatchObject({ code: "failed_precondition" });
  expect(count).toBe(1);
});

test("who waits for an API server that is busy can be called off", { timeout: 5_000 }, async () => {
  const busy = toReply("429 Too Many Requests\r\nretry-after: 9", toStatus(429, ""));
  const gone = new AbortController();
  await using server = await open((socket) => {
    socket.once("close", () => gone.abort());
    socket.end(busy);
  });
  const { signal } = gone;
  const call = server.api.call({ method: "GET", path: "pods/one", signal });
  await expect(call).rejects.toMatchObject({ code: "canceled" });
});

test("after a call without an answer others wait shortly, until there is one", async () => {
  let isSilent = true;
  await using server = await open(
    (socket) => {
      if (!isSilent) socket.end(toReply("200 OK", "{}"));
    },
    { callTimeoutMs: 2_000 },
  );
  const fail = async () => {
    const beganMs = performance.now();
    const call = server.api.call({ method: "DELETE", path: "pods/one" });
    await expect(call).rejects.toMatchObject({ code: "unavailable" });
    return performance.now() - beganMs;
  };
  const [first, second] = [await fail(), await fail()];
  isSilent = false;
  await server.api.call({ method: "GET", path: "pods/one" });
  isSilent = true;
  const third = await fail();
  // Those that wait for the whole time, give or take a turn of the loop.
  expect([first, second, third].map((ms) => ms > 1_900)).toEqual([true, false, true]);
});

test("an API server that is slow after a silence is used again", { timeout: 30_000 }, async () => {
  let delayMs: number | undefined;
  await using server = await open(
    (socket) => {
      if (delayMs === undefined) return;
      setTimeout(() => socket.end(toReply("200 OK", "{}")), delayMs);
    },
    { callTimeoutMs: 2_000 },
  );
  const ask = () => server.api.call({ method: "GET", path: "pods/one" }).catch(() => "no answer");
  expect(await ask()).toBe("no answer");
  // Longer than a call waits in a silence.
  delayMs = 800;
  await expect.poll(ask, { timeout: 20_000, interval: 100 }).toEqual({});
});

test("a call that is never answered beside others that are makes none wait less", async () => {
  await using server = await open(
    (socket, request) => {
      if (request.includes("/never")) return;
      const delayMs = request.includes("/slow") ? 800 : 0;
      setTimeout(() => socket.end(toReply("200 OK", "{}")), delayMs);
    },
    { callTimeoutMs: 2_000 },
  );
  const ask = (path: string) => server.api.call({ method: "GET", path });
  const never = ask("pods/never").catch(() => "no answer");
  await ask("pods/fast");
  expect(await never).toBe("no answer");
  expect(await ask("pods/slow")).toEqual({});
});

test.for(["", "/", "/k8s/clusters/c-1", "/k8s/clusters/c-1/", "//"])(
  "an address with the path '%s' is that of all calls",
  async (path) => {
    const lines: (string | undefined)[] = [];
    const answer = (socket: Socket, request: string) => {
      lines.push(request.split("\r\n")[0]);
      socket.end(toReply("200 OK", "{}"));
    };
    await using server = await open(answer, { path });
    await server.api.call({ method: "GET", path: "pods/one", query: { limit: "1" } });
    await server.api.read("/version");
    const base = path.replace(/\/+$/, "");
    expect(lines).toEqual([
      `GET ${base}/api/v1/namespaces/test/pods/one?limit=1 HTTP/1.1`,
      `GET ${base}/version HTTP/1.1`,
    ]);
  },
);
