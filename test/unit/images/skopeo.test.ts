/** Which logins skopeo uses: those that it is given, and never those that it finds. */

import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { accessOptions, readLine, toPullFault } from "../../../src/images/skopeo.ts";

test.for([
  {
    name: "a registry without a login is asked without any",
    given: { host: "example.com", isPlain: false, path: undefined },
    words: ["--no-creds"],
  },
  {
    name: "a login is taken from its file",
    given: { host: "example.com", isPlain: true, path: "/proc/1/fd/9" },
    words: ["--authfile=/proc/1/fd/9", "--tls-verify=false"],
  },
  {
    name: "a file needs none",
    given: { host: undefined, isPlain: false, path: undefined },
    words: [],
  },
])("$name", ({ given, words }) => {
  expect(accessOptions(given, given.path)).toEqual(words);
});

const digest = `sha256:${"0".repeat(30)}401${"0".repeat(28)}403`;

test.for([
  ["reading manifest 1 in 127.0.0.1:5000/a/b: manifest unknown", "not_found"],
  ["unauthorized: authentication required", "permission_denied"],
  ["invalid status code from registry 403 (Forbidden)", "permission_denied"],
  ["received unexpected HTTP status: 401 Unauthorized", "permission_denied"],
  ["StatusCode: 403, <html>", "permission_denied"],
  ["denied: requested access to the resource is denied", "permission_denied"],
  ["reading registries.conf.d: lstat /root/.config: permission denied", "unavailable"],
  ["pinging container registry 127.0.0.1:40103: connection refused", "unavailable"],
  ["pinging container registry 127.0.0.1:401: connection refused", "unavailable"],
  [`Digest did not match, expected ${digest}, got ${digest}`, "unavailable"],
  ["received unexpected HTTP status: 500 Internal Server Error", "unavailable"],
] as const)("of a fetch that failed, %s means %s", ([said, code]) => {
  expect(toPullFault(new SandboxError("unavailable", `skopeo: ${said}`))).toMatchObject({ code });
});

const stamp = 'time="2026-01-02T03:04:05Z"';

test.for([
  ["Copying blob sha256:00", "", "Copying blob sha256:00"],
  [`${stamp} level=warning msg="it \\"fails\\", once"`, "warning", 'it "fails", once'],
  [`${stamp} level=fatal msg=canceled`, "fatal", "canceled"],
  [
    String.raw`${stamp} level=fatal msg="Error parsing image name \"docker://a/b:1\": pinging container registry a"`,
    "fatal",
    "pinging container registry a",
  ],
] as const)("the line %s has the level %j", ([line, level, text]) => {
  expect(readLine(line)).toEqual({ level, text });
});
