/**
 * A template whose start command runs in its memory, by the official client: a create finds the server
 * running. Without a kernel of its own the start command runs in each sandbox.
 */

import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox, Template, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { gvisorRuntime } from "../support/runtimes.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const runtime = gvisorRuntime();
const LIMIT_MS = 120_000;
const MARK = "/home/user/started";
/** Each start of it draws another word, and adds a line to a file. */
const SERVER = `import http.server, os
word = os.urandom(8).hex().encode()
open("${MARK}", "a").write("x")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(word)
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", 8080), Answer).serve_forever()`;

let serve: TestServe;
let options: SandboxOpts;
beforeAll(async () => {
  const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor"];
  serve = await startServe(["--pool", "0", ...(runtime === undefined ? [] : level)]);
  options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  const template = Template()
    .fromTemplate("base")
    .runCmd(`cat >/home/user/server.py <<'END'\n${SERVER}\nEND`)
    .setStartCmd("exec python3 /home/user/server.py", "curl -sf 127.0.0.1:8080");
  await Template.build(template, "server", { ...options, skipCache: true });
}, LIMIT_MS);
afterAll(() => serve[Symbol.asyncDispose]());

async function ask(sandbox: Sandbox) {
  const { stdout } = await sandbox.commands.run(`curl -sf 127.0.0.1:8080; echo; cat ${MARK}`);
  const [word = "", starts = ""] = stdout.split("\n");
  return { word, starts: starts.length };
}

async function images(): Promise<string[]> {
  return readdir(join(serve.home, "memory")).catch(() => []);
}

test.skipIf(runtime !== undefined)(
  "gVisor is not installed: the start command runs in each sandbox",
  { timeout: LIMIT_MS },
  async () => {
    const made = [await Sandbox.create("server", options), await Sandbox.create("server", options)];
    const [first, second] = await Promise.all(made.map(ask));
    expect([first?.starts, second?.starts]).toEqual([1, 1]);
    expect(first?.word).not.toBe(second?.word);
    expect(await images()).toEqual([]);
    for (const sandbox of made) await sandbox.kill();
  },
);

test.skipIf(runtime === undefined)(
  "a create finds the server of the build running, and another one without its memory",
  { timeout: LIMIT_MS },
  async () => {
    const [image = ""] = await images();
    expect(image).not.toBe("");
    const one = await Sandbox.create("server", { ...options, envs: { NEW: "yes" } });
    const two = await Sandbox.create("server", options);
    const known = await ask(one);
    expect(known).toMatchObject({ word: expect.stringMatching(/^[0-9a-f]{16}$/), starts: 1 });
    expect(await ask(two)).toEqual(known);
    expect((await one.commands.run("echo $NEW $E2B_SANDBOX_ID")).stdout).toBe(
      `yes ${one.sandboxId}\n`,
    );
    const fork = (await one.fork({ count: 1, timeoutMs: 60_000 }))[0];
    expect(fork instanceof Sandbox && (await ask(fork))).toEqual(known);
    await two.pause();
    expect(await ask(await Sandbox.connect(two.sandboxId, options))).toEqual(known);
    // As after an update of runsc.
    const note = join(serve.home, "memory", image, "memory.json");
    const text = await readFile(note, "utf8");
    await writeFile(note, text.replace(/"runtime":"../, '"runtime":"zz'));
    const fresh = await Sandbox.create("server", options);
    const anew = await ask(fresh);
    expect([anew.starts, anew.word === known.word]).toEqual([1, false]);
    await writeFile(note, text);
    await rm(join(serve.home, "memory", image, "image"), { recursive: true });
    const damaged = await Sandbox.create("server", options);
    expect((await ask(damaged)).word).not.toBe(known.word);
    const all = [one, two, fresh, damaged, fork].filter((each) => each instanceof Sandbox);
    for (const sandbox of all) await sandbox.kill();
    const reply = await fetch(`${serve.url}/templates/server`, {
      method: "DELETE",
      headers: { "x-api-key": serve.apiKey },
    });
    expect(reply.status).toBe(204);
    await expect.poll(images).toEqual([]);
  },
);
