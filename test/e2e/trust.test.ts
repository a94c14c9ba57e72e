/** What sandboxes trust and which proxy they use: what the machine does, or what is asked for. */

import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { hasSetId } from "../support/level.ts";
import { startMcpClient } from "../support/mcp/mcp-client.ts";
import { startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const run = promisify(execFile);
const PROXY = "http://proxy.example:3128";
const SHOW = [
  "openssl x509 -noout -subject -in /usr/local/share/ca-certificates/sandbox-mcp-0.crt",
  "openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt $NODE_EXTRA_CA_CERTS",
  "openssl verify -CApath /etc/ssl/certs $NODE_EXTRA_CA_CERTS",
  "grep -c BEGIN $SSL_CERT_FILE",
  'echo "[$HTTPS_PROXY $https_proxy $NO_PROXY]"',
].join("; ");
/** Counts what sudo keeps: two of the certificates, and three of the proxy in two spellings. */
const KEPT =
  "sudo -n env | grep -c -e '^NODE_EXTRA_CA_CERTS=/' -e '^PIP_CERT=/' -e _PROXY= -e _proxy=";
const TRUSTED =
  /subject=CN = Test Authority\n\S+: OK\n\S+: OK\n1\d\d\n\[http:\/\/proxy.example:3128 http:\/\/proxy.example:3128 localhost\]/;

async function makeAuthority(folder: string): Promise<string> {
  const path = join(folder, "ca.pem");
  const words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const rest = ["-nodes", "-subj", "/CN=Test Authority", "-days", "30", "-out", path];
  await run("openssl", [...words, ...rest, "-keyout", join(folder, "key.pem")]);
  return path;
}

test.for(["base", "host"])(
  "a sandbox of %s trusts the file and has the proxy",
  async (template) => {
    await using home = await openTestHome();
    await using folder = await makeTempFolder();
    const ca = await makeAuthority(folder.path);
    const flags = ["--home", home.path, "--ca", ca, "--proxy", PROXY, "--pool", "0"];
    await using client = await startMcpClient([...flags, "--toolsets", "all"], {
      NO_PROXY: "localhost",
    });
    const first = await client.call("create_sandbox", { template });
    const sandbox = { sandbox_id: first.fields["sandbox_id"] };
    const shown = await client.call("run_process", { ...sandbox, cmd: SHOW });
    expect(shown.text).toMatch(TRUSTED);
    const kept = await client.call("run_process", { ...sandbox, cmd: KEPT });
    expect(kept.text).toMatch(hasSetId ? /\n8\n/ : /\n0\n/);
    const saved = await client.call("snapshot", sandbox);
    const copy = await client.call("create_sandbox", { template: saved.fields["snapshot_id"] });
    const again = { sandbox_id: copy.fields["sandbox_id"], cmd: SHOW };
    expect((await client.call("run_process", again)).text).toMatch(TRUSTED);
  },
);

test.skipIf(!hasSetId)("sudo keeps a proxy also without certificates", async () => {
  await using home = await openTestHome();
  const flags = ["--home", home.path, "--ca", "off", "--proxy", PROXY, "--pool", "0"];
  await using client = await startMcpClient(flags, { NO_PROXY: "localhost" });
  const { fields } = await client.call("create_sandbox", {});
  const cmd = `sudo -n sh -c 'echo "[$HTTPS_PROXY $no_proxy]"'`;
  const shown = await client.call("run_process", { sandbox_id: fields["sandbox_id"], cmd });
  expect(shown.text).toContain("[http://proxy.example:3128 localhost]");
});

test("off gives neither", async () => {
  await using home = await openTestHome();
  const flags = ["--home", home.path, "--ca", "off", "--proxy", "off", "--pool", "0"];
  await using client = await startMcpClient(flags, { HTTPS_PROXY: PROXY });
  const { fields } = await client.call("create_sandbox", {});
  const cmd = 'echo "[$HTTPS_PROXY$SSL_CERT_FILE]"; ls /usr/local/share/ca-certificates | wc -l';
  const shown = await client.call("run_process", { sandbox_id: fields["sandbox_id"], cmd });
  expect(shown.text).toMatch(/\[\]\n0/);
});

test("a file that is none, or has no certificate, is one line that says so", async () => {
  await using home = await openTestHome();
  await using folder = await makeTempFolder();
  const empty = join(folder.path, "empty.pem");
  await writeFile(empty, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  await mkdir(join(folder.path, "folder"));
  const cases = [
    [empty, 78, /^sandbox-mcp: --ca \S+ has no certificate: name a file/],
    [join(folder.path, "none.pem"), 78, /^sandbox-mcp: --ca \S+: ENOENT/],
    [join(folder.path, "folder"), 78, /^sandbox-mcp: --ca \S+: not a file/],
    ["ca.pem", 64, /^sandbox-mcp: --ca: expected off or an absolute path/],
  ] as const;
  for (const [ca, code, says] of cases) {
    const words = ["serve", "--port", "0", "--home", home.path, "--ca", ca];
    await using program = startProgram(words, { SANDBOX_MCP_LOG_LEVEL: "silent" });
    expect([await program.exited(), program.stderr()]).toEqual([code, expect.stringMatching(says)]);
  }
});
