/**
 * E60: a registry that a request names leads the service nowhere but to the internet, whatever it
 * answers, and ends with a clear error whatever it sends.
 */

import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { registryMirrors } from "../../../src/setting-values.ts";
import {
  INDEX_TYPE,
  makeImageParts,
  startCanary,
  startFakeNames,
  startFakeRegistry,
  type Canary,
  type FakeNames,
  type FakeRegistry,
  type ImageParts,
  type Reply,
} from "../../support/hostile/hostile-registry.ts";
import { digestOf } from "../../support/images/oci-layout.ts";
import { pullImage } from "../../support/images/pull-image.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

const LIMIT_MS = 90_000;
const IMAGE = "hostile.example/team/app:1";
const PUBLIC_ADDRESS = "192.0.2.7";

const stack = new AsyncDisposableStack();
let folder: TempFolder;
let registry: FakeRegistry;
let canary: Canary;
let names: FakeNames;
let parts: ImageParts;

beforeAll(async () => {
  folder = stack.use(await makeTempFolder());
  registry = stack.use(await startFakeRegistry());
  canary = stack.use(await startCanary());
  names = stack.use(
    await startFakeNames({
      "inside.test": ["127.0.0.1"],
      "rebind.test": [PUBLIC_ADDRESS, "127.0.0.1"],
      "moved.test": [PUBLIC_ADDRESS, "127.0.0.1"],
      "metadata.test": ["169.254.169.254"],
    }),
  );
  parts = await makeImageParts();
});
afterAll(() => stack.disposeAsync());

interface PullCase {
  readonly image?: string;
  readonly isOfRequest?: boolean;
  readonly maxBytes?: number;
  /** One more rule. */
  readonly mirror?: string;
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
}

/** A pull whose fault is returned. */
async function pullFault(more: PullCase = {}): Promise<SandboxError | undefined> {
  const { image = IMAGE, isOfRequest = true, maxBytes, mirror, onProgress, signal } = more;
  const rules = [
    `hostile.example=http://${registry.host}`,
    ...(mirror === undefined ? [] : [mirror]),
  ];
  try {
    const fetched = await pullImage(image, {
      home: folder.path,
      isOfRequest,
      perlDirectory: PERL_DIRECTORY,
      nameServers: [names.address],
      mirrors: registryMirrors.parse(rules.join(",")),
      maxBytes,
      ...(onProgress && { onProgress }),
      signal: signal ?? AbortSignal.timeout(LIMIT_MS),
    });
    await fetched[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    if (error instanceof SandboxError) return error;
    throw error;
  }
}

/** What became of a pull, as the log has it: the code and words of its fault, or `ok`. */
async function pull(more: PullCase = {}): Promise<string> {
  const fault = await pullFault(more);
  if (fault === undefined) return "ok";
  // A request is told less of a mirror.
  const { cause } = fault;
  const isHidden = MIRROR_FAULTS.includes(fault.message) && cause instanceof SandboxError;
  return `${fault.code}: ${(isHidden ? cause : fault).message}`;
}

const MIRROR_FAULTS = [
  "the image was not fetched: the service's mirror of its registry did not send it",
  "the image was not fetched: there is no such image",
  "the image was not fetched: the registry refuses this login",
];

/** Addresses of this machine that are not loopback, as they stand in a URL. */
function ownHosts(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ internal, scopeid = 0 }) => !internal && scopeid === 0)
    .map(({ address, family }) => (family === "IPv6" ? `[${address}]` : address));
}

const LOOPBACK_HOSTS = ["127.0.0.1", "localhost", "[::1]", "127.8.9.1", "[::ffff:127.0.0.1]"];
const REFUSED_HOSTS = [
  "inside.test",
  "metadata.test",
  "169.254.169.254",
  "168.63.129.16",
  "100.100.100.200",
  "192.0.0.192",
  "10.1.2.3",
  "[fd00:ec2::254]",
  "[::ffff:10.1.2.3]",
  "0.0.0.0",
  "2130706433",
];

type Way = (target: string) => { readonly manifest?: unknown; readonly reply?: Reply };

/** Where a layer has other addresses, the registry is asked for it in the end. */
const URLS = "an address of a layer in the manifest";

/** What a registry can say so that its client connects to `target`. */
const WAYS: Readonly<Record<string, Way>> = {
  "a redirection of a layer": (target) => ({
    reply(request, response) {
      if (request.url?.endsWith(digestOf(parts.layer)) !== true) return;
      response.writeHead(307, { location: `${target}/layer` }).end();
    },
  }),
  "a redirection of the manifest": (target) => ({
    reply(request, response) {
      if (request.url?.includes("/manifests/") !== true) return;
      response.writeHead(302, { location: `${target}/manifest` }).end();
    },
  }),
  "the place of tokens": (target) => ({
    reply(request, response) {
      if (request.headers.authorization !== undefined) return;
      const realm = `Bearer realm="${target}/token",service="a",scope="repository:team/app:pull"`;
      response.writeHead(401, { "www-authenticate": realm }).end();
    },
  }),
  [URLS]: (target) => ({
    manifest: {
      schemaVersion: 2,
      config: parts.configFacts,
      layers: [{ ...parts.layerFacts, urls: [`${target}/layer`] }],
    },
  }),
};

describe.for(Object.entries(WAYS))("E60 %s", ([name, way]) => {
  test("leads to no listener of this machine", async () => {
    for (const host of [...LOOPBACK_HOSTS, ...ownHosts()]) {
      registry.serve(parts, way(`http://${host}:${canary.port}`));
      const before = registry.asked();
      const outcome = await pull();
      expect([host, canary.touched()]).toEqual([host, 0]);
      const isRight =
        name === URLS ? outcome === "ok" : /^(?:permission_denied|unavailable): /.test(outcome);
      expect([host, outcome, isRight]).toEqual([host, outcome, true]);
      expect(registry.asked()).toBeGreaterThan(before);
    }
  });

  test("leads to no address of the service's network, by number or name", async () => {
    for (const host of REFUSED_HOSTS) {
      registry.serve(parts, way(`http://${host}:${canary.port}`));
      const outcome = await pull();
      const refused = `permission_denied: registry ${hostOf(host)} is in the network of the service`;
      expect([host, outcome]).toEqual([host, name === URLS ? "ok" : refused]);
    }
    expect(canary.touched()).toBe(0);
  });
});

/** As a URL has it, without brackets. */
function hostOf(host: string): string {
  return new URL(`http://${host}`).hostname.replace(/^\[(.*)\]$/, "$1");
}

test("E60 a refusal names the host and the setting", async () => {
  const way = WAYS["a redirection of a layer"];
  registry.serve(parts, way?.(`http://inside.test:${canary.port}`));
  expect(await pull()).toBe(
    "permission_denied: registry inside.test is in the network of the service",
  );
});

function answer(status: number, headers = {}): { reply: Reply } {
  return { reply: (_request, response) => void response.writeHead(status, headers).end() };
}

test("E60 a fault of a mirror names neither it nor what it leads to", async () => {
  for (const reply of [
    answer(404),
    answer(401, { "www-authenticate": `Bearer realm="http://inside.test/token"` }),
    answer(403),
    answer(500),
    WAYS["a redirection of a layer"]?.(`http://inside.test:${canary.port}`),
  ]) {
    registry.serve(parts, reply);
    const lines: string[] = [];
    const fault = await pullFault({ onProgress: (line) => void lines.push(line) });
    expect(MIRROR_FAULTS).toContain(fault?.message);
    expect(fault?.hint).toBeUndefined();
    expect(lines.filter((line) => /127\.0|inside/.test(line))).toEqual([]);
  }
});

test("E60 a name that resolves to another address the second time is refused then", async () => {
  const outcome = await pull({ image: `rebind.test:${canary.port}/team/app:1` });
  expect(outcome).toBe("permission_denied: registry rebind.test is in the network of the service");
  expect(canary.touched()).toBe(0);
});

test("E60 a registry without a rule is led to no host that rules lead to", async () => {
  const place = `moved.test:${canary.port}`;
  const rules = { image: `${place}/team/app:1`, mirror: `other.example=http://${place}` };
  expect(await pull(rules)).toBe(
    "permission_denied: registry moved.test is in the network of the service",
  );
  expect(canary.touched()).toBe(0);
});

test("E60 a registry at an address of this machine's own is refused", async () => {
  for (const host of [...LOOPBACK_HOSTS, ...ownHosts()]) {
    const outcome = await pull({ image: `${host}:${canary.port}/team/app:1` });
    expect([host, outcome]).toEqual([host, expect.toSatisfy(isRefusedOrMalformed)]);
  }
  expect(canary.touched()).toBe(0);
});

function isRefusedOrMalformed(outcome: string): boolean {
  return /^(?:permission_denied|invalid_argument): /.test(outcome);
}

test("E60 control: the owner of the service is led there", async () => {
  await using own = await startCanary();
  const way = WAYS["a redirection of a layer"];
  registry.serve(parts, way?.(`http://127.0.0.1:${own.port}`));
  await pull({ isOfRequest: false });
  expect(own.touched()).toBeGreaterThan(0);
});

test("E60 what is honest is fetched", async () => {
  // A bullet has a quotation mark as its last byte in UTF-16.
  const annotations = { title: "a \u2022 b" };
  const layers = [parts.layerFacts];
  const manifest = { schemaVersion: 2, config: parts.configFacts, layers, annotations };
  registry.serve(parts, { manifest });
  expect(await pull()).toBe("ok");
});

const many = (count: number, item: unknown) => Array.from({ length: count }, () => item);

/** What is sent, and the error that it ends in. */
const BOUNDED: readonly {
  readonly name: string;
  readonly serve: () => Parameters<FakeRegistry["serve"]>[1];
  readonly fault: RegExp;
  readonly maxBytes?: number;
}[] = [
  {
    name: "a manifest of 5,000 layers",
    serve: () => ({
      manifest: {
        schemaVersion: 2,
        config: parts.configFacts,
        layers: many(5_000, parts.layerFacts),
      },
    }),
    fault: /^failed_precondition: the image is not valid: its manifest .*layers.*256/,
  },
  {
    name: "a list of 3,000 platforms",
    serve: () => ({
      type: INDEX_TYPE,
      manifest: {
        schemaVersion: 2,
        manifests: many(3_000, { mediaType: INDEX_TYPE, digest: digestOf(parts.config), size: 1 }),
      },
    }),
    fault: /^failed_precondition: the image is not valid: its manifest .*manifests.*1024/,
  },
  {
    name: "a manifest of 8 MiB",
    serve: () => ({ manifest: { schemaVersion: 2, padding: "x".repeat(8 * 1024 ** 2) } }),
    fault: /^unavailable: the image was not fetched: skopeo: .*4194304/,
  },
  {
    name: "a layer with another digest",
    serve: () => ({
      reply(request, response) {
        if (request.url?.endsWith(digestOf(parts.layer)) !== true) return;
        const other = Buffer.alloc(parts.layer.length, 1);
        response.writeHead(200, { "content-length": other.length }).end(other);
      },
    }),
    fault: /^unavailable: the image was not fetched: skopeo: .*[Dd]igest/,
  },
  {
    name: "a layer that is cut off",
    serve: () => ({
      reply(request, response) {
        if (request.url?.endsWith(digestOf(parts.layer)) !== true) return;
        response.writeHead(200, { "content-length": parts.layer.length });
        response.write(parts.layer.subarray(0, 100), () => response.destroy());
      },
    }),
    fault: /^unavailable: the image was not fetched: skopeo: /,
  },
  {
    name: "a layer without end",
    serve: () => ({
      reply(request, response) {
        if (request.url?.endsWith(digestOf(parts.layer)) !== true) return;
        const piece = Buffer.alloc(1024 ** 2);
        const more = () => {
          while (!response.destroyed && response.write(piece));
        };
        response.writeHead(200).on("drain", more);
        more();
      },
    }),
    maxBytes: 8 * 1024 ** 2,
    fault:
      /^(?:resource_exhausted: the image has more than 8388608 bytes|unavailable: .*File too large)/,
  },
  {
    name: "a manifest that claims more than an image may have",
    serve: () => ({
      manifest: {
        schemaVersion: 2,
        config: parts.configFacts,
        layers: [{ ...parts.layerFacts, size: 2 ** 50 }],
      },
    }),
    fault: /^resource_exhausted: the image has more than 8589934592 bytes/,
  },
  {
    name: "redirections in a circle",
    serve: () => ({
      reply(request, response) {
        if (request.url?.includes("/blobs/") !== true) return;
        response.writeHead(307, { location: request.url }).end();
      },
    }),
    fault: /^unavailable: the image was not fetched: skopeo: .*stopped after 10 redirect/,
  },
  {
    name: "a manifest that is no JSON",
    serve: () => ({
      reply(request, response) {
        if (request.url?.includes("/manifests/") === true) response.end("{{");
      },
    }),
    fault: /^(?:failed_precondition|unavailable): /,
  },
];

test.for(BOUNDED)("E60 bounded: $name", async ({ serve, fault, maxBytes }) => {
  registry.serve(parts, serve());
  expect(await pull(maxBytes === undefined ? {} : { maxBytes })).toMatch(fault);
});

test("E60 the same layer many times is one layer", async () => {
  const layers = many(200, parts.layerFacts);
  registry.serve(parts, { manifest: { schemaVersion: 2, config: parts.configFacts, layers } });
  expect(await pull()).toBe("ok");
});

test("E60 a registry that is silent is left when the build is cancelled", async () => {
  const stop = new AbortController();
  registry.serve(parts, {
    reply(request, response) {
      if (request.url?.includes("/blobs/") !== true) return;
      response.writeHead(200, { "content-length": 1_000_000 });
      response.write("x", () => stop.abort());
    },
  });
  expect(await pull({ signal: stop.signal })).toMatch(/^canceled: /);
});
