/** References of images, and the mirrors of their registries. */

import { dirname } from "node:path";
import { expect, test } from "vitest";
import { parseReference, toSource } from "../../../src/images/reference.ts";
import { registryMirrors } from "../../../src/setting-values.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;

test.for([
  ["debian", "docker://docker.io/library/debian:latest"],
  ["debian:12", "docker://docker.io/library/debian:12"],
  ["owner/name", "docker://docker.io/owner/name:latest"],
  ["docker://ghcr.io/owner/name:v1.0", "docker://ghcr.io/owner/name:v1.0"],
  [`ghcr.io/owner/name@${DIGEST}`, `docker://ghcr.io/owner/name@${DIGEST}`],
  [`ghcr.io/owner/name:v1@${DIGEST}`, `docker://ghcr.io/owner/name@${DIGEST}`],
  ["localhost:5000/name", "docker://localhost:5000/name:latest"],
  ["registry:5000/name", "docker://registry:5000/name:latest"],
  ["oci:/srv/image", "oci:/srv/image"],
  ["docker-archive:in/saved.tar:a/b:tag", `docker-archive:${process.cwd()}/in/saved.tar:a/b:tag`],
  ["oci:../image:tag", `oci:${dirname(process.cwd())}/image:tag`],
] as const)("%s is %s", ([text, address]) => {
  expect(toSource(parseReference(text), []).address).toBe(address);
});

test.for([
  "",
  "-flag",
  "--authfile=/etc/shadow",
  "name with blank",
  "name\n",
  "Debian",
  "a//b",
  "../name",
  "name:",
  "name@sha256:abc",
  "dir:/etc",
  "oci-archive:/x",
  "docker-daemon:x:y",
  "docker://",
  "host:99999999/x",
  "x".repeat(2_000),
  "oci:",
  "oci://x",
  "https://ghcr.io/owner/name",
  "name;id",
  "$(id)",
])("%j is no image", (text) => {
  expect(() => parseReference(text)).toThrow(/no image is called/);
});

test("the longest rule of a mirror decides, and keeps the name", () => {
  const mirrors = registryMirrors.parse(
    "docker.io=one.example,docker.io/library=http://two.example:5000/hub",
  );
  const library = toSource(parseReference("debian:12"), mirrors);
  expect(library).toEqual({
    address: "docker://two.example:5000/hub/debian:12",
    host: "two.example:5000",
    isPlain: true,
    isMirrored: true,
    name: "docker.io/library/debian",
  });
  const other = toSource(parseReference("owner/name"), mirrors, DIGEST);
  expect(other).toMatchObject({
    address: `docker://one.example/owner/name@${DIGEST}`,
    isPlain: false,
    isMirrored: true,
  });
  expect(toSource(parseReference("docker.iox/owner/name"), mirrors).host).toBe("docker.iox");
});

test.for([
  "Docker.IO/debian:12",
  "index.docker.io/debian:12",
  "registry-1.docker.io/library/debian:12",
  "DOCKER.io/library/debian:12",
])("a rule of a mirror holds for %s, another spelling of its registry", (text) => {
  const mirrors = registryMirrors.parse("docker.io=mirror.example");
  expect(toSource(parseReference(text), mirrors)).toMatchObject({
    address: "docker://mirror.example/library/debian:12",
    name: "docker.io/library/debian",
  });
});

test("a rule of a mirror for an older name of a registry holds for that registry", () => {
  const mirrors = registryMirrors.parse(
    "index.docker.io=mirror.example,index.docker.io/a=b.example",
  );
  const found = ["debian:12", "a/b"].map((text) => toSource(parseReference(text), mirrors).address);
  expect(found).toEqual([
    "docker://mirror.example/library/debian:12",
    "docker://b.example/b:latest",
  ]);
});

test.for([
  ["127.0.0.1:5000/x", true],
  ["localhost/x", true],
  ["127.example.com/x", false],
  ["localhost.example.com/x", false],
] as const)("without TLS: %s %s", ([text, isPlain]) => {
  expect(toSource(parseReference(text), []).isPlain).toBe(isPlain);
});
