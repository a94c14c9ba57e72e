/** Schemas of the values of settings, which come as text. */

import { isIP } from "node:net";
import { z } from "./common/schema.ts";
import { isForShell } from "./common/shell-path.ts";
import { toNamePattern } from "./egress/host-names.ts";
import { MIRROR_PATTERN, parseMirror } from "./images/reference.ts";

/** A row of the table of settings. */
export interface Setting {
  /** The flag without its dashes; absent for settings that only the environment gives. */
  readonly flag?: string;
  /** Absent in a row where it follows from the flag. */
  readonly environment?: string;
  /** One letter, for what people type often. */
  readonly short?: string;
  readonly schema: z.ZodType;
  /** A flag without a value: naming it means true. */
  readonly isSwitch?: true;
  readonly help: string;
}

/** They are about one run: no variable gives them. */
const WITHOUT_VARIABLE: ReadonlySet<string> = new Set([
  "conformance",
  "file",
  "help",
  "if-missing",
  "json",
  "name",
  "team",
  "version",
]);

/** The setting with its variable: `SANDBOX_MCP_` and the flag where the row names no other one. */
export function withVariable(row: Setting): Setting {
  const { flag: name, environment } = row;
  if (name === undefined || environment !== undefined || WITHOUT_VARIABLE.has(name)) return row;
  return { ...row, environment: `SANDBOX_MCP_${name.toUpperCase().replaceAll("-", "_")}` };
}

const GIVEN_TWICE = "a name is given twice";

function isOnce(names: readonly string[]): boolean {
  return new Set(names).size === names.length;
}

/** Each is some 15 MB of memory that no client uses yet. */
export const MAX_POOL = 100;
/** Each looks for quiet moments by itself. */
const MAX_POOL_SHARES = 16;

export const text = z.string().min(1, "expected a value");
export const flag = z.stringbool("expected true or false");

/** Of a file or directory. */
export const path = text.refine(
  (value) => !isForShell(value),
  "expected a path without ~ or a variable at its beginning, which only a shell replaces",
);

/** One of these words. */
export function oneOf<const Word extends string>(words: readonly [Word, ...Word[]]) {
  const last = words.at(-1) ?? "";
  const others = words.slice(0, -1).join(", ");
  return z.enum(words, `expected ${others === "" ? last : `${others} or ${last}`}`);
}

export function integer(min: number, max: number) {
  const fault = `expected a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^[0-9]{1,15}$/, fault)
    .transform(Number)
    .refine((value) => value >= min && value <= max, fault);
}

/** Of a service that is called by HTTP. */
export const webUrl = z.url({ protocol: /^https?$/, error: "expected a URL of http or https" });

/** A header carries it, in MCP after the word Bearer. */
export const key = z
  .string()
  .regex(/^[!-~]+$/, "expected a key of visible ASCII characters, no space or line break");

const MAX_OWN_KEY_CHARACTERS = 512;

/** A key that this program accepts. */
export const ownKey = key.max(
  MAX_OWN_KEY_CHARACTERS,
  `expected at most ${MAX_OWN_KEY_CHARACTERS} characters`,
);

const MAX_PORT = 65_535;

/** Between two dots; some networks have names with an underscore. */
const LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?";
const NAME_PATTERN = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`, "i");
const MAX_DOMAIN_CHARACTERS = 200;

/** A domain name, with a port or without. */
export const domainName = z
  .string()
  .refine(
    (name) => isDomain(name.replace(/:[0-9]{1,5}$/, "")),
    "expected a domain name, not an address",
  )
  .refine((name) => isPort(name.split(":")[1]), `expected a port from 1 to ${MAX_PORT}`);

function isDomain(name: string): boolean {
  // No program takes a name below an address, such as `api.192.0.2.1`, for a name.
  const isAddress = /(?:^|\.)[0-9]+$/.test(name);
  return name.length <= MAX_DOMAIN_CHARACTERS && NAME_PATTERN.test(name) && !isAddress;
}

function isPort(digits = "1"): boolean {
  return Number(digits) >= 1 && Number(digits) <= MAX_PORT;
}

/** What a listener is bound to: the kernel and the system's names decide whether it can be. */
export const listenHost = z
  .string()
  .refine(
    (host) =>
      isIP(host) !== 0 || (NAME_PATTERN.test(host) && !/^[0-9]+(?:\.[0-9]+){3}$/.test(host)),
    "expected an address or a name, without port and brackets",
  );

const poolShare = z
  .string()
  .regex(/^[^=\s]{1,256}=[0-9]{1,3}$/, "expected NAME=N")
  .transform((share) => ({
    template: share.slice(0, share.lastIndexOf("=")),
    size: Number(share.slice(share.lastIndexOf("=") + 1)),
  }))
  .refine(({ size }) => size <= MAX_POOL, `expected at most ${MAX_POOL}`);

export const poolShares = text
  .transform((list) => list.split(","))
  .pipe(z.array(poolShare).max(MAX_POOL_SHARES, `expected at most ${MAX_POOL_SHARES} templates`))
  .refine((shares) => isOnce(shares.map(({ template }) => template)), GIVEN_TWICE);

/** Who waits longer than a month keeps memory in the process. */
const MAX_MOVE_SECONDS = 2_592_000;

/** When the memory of paused sandboxes is moved to disk: seconds after the pause, and at the end. */
const moveTimes = z
  .string()
  .regex(/^(?:(?:after=)?[0-9]{1,9}(?:,exit)?|exit)$/, "expected after=N, exit or after=N,exit")
  .transform((value) => {
    const digits = /[0-9]+/.exec(value)?.[0];
    const afterSeconds = digits === undefined ? undefined : Number(digits);
    return { afterSeconds, isAtExit: value.endsWith("exit") };
  })
  .refine(
    ({ afterSeconds = 0 }) => afterSeconds <= MAX_MOVE_SECONDS,
    `expected at most ${MAX_MOVE_SECONDS} seconds`,
  );

export const pauseToDisk = {
  flag: "pause-to-disk",
  schema: moveTimes,
  help: "serve: after=N, exit or after=N,exit: when the memory of paused gVisor sandboxes moves to disk",
} as const satisfies Setting;

export const encryptsSnapshots = {
  flag: "encrypt-snapshots",
  schema: flag,
  isSwitch: true,
  help: "encrypt the memory (not the files) of gVisor snapshots and pauses on disk",
} as const satisfies Setting;

const ADDRESSES = "expected IPv4 addresses joined by commas";
const address = z.ipv4(ADDRESSES);
const MAX_RESOLVERS = 3;
/** Of this host and network, of loopback, and from multicast on: nothing that a sandbox sends arrives there. */
const NO_PEER = /^(?:0|127|22[4-9]|2[3-5][0-9])\./;

/** Of name servers that sandboxes ask. */
export const addresses = text
  .transform((list) => list.split(","))
  .pipe(z.array(address).max(MAX_RESOLVERS, `expected at most ${MAX_RESOLVERS} addresses`))
  .refine(
    (list) => !list.some((one) => NO_PEER.test(one)),
    "expected addresses that sandboxes reach, none of loopback or multicast",
  );

const MAX_BUILD_HOSTS = 100;
const SWITCHES: ReadonlySet<string> = new Set(["on", "off"]);
const networks = z.union(
  [z.ipv4(), z.cidrv4()],
  "expected IPv4 addresses and networks joined by commas",
);

/** Empty for nothing, `on` alone for everything. */
export const buildHosts = text
  .transform((list) => (list === "off" ? [] : list.split(",")))
  .pipe(z.array(z.string()).max(MAX_BUILD_HOSTS, `expected at most ${MAX_BUILD_HOSTS} names`))
  // A list in which `on` stands would open what its author wanted shut.
  .refine(
    (hosts) => hosts.length === 1 || !hosts.some((host) => SWITCHES.has(host)),
    "on and off stand alone",
  )
  .refine(
    (hosts) => hosts.every((host) => networks.safeParse(host).success || isName(host)),
    "expected on, off, or hostnames and IPv4 networks joined by commas",
  );

function isName(host: string): boolean {
  return toNamePattern(host) !== undefined;
}

const MAX_EGRESS_ENTRIES = 100;

/** IPv4 networks joined by commas. */
export const networkList = text
  .transform((list) => list.split(","))
  .pipe(z.array(networks).max(MAX_EGRESS_ENTRIES, `expected at most ${MAX_EGRESS_ENTRIES}`));

/** IPv4 addresses joined by commas. */
export const addressList = text
  .transform((list) => list.split(","))
  .pipe(z.array(address).max(MAX_EGRESS_ENTRIES, `expected at most ${MAX_EGRESS_ENTRIES}`));

/** `HOST/REPOSITORY`, with `http://` before it for a registry without TLS. */
export const registryPlace = z
  .string()
  .max(512, "expected at most 512 characters")
  .regex(
    /^(?:http:\/\/)?[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)+$/,
    "expected HOST/REPOSITORY in lower case",
  );

const MAX_POD_IMAGES = 100;

const podImage = z
  .string()
  .regex(
    /^[a-z0-9_-]{1,128}=[a-z0-9][\w.:/@-]{0,511}$/,
    "expected NAME=IMAGE with a lower-case name",
  )
  .transform((pair) => ({
    name: pair.slice(0, pair.indexOf("=")),
    image: pair.slice(pair.indexOf("=") + 1),
  }));

export const podImages = text
  .transform((list) => list.split(","))
  .pipe(z.array(podImage).max(MAX_POD_IMAGES, `expected at most ${MAX_POD_IMAGES} images`))
  .refine((images) => isOnce(images.map(({ name }) => name)), GIVEN_TWICE);

const registryMirror = z
  .string()
  .regex(MIRROR_PATTERN, "expected FROM=TO, as docker.io=mirror.example.com")
  .transform(parseMirror);

export const registryMirrors = text
  .transform((list) => list.split(","))
  .pipe(z.array(registryMirror));
