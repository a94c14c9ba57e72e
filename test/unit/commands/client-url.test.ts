/** Where links lead for clients that are elsewhere. */

import { expect, test } from "vitest";
import { clientUrl } from "../../../src/commands/service/serve-address.ts";

test.for([
  { domain: "sandbox.localhost", url: "http://127.0.0.1:3490" },
  { domain: "box.example:3490", url: "http://127.0.0.1:3490" },
  { domain: "box.example:443", url: undefined },
  { domain: "box.example:13490", url: undefined },
])("$domain: the listener, unless it names the port of a proxy", ({ domain, url }) => {
  expect(clientUrl({ host: "0.0.0.0", domain }, "http", 3490)).toBe(url);
});
