/** A service that may fetch images of registries on loopback, which builds over the wire name. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Template, type LogEntry } from "e2b";
import { PLAN_VARIABLE } from "../faults/step-listener.ts";
import { listeningUrl, PROGRAM, startProgram, type TestProgram } from "../program.ts";
import { makeTempFolder, type TempFolder } from "../temp-folder.ts";
import { writeLayout } from "./oci-layout.ts";
import type { Registry } from "./registry.ts";
import { alpineLayer } from "./test-images.ts";

const LISTENER = resolve(import.meta.dirname, "../faults/step-listener.ts");

type Image = Parameters<ReturnType<typeof Template>["fromImage"]>;

export interface ImageService extends AsyncDisposable {
  readonly home: string;
  /** What a client needs to reach it. */
  readonly options: {
    readonly apiKey: string;
    readonly apiUrl: string;
    readonly sandboxUrl: string;
  };
  readonly program: TestProgram;
  /** A file that `step-listener.ts` reads. */
  readonly plan: string;
  /** Builds a template of an image with one step; the lines of its log. */
  build(name: string, ...image: Image): Promise<readonly string[]>;
  /** Names of all layers. */
  layers(): Promise<readonly string[]>;
  /** Starts it again after its end, on another port. */
  restart(): Promise<void>;
}

/** Each rule leads from a name to a registry: so the owner of a service allows those of its network. */
export async function startImageService(
  rules: Readonly<Record<string, Pick<Registry, "host">>>,
): Promise<ImageService> {
  const home = await mkdtemp(join(tmpdir(), "smcp-"));
  const folder = await makeTempFolder();
  const plan = join(folder.path, "plan");
  const apiKey = `e2b_${randomBytes(20).toString("hex")}`;
  const mirrors = Object.entries(rules).map(([from, { host }]) => `${from}=http://${host}`);
  const start = async () => {
    const flags = ["--pool", "0", "--allow-host-template", "--registry-mirror", mirrors.join(",")];
    const words = ["serve", "--port", "0", "--home", home, ...flags];
    const environment = { SANDBOX_MCP_API_KEY: apiKey, [PLAN_VARIABLE]: plan };
    const command = [process.execPath, "--import", LISTENER, PROGRAM] as const;
    const program = startProgram(words, environment, [...command]);
    return { program, url: await listeningUrl(program) };
  };
  let running = await start();
  const service: ImageService = {
    home,
    plan,
    get program() {
      return running.program;
    },
    get options() {
      return { apiKey, apiUrl: running.url, sandboxUrl: running.url };
    },
    async build(name, ...image) {
      const entries: LogEntry[] = [];
      const onBuildLogs = (entry: LogEntry) => void entries.push(entry);
      await Template.build(imageTemplate(...image), name, { ...service.options, onBuildLogs });
      return entries.map(({ message }) => message);
    },
    layers: async () => (await readdir(join(home, "layers"))).toSorted(),
    async restart() {
      await running.program[Symbol.asyncDispose]();
      running = await start();
    },
    async [Symbol.asyncDispose]() {
      await running.program[Symbol.asyncDispose]();
      await rm(home, { recursive: true, force: true });
      await folder[Symbol.asyncDispose]();
    },
  };
  return service;
}

export function imageTemplate(...image: Image) {
  return Template()
    .fromImage(...image)
    .runCmd("cat /etc/os-release > /tmp/release");
}

interface TestImages extends TempFolder {
  /** Copies one of them to a registry, as `team/NAME:1`. */
  push(name: string, { host }: Pick<Registry, "host">, login?: string): Promise<void>;
}

/** Images of the family of Alpine, which differ in their environment. */
export async function makeTestImages(names: readonly string[]): Promise<TestImages> {
  const folder = await makeTempFolder();
  const layer = await alpineLayer();
  for (const name of names) {
    const config = { Env: [`IMAGE=${name}`] };
    await writeLayout(join(folder.path, name), { layers: [layer], config });
  }
  return {
    ...folder,
    async push(name, { host }, login) {
      const credentials = login === undefined ? [] : ["--dest-creds", login];
      const words = ["copy", "--all", "--dest-tls-verify=false", ...credentials];
      const places = [`oci:${join(folder.path, name)}`, `docker://${host}/team/${name}:1`];
      await promisify(execFile)("skopeo", [...words, ...places], {
        env: { PATH: process.env["PATH"], HOME: folder.path },
      });
    },
  };
}
