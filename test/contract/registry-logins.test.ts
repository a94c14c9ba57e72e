/** Logins of registries in requests for builds: what is refused at once, and what AWS is asked. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { fetchEcrLogin } from "../../src/images/ecr.ts";
import { checkRegistryLogin, toCredentials } from "../../src/images/registry-login.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { ECR_HOST, ECR_KEY, startFakeEcr } from "../support/images/fake-ecr.ts";
import { startTestService, type TestService } from "../support/service.ts";

const IMAGE = `${ECR_HOST}/team/app:1`;
const AWS = {
  type: "aws",
  awsAccessKeyId: ECR_KEY.accessKeyId,
  awsSecretAccessKey: ECR_KEY.secretAccessKey,
  awsRegion: ECR_KEY.region,
};
const PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----";
const NEVER = new AbortController().signal;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine() });
});
afterAll(() => service[Symbol.asyncDispose]());

async function start(fromImage: string, fromImageRegistry: unknown) {
  const limits = { cpus: undefined, memoryMb: undefined };
  const { builds } = service.embedded.sandboxes;
  const { template, build } = builds.request({ name: "logins", tags: [], ...limits });
  const path = `/v2/templates/${template.templateId}/builds/${build.buildId}`;
  return service.call({ method: "POST", path, body: { fromImage, fromImageRegistry } });
}

test.for([
  {
    image: "docker.io/library/app:1",
    login: AWS,
    message: "docker.io is no registry of Amazon ECR, as ACCOUNT.dkr.ecr.REGION.amazonaws.com",
  },
  {
    image: `${ECR_HOST}.evil.example/app:1`,
    login: AWS,
    message: `${ECR_HOST}.evil.example is no registry of Amazon ECR, as ACCOUNT.dkr.ecr.REGION.amazonaws.com`,
  },
  {
    image: IMAGE,
    login: { ...AWS, awsRegion: "us-east-1" },
    message: "the registry is in eu-west-1, the login is for another region",
  },
  {
    image: IMAGE,
    login: { ...AWS, awsRegion: "eu-west-1.evil.example/" },
    message: "the registry is in eu-west-1, the login is for another region",
  },
  {
    image: IMAGE,
    login: { ...AWS, awsAccessKeyId: ECR_KEY.secretAccessKey },
    message: "the access key id of AWS is not valid",
  },
  ...[
    "no JSON",
    "[]",
    "{}",
    `{"private_key":"${PRIVATE_KEY}"}`,
    `{"private_key":"${PRIVATE_KEY}`,
  ].map((serviceAccountJson) => ({
    image: "eu-docker.pkg.dev/project/app:1",
    login: { type: "gcp", serviceAccountJson },
    message:
      "the service account of Google must be the JSON of its key, with private_key and client_email",
  })),
])("$image with $login → $message", async ({ image, login, message }) => {
  const { status, body } = await start(image, login);
  expect({ status, body }).toEqual({ status: 400, body: { code: 400, message } });
});

test("a login of the right form is taken", async () => {
  const serviceAccountJson = JSON.stringify({ private_key: PRIVATE_KEY, client_email: "a@b" });
  for (const [image, login] of [
    [IMAGE, AWS],
    ["eu-docker.pkg.dev/project/app:1", { type: "gcp", serviceAccountJson }],
  ] as const) {
    expect((await start(image, login)).status).toBe(202);
  }
});

test.for([
  [ECR_HOST, "eu-west-1"],
  ["123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"],
  ["123456789012.dkr-ecr.ap-southeast-2.on.aws", "ap-southeast-2"],
  ["123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"],
] as const)("%s is a registry of ECR", ([host, region]) => {
  const check = () => checkRegistryLogin({ kind: "aws", ...ECR_KEY, region }, `${host}/app:1`);
  expect(check).not.toThrow();
});

test("AWS is asked once, with a signature, and its token is the login", async () => {
  await using ecr = await startFakeEcr("AWS:pass:word");
  const options = { signal: NEVER, ecrEndpoint: ecr.endpoint };
  expect(await toCredentials({ kind: "aws", ...ECR_KEY }, IMAGE, options)).toEqual({
    username: "AWS",
    password: "pass:word",
  });
  expect(ecr.calls()).toBe(1);
});

const LONG = `{"authorizationData":"${"a".repeat(100_000)}"}`;

test.for([
  {
    name: "a key that AWS does not know",
    status: 400,
    body: '{"__type":"UnrecognizedClientException","message":"The security token is invalid."}',
    fault: ["permission_denied", "refuses this access key: 400 UnrecognizedClientException"],
  },
  {
    name: "a key without the right",
    status: 400,
    body: '{"__type":"com.amazon.coral#AccessDeniedException","Message":"no"}',
    fault: ["permission_denied", "refuses this access key: 400 AccessDeniedException"],
  },
  {
    name: "too many requests",
    status: 400,
    body: '{"__type":"ThrottlingException"}',
    fault: ["unavailable", "answered 400 ThrottlingException"],
  },
  { name: "a fault of AWS", status: 503, body: "<html>", fault: ["unavailable", "answered 503"] },
  { name: "no JSON", status: 200, body: "<html>", fault: ["unavailable", "sent no login"] },
  {
    name: "a type that is no word",
    status: 403,
    body: `{"__type":"${"a b".repeat(99)}"}`,
    fault: ["permission_denied", "refuses this access key: 403"],
  },
  {
    name: "a token that is no login",
    status: 200,
    body: '{"authorizationData":[{"authorizationToken":"QVdT"}]}',
    fault: ["unavailable", "sent no login"],
  },
  {
    name: "a reply that is too long",
    status: 200,
    body: LONG,
    fault: ["unavailable", "does not answer"],
  },
  { name: "a redirection", status: 302, body: "", fault: ["unavailable", "does not answer"] },
] as const)("$name → $fault", async ({ status, body, fault: [code, reason] }) => {
  await using ecr = await startFakeEcr("AWS:password");
  ecr.answer(status, body);
  await expect(fetchEcrLogin(ecr.endpoint, ECR_KEY, NEVER)).rejects.toMatchObject({
    code,
    message: `Amazon ECR in eu-west-1 ${reason}`,
  });
});

test("another secret is refused, and no part of an error repeats what was signed", async () => {
  await using ecr = await startFakeEcr("AWS:password");
  const login = { ...ECR_KEY, secretAccessKey: "another-secret" };
  const error: unknown = await fetchEcrLogin(ecr.endpoint, login, NEVER).catch(
    (thrown: unknown) => thrown,
  );
  expect(error).toMatchObject({
    code: "permission_denied",
    message: "Amazon ECR in eu-west-1 refuses this access key: 400 InvalidSignatureException",
  });
  expect(error).not.toHaveProperty("cause");
});

test("a build that is cancelled does not wait for AWS", async () => {
  await using ecr = await startFakeEcr("AWS:password");
  ecr.hang();
  const stop = new AbortController();
  const asked = fetchEcrLogin(ecr.endpoint, ECR_KEY, stop.signal);
  await expect.poll(() => ecr.calls()).toBe(1);
  stop.abort();
  await expect(asked).rejects.toMatchObject({ code: "canceled" });
});

test("an API that is away is unavailable", async () => {
  const ecr = await startFakeEcr("AWS:password");
  await ecr[Symbol.asyncDispose]();
  await expect(fetchEcrLogin(ecr.endpoint, ECR_KEY, NEVER)).rejects.toMatchObject({
    code: "unavailable",
    message: "Amazon ECR in eu-west-1 does not answer",
  });
});
