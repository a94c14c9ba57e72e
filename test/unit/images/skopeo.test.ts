/** Which logins skopeo uses: those that it is given, and never those that it finds. */

import { expect, test } from "vitest";
import { accessOptions } from "../../../src/images/skopeo.ts";

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
