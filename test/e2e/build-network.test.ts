/**
 * What steps of builds reach, by rules of their own: in a lab of namespaces that the test makes,
 * beside sandboxes with other rules.
 */

import { Sandbox, Template, type LogEntry, type SandboxOpts, type TemplateClass } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isGvisor } from "../support/level.ts";
import { LAB, startLab, type Lab } from "../support/network/lab.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const LIMIT_MS = 240_000;
const ALL = "0.0.0.0/0";
const OPEN = `http://${LAB.publicHost}:${LAB.port}/`;
const OTHER = `http://${LAB.otherHost}:${LAB.port}/`;
const ANSWERED = { open: LAB.publicHost, other: LAB.otherHost };

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
});

afterAll(async () => lab[Symbol.asyncDispose]());

/** A service in the lab. */
async function serveWith(...flags: readonly string[]): Promise<TestServe> {
  const place = ["--egress", lab.namespace, "--dns", LAB.nameServer, "--pool", "0"];
  return startServe([...place, ...flags]);
}

function clientOf({ url, apiKey }: TestServe) {
  return { apiKey, apiUrl: url, sandboxUrl: url };
}

/** A line that names where the answer came from, or `nothing` when none came. */
function ask(name: string, url: string): string {
  return `echo "${name}: $(curl -sS -m 3 ${url} 2>&1 | grep -oE '^far [0-9.]+|"at":"[0-9.]+"' || echo nothing)"`;
}

const ASK_BOTH = `${ask("open", OPEN)}; ${ask("other", OTHER)}`;

/** What lines of {@link ask} say. */
function heard(text: string): Record<string, string> {
  const lines = text.matchAll(/^(\w+): (?:far |"at":")?([0-9.]+|nothing)"?$/gm);
  return Object.fromEntries([...lines].map(([, name = "", place = ""]) => [name, place]));
}

/** Builds a template; what its log says, by line. */
async function build(service: TestServe, template: TemplateClass, name: string) {
  const lines: string[] = [];
  const onBuildLogs = ({ message }: LogEntry) => void lines.push(message);
  await Template.build(template, name, { ...clientOf(service), onBuildLogs });
  return heard(lines.join("\n"));
}

async function create(service: TestServe, template: string, more: SandboxOpts = {}) {
  const sandbox = await Sandbox.create(template, { ...clientOf(service), ...more });
  return Object.assign(sandbox, { [Symbol.asyncDispose]: async () => void (await sandbox.kill()) });
}

async function reached(sandbox: Sandbox): Promise<Record<string, string>> {
  return heard((await sandbox.commands.run(ASK_BOTH)).stdout);
}

describe("with --build-egress of a network and a name", () => {
  let service: TestServe;

  beforeAll(async () => {
    service = await serveWith("--build-egress", `${LAB.publicHost}/32,xn--bcher-kva.test`);
  });

  afterAll(async () => service[Symbol.asyncDispose]());

  test(
    "a step reaches both and nothing else, as root too; its template's sandboxes have their own rules",
    async () => {
      const names = [
        ask("named", "http://xn--bcher-kva.test/"),
        ask("unnamed", "http://other.test/"),
      ];
      const steps = Template()
        .fromTemplate("base")
        .runCmd(ASK_BOTH, { user: "root" })
        .runCmd(names.join("; "));
      expect(await build(service, steps, "narrow")).toEqual({
        open: LAB.publicHost,
        other: "nothing",
        named: LAB.otherHost,
        unnamed: "nothing",
      });
      expect(await lab.strayed()).toBe(0);
      await using free = await create(service, "narrow");
      expect(await reached(free)).toEqual(ANSWERED);
      expect((await free.getInfo()).network).toBeUndefined();
      const network = { allowOut: [LAB.otherHost], denyOut: [ALL] };
      await using ruled = await create(service, "narrow", { network });
      expect(await reached(ruled)).toEqual({ open: "nothing", other: LAB.otherHost });
    },
    LIMIT_MS,
  );

  test(
    "the start command is proven under the rules of builds, and runs under those of each sandbox",
    async () => {
      const started = Template()
        .fromTemplate("base")
        .setStartCmd(
          `{ ${ASK_BOTH}; } | tee /tmp/net; touch /tmp/up; exec sleep 1000`,
          "test -e /tmp/up",
        );
      expect(await build(service, started, "started")).toEqual({
        open: LAB.publicHost,
        other: "nothing",
      });
      await using sandbox = await create(service, "started");
      // With a kernel of its own the command of the build goes on, and does not start again.
      const wanted = isGvisor ? { open: LAB.publicHost, other: "nothing" } : ANSWERED;
      expect(heard(await sandbox.files.read("/tmp/net"))).toEqual(wanted);
    },
    LIMIT_MS,
  );
});

test(
  "with --build-egress off steps have loopback alone, and sandboxes their network",
  async () => {
    await using service = await serveWith("--build-egress", "off");
    const steps = Template()
      .fromTemplate("base")
      .runCmd(`${ASK_BOTH}; echo "links: $(grep -c : /proc/net/dev)"`);
    expect(await build(service, steps, "shut")).toEqual({
      // A kernel of its own has a link whose router drops everything.
      links: isGvisor ? "2" : "1",
      open: "nothing",
      other: "nothing",
    });
    await using sandbox = await create(service, "shut");
    expect(await reached(sandbox)).toEqual(ANSWERED);
  },
  LIMIT_MS,
);

test(
  "without rules of their own steps reach what sandboxes do, and never what is no public host",
  async () => {
    await using service = await serveWith();
    const hidden = LAB.unreachable.map((host, index) =>
      ask(`private${index}`, `http://${host}:${LAB.port}/`),
    );
    const steps = Template()
      .fromTemplate("base")
      .runCmd(ASK_BOTH, { user: "root" })
      .runCmd(`${hidden.join("& ")}; wait`, { user: "root" });
    expect(await build(service, steps, "wide")).toEqual({
      ...ANSWERED,
      ...Object.fromEntries(LAB.unreachable.map((_host, index) => [`private${index}`, "nothing"])),
    });
    expect(await lab.strayed()).toBe(0);
  },
  LIMIT_MS,
);
