/**
 * R8: whatever page a browser shows, nothing happens unless key, host and origin are all right; and
 * with the right key it still does not where one of the others is wrong.
 */

import { afterAll, beforeAll, expect, test } from "vitest";
import { sendRaw, statusesIn } from "../support/raw-call.ts";
import { tellCells } from "../support/run/cells.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service[Symbol.asyncDispose]());

/** Values of the header; an address is no name that a site could have. */
const HOSTS: readonly { readonly hosts: readonly string[]; readonly isRight: boolean }[] = [
  { hosts: ["localhost"], isRight: true },
  { hosts: ["127.0.0.1"], isRight: true },
  { hosts: ["[::1]"], isRight: true },
  { hosts: ["0.0.0.0"], isRight: true },
  { hosts: ["evil.example"], isRight: false },
  { hosts: ["localhost.evil.example"], isRight: false },
  { hosts: [""], isRight: false },
  { hosts: ["localhost", "localhost"], isRight: false },
  { hosts: [], isRight: false },
];
const ORIGINS: readonly { readonly of: (host: string) => string[]; readonly isRight: boolean }[] = [
  { of: () => [], isRight: true },
  { of: (host) => [`http://${host}`], isRight: true },
  { of: (host) => [`http://${host}:9`], isRight: false },
  { of: () => ["null"], isRight: false },
  { of: () => ["http://evil.example"], isRight: false },
  { of: () => ["http://localhost.evil.example"], isRight: false },
];
const JSON_TYPE = "content-type: application/json";
const UPGRADE = ["upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: AAAA"];
const KINDS: readonly {
  readonly line: string;
  readonly headers: readonly string[];
  readonly hasBody: boolean;
  /** Whether anything comes of it where all is right. */
  readonly acts: boolean;
}[] = [
  { line: "GET /v2/sandboxes HTTP/1.1", headers: [], hasBody: false, acts: true },
  { line: "POST /volumes HTTP/1.1", headers: [JSON_TYPE], hasBody: true, acts: true },
  {
    line: "POST /volumes HTTP/1.1",
    headers: ["content-type: text/plain"],
    hasBody: true,
    acts: false,
  },
  {
    line: "OPTIONS /volumes HTTP/1.1",
    headers: ["access-control-request-method: POST", "access-control-request-headers: x-api-key"],
    hasBody: false,
    acts: false,
  },
  { line: "GET /v2/sandboxes HTTP/1.1", headers: UPGRADE, hasBody: false, acts: false },
];
const CELLS = HOSTS.flatMap((host) =>
  ORIGINS.flatMap((origin) => KINDS.map((kind) => ({ host, origin, kind }))),
);

test.for([true, false])(
  "R8 270 cells of host, origin and kind, key %s",
  async (hasKey, context) => {
    expect(CELLS).toHaveLength(270);
    const { socketPath, apiKey } = service.embedded;
    const made: string[] = [];
    for (const [index, { host, origin, kind }] of CELLS.entries()) {
      const name = `v${index}-${hasKey ? "key" : "none"}`;
      const body = kind.hasBody ? JSON.stringify({ name }) : "";
      const isUpgrade = kind.headers === UPGRADE;
      const lines = [
        kind.line,
        ...host.hosts.map((value) => `host: ${value}`),
        ...origin.of(host.hosts[0] ?? "localhost").map((value) => `origin: ${value}`),
        ...kind.headers,
        `connection: ${isUpgrade ? "upgrade, close" : "close"}`,
        ...(hasKey ? [`x-api-key: ${apiKey}`] : []),
        `content-length: ${body.length}`,
      ];
      const bytes = Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body}`, "latin1");
      const reply = await sendRaw({ path: socketPath }, bytes);
      const isRight = hasKey && host.isRight && origin.isRight;
      const expected = isRight && kind.acts ? /^20[01]$/ : /^40[0-5]$/;
      expect({ lines, status: String(statusesIn(reply)[0]) }).toEqual({
        lines,
        status: expect.stringMatching(expected),
      });
      expect(reply.toLowerCase()).not.toContain("access-control-");
      if (isRight && kind.acts && kind.hasBody) made.push(name);
    }
    const { body } = await service.call({ path: "/volumes" });
    const found = JSON.stringify(body).match(/v\d+-(?:key|none)/g) ?? [];
    expect(found.filter((name) => name.endsWith(hasKey ? "-key" : "-none")).toSorted()).toEqual(
      made.toSorted(),
    );
    expect(made).toHaveLength(hasKey ? 8 : 0);
    tellCells(context, CELLS.length);
  },
);
