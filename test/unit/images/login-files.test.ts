/** Which logins are taken for a registry, whatever it is called in the files of docker and podman. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findImagePlace } from "../../../src/cluster/snapshots/image-place.ts";
import { findLoginFile, isLoginKeptElsewhere } from "../../../src/images/login-files.ts";
import { parseReference, toSource } from "../../../src/images/reference.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const CASES = [
  { key: "https://index.docker.io/v1/", image: "owner/name", isTaken: true },
  { key: "docker.io", image: "index.docker.io/owner/name", isTaken: true },
  { key: "index.docker.io", image: "owner/name", isTaken: true },
  { key: "index.docker.io", image: "index.docker.io/owner/name", isTaken: true },
  { key: "registry-1.docker.io", image: "Docker.IO/owner/name", isTaken: true },
  { key: "registry-1.docker.io", image: "registry-1.docker.io/owner/name", isTaken: true },
  { key: "ghcr.io", image: "GHCR.io/owner/name", isTaken: true },
  { key: "https://ghcr.io", image: "ghcr.io/owner/name", isTaken: true },
  { key: "ghcr.io", image: "owner/name", isTaken: false },
  { key: "docker.io", image: "ghcr.io/owner/name", isTaken: false },
  { key: "docker.io.example", image: "owner/name", isTaken: false },
];

async function writeLogins(folder: string, key: string): Promise<string> {
  const path = join(folder, "config.json");
  const auth = Buffer.from("tester:secret").toString("base64");
  await writeFile(path, JSON.stringify({ auths: { [key]: { auth } } }));
  return path;
}

test.for(CASES)("skopeo is given the login of $key for $image: $isTaken", async (one) => {
  await using folder = await makeTempFolder();
  const path = await writeLogins(folder.path, one.key);
  const { host = "" } = toSource(parseReference(one.image), []);
  expect(await findLoginFile([path], host)).toBe(one.isTaken ? path : undefined);
});

test.for([
  // As docker leaves them where a program keeps its logins, which skopeo does not ask.
  {
    logins: { auths: { "https://index.docker.io/v1/": {} }, credsStore: "desktop" },
    isTaken: false,
  },
  { logins: { auths: {}, credsStore: "desktop" }, isTaken: false },
  { logins: { auths: { "docker.io": { auth: "" } } }, isTaken: false },
  { logins: { auths: { "docker.io": { auth: "", identitytoken: "token" } } }, isTaken: true },
  { logins: { auths: { "docker.io": {} }, credHelpers: { "docker.io": "x" } }, isTaken: true },
  { logins: { auths: { "docker.io": null } }, isTaken: false },
  { logins: { auths: { "docker.io/owner": { auth: "dTpz" } } }, isTaken: true },
])("skopeo is given no file without a login in it: $logins", async ({ logins, isTaken }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "config.json");
  await writeFile(path, JSON.stringify(logins));
  const { host = "" } = toSource(parseReference("debian:12"), []);
  expect(await findLoginFile([path], host)).toBe(isTaken ? path : undefined);
});

test.for([
  { logins: { auths: { "https://index.docker.io/v1/": {} }, credsStore: "desktop" }, isKept: true },
  { logins: { auths: { "docker.io/owner": {} }, credsStore: "desktop" }, isKept: true },
  { logins: { auths: { "ghcr.io": {} }, credsStore: "desktop" }, isKept: false },
  { logins: { auths: { "docker.io": {} }, credsStore: "" }, isKept: false },
  { logins: { auths: { "docker.io": {} } }, isKept: false },
  { logins: { credsStore: "desktop" }, isKept: false },
  { logins: "{", isKept: false },
])("docker has left the login to a program by $logins: $isKept", async ({ logins, isKept }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "config.json");
  await writeFile(path, typeof logins === "string" ? logins : JSON.stringify(logins));
  const { host = "" } = toSource(parseReference("debian:12"), []);
  expect(await isLoginKeptElsewhere([join(folder.path, "missing"), path], host)).toBe(isKept);
});

test.for([...CASES, { key: "GHCR.IO", image: "GHCR.IO/owner/name", isTaken: true }])(
  "a front has the login of $key for $image: $isTaken",
  async ({ key, image, isTaken }) => {
    await using folder = await makeTempFolder();
    const loginFile = await writeLogins(folder.path, key);
    const { place } = await findImagePlace(image, { registry: "example.com/s", loginFile });
    const login = { username: "tester", password: "secret" };
    expect(place.credentials).toEqual(isTaken ? login : undefined);
  },
);

test.for([
  { auths: { "ghcr.io": {} }, credsStore: "desktop" },
  { auths: { "https://ghcr.io": { email: "a@b.c" } }, credsStore: "desktop" },
  { auths: {}, credHelpers: { "ghcr.io": "gcloud" } },
  { credHelpers: { "GHCR.io": "gcloud" } },
  { auths: { "ghcr.io": { auth: "bm8gY29sb24=" } } },
  { auths: { "ghcr.io": { auth: "", identitytoken: "token" } } },
])("a front refuses a file that keeps the login elsewhere: %j", async (logins) => {
  await using folder = await makeTempFolder();
  const loginFile = join(folder.path, "config.json");
  await writeFile(loginFile, JSON.stringify(logins));
  const settings = { registry: "example.com/s", loginFile };
  await expect(findImagePlace("ghcr.io/owner/name", settings)).rejects.toMatchObject({
    code: "failed_precondition",
    message: "the login of the registry ghcr.io is in no form that is read",
    hint: "--snapshot-registry-login names a file with auth or with username and password",
  });
  // A registry that the file does not name needs none.
  const { place } = await findImagePlace("debian:12", settings);
  expect(place.credentials).toBeUndefined();
});
