/** Images of registries of Amazon and Google: what a build gives of a login, and what is left of it. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Template } from "e2b";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  startEmbeddedService,
  type EmbeddedService,
} from "../../../src/commands/service/embedded-service.ts";
import { createLayerEngine } from "../../support/engine/layer-engine.ts";
import { ECR_HOST, ECR_KEY, startFakeEcr, type FakeEcr } from "../../support/images/fake-ecr.ts";
import { makeTestImages } from "../../support/images/image-service.ts";
import { startRegistry } from "../../support/images/registry.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

const LIMIT_MS = 120_000;
const PASSWORD = "secret";
const ACCOUNT = { private_key: "key-of-a-test", client_email: "a@b.example" };
const GOOGLE_HOST = "europe-docker.pkg.dev";
const OTHER_KEY = { ...ECR_KEY, secretAccessKey: "hidden-key-of-nothing" };
const API_KEY = `e2b_${"0".repeat(40)}`;

/** Hashes of the two passwords, made by bcrypt with one salt. */
const LOGINS = [
  "AWS:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
  "_json_key:$2y$05$abcdefghijklmnopqrstuulbXc6LUEUpFhyF6d6/WI0s46Ip7ZFf6",
];

const stack = new AsyncDisposableStack();
let folder: TempFolder;
let ecr: FakeEcr;
let service: EmbeddedService;

beforeAll(async () => {
  folder = stack.use(await makeTempFolder());
  const directory = join(folder.path, "registry");
  const registry = stack.use(await startRegistry({ directory, login: LOGINS.join("\n") }));
  ecr = stack.use(await startFakeEcr(`AWS:${PASSWORD}`));
  const images = stack.use(await makeTestImages(["amazon", "google"]));
  for (const name of ["amazon", "google"]) await images.push(name, registry, `AWS:${PASSWORD}`);
  const to = `http://${registry.host}`;
  service = stack.use(
    await startEmbeddedService({
      home: join(folder.path, "home"),
      instance: undefined,
      // No sandbox is started: the builds have no step and no command.
      engine: createLayerEngine(),
      limits: { memoryMb: 512, cpus: 2, diskMb: 2048, pids: 512 },
      maxSandboxes: 1,
      poolSize: 0,
      builtIns: [],
      allowHostTemplate: false,
      domain: "sandbox.localhost",
      tcp: [{ host: "127.0.0.1", port: 0 }],
      apiKeys: [API_KEY],
      onExit: "kill",
      // With every field of an error, which the log of the program leaves out.
      log: pino(
        { level: "trace" },
        pino.destination({ dest: join(folder.path, "log"), sync: true }),
      ),
      images: {
        perlDirectory: PERL_DIRECTORY,
        mirrors: [ECR_HOST, GOOGLE_HOST].map((from) => ({ from, to })),
        ecrEndpoint: ecr.endpoint,
      },
    }),
  );
}, LIMIT_MS);

afterAll(() => stack.disposeAsync());

async function build(name: string, template: ReturnType<ReturnType<typeof Template>["fromImage"]>) {
  const apiUrl = `http://127.0.0.1:${service.ports[0]}`;
  const lines: string[] = [];
  const onBuildLogs = ({ message }: { readonly message: string }) => void lines.push(message);
  await Template.build(template, name, { apiKey: API_KEY, apiUrl, onBuildLogs });
  return lines.join("\n");
}

test("the key of AWS becomes the login of its registry", { timeout: LIMIT_MS }, async () => {
  const image = `${ECR_HOST}/team/amazon:1`;
  const wrong = build("amazon", Template().fromAWSRegistry(image, OTHER_KEY));
  await expect(wrong).rejects.toThrow(
    "Amazon ECR in eu-west-1 refuses this access key: 400 InvalidSignatureException",
  );
  const lines = await build("amazon", Template().fromAWSRegistry(image, ECR_KEY));
  expect(lines).toMatch(new RegExp(`^image ${ECR_HOST}/team/amazon@sha256:[0-9a-f]{64}$`, "m"));
  // A login that is over: what AWS gives is no login of the registry.
  const data = [{ authorizationToken: Buffer.from("AWS:hidden-token").toString("base64") }];
  ecr.answer(200, JSON.stringify({ authorizationData: data }));
  const late = build("late", Template().fromAWSRegistry(`${ECR_HOST}/team/google:1`, ECR_KEY));
  await expect(late).rejects.toThrow(/refuses this login/);
});

test("the key of Google is the password of its registry", { timeout: LIMIT_MS }, async () => {
  const image = `${GOOGLE_HOST}/team/google:1`;
  const serviceAccountJSON = { ...ACCOUNT, private_key: "hidden-key-of-nothing" };
  const wrong = build("google", Template().fromGCPRegistry(image, { serviceAccountJSON }));
  await expect(wrong).rejects.toThrow(/refuses this login/);
  const right = Template().fromGCPRegistry(image, { serviceAccountJSON: ACCOUNT });
  expect(await build("google", right)).toMatch(
    new RegExp(`^image ${GOOGLE_HOST}/team/google@sha256:[0-9a-f]{64}$`, "m"),
  );
});

test(
  "no file of the service and no line of its log has a secret",
  { timeout: LIMIT_MS },
  async () => {
    const amazon = `${ECR_HOST}/team/amazon:1`;
    const google = `${GOOGLE_HOST}/team/google:1`;
    for (const key of [OTHER_KEY, ECR_KEY]) {
      await build("kept", Template().fromAWSRegistry(amazon, key)).catch(() => "refused");
    }
    await build("kept", Template().fromGCPRegistry(google, { serviceAccountJSON: ACCOUNT }));
    const secrets = [
      OTHER_KEY.secretAccessKey,
      ECR_KEY.secretAccessKey,
      ECR_KEY.accessKeyId,
      ACCOUNT.private_key,
      "hidden-token",
      ...[`AWS:${PASSWORD}`, "AWS:hidden-token"].map((text) =>
        Buffer.from(text).toString("base64"),
      ),
      Buffer.from(`_json_key:${JSON.stringify(ACCOUNT)}`).toString("base64"),
    ];
    const patterns = secrets.flatMap((text) => ["-e", text]);
    const places = [join(folder.path, "home"), join(folder.path, "log")];
    const grep = (words: readonly string[]) => promisify(execFile)("grep", [...words, ...places]);
    await expect(grep(["-rlaF", ...patterns])).rejects.toMatchObject({ code: 1 });
    // What is searched has the builds.
    expect((await grep(["-rlaF", "-e", "build failed"])).stdout).toContain("log");
  },
);
