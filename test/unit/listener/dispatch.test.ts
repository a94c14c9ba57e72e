/** The dispatch as a table: host, headers and path decide alone. */

import { expect, test } from "vitest";
import { dispatch, type RequestHead } from "../../../src/listener/dispatch.ts";

const DOMAIN = "sandbox.localhost";
const ID = "i0123456789abcdefghij";

function head(target: string, changes: Partial<RequestHead> = {}): RequestHead {
  return {
    target,
    hosts: ["localhost"],
    origins: [],
    sandboxIds: [],
    sandboxPorts: [],
    ...changes,
  };
}

const refused = (message: string) => ({ kind: "refused", message });
const gateway = (port: number, hasOwnHost: boolean) => ({
  kind: "gateway",
  address: { sandboxId: ID, port },
  hasOwnHost,
});

test.for([
  { name: "control path", head: head("/sandboxes"), expected: { kind: "control" } },
  { name: "unknown path", head: head("/x/../mcp"), expected: { kind: "control" } },
  { name: "health", head: head("/health?x=1"), expected: { kind: "health" } },
  { name: "metrics", head: head("/metrics"), expected: { kind: "metrics" } },
  { name: "below metrics", head: head("/metrics/x"), expected: { kind: "control" } },
  { name: "mcp", head: head("/mcp"), expected: { kind: "mcp" } },
  ...[
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/mcp/.well-known/openid-configuration",
    "/register",
    "/authorize?client_id=x",
    "/token",
  ].map((path) => ({
    name: `login probe ${path}`,
    head: head(path),
    expected: { kind: "login-probe" as const },
  })),
  { name: "no login probe", head: head("/tokens"), expected: { kind: "control" } },
  { name: "below mcp", head: head("/mcp/x"), expected: { kind: "control" } },
  { name: "file", head: head("/files?path=a"), expected: { kind: "unaddressed" } },
  { name: "compose", head: head("/files/compose"), expected: { kind: "unaddressed" } },
  { name: "not a file", head: head("/filesystem"), expected: { kind: "control" } },
  {
    name: "rpc without address",
    head: head("/process.Process/Start"),
    expected: { kind: "unaddressed" },
  },
  {
    name: "address with port",
    head: head("/sandboxes", { hosts: ["127.0.0.1:3490"] }),
    expected: { kind: "control" },
  },
  { name: "IPv6", head: head("/mcp", { hosts: ["[::1]:3490"] }), expected: { kind: "mcp" } },
  {
    name: "api host",
    head: head("/sandboxes", { hosts: [`api.${DOMAIN}`] }),
    expected: { kind: "control" },
  },
  {
    name: "the domain itself",
    head: head("/mcp", { hosts: [`${DOMAIN}:3490`] }),
    expected: { kind: "mcp" },
  },
  { name: "no host", head: head("/health", { hosts: [] }), expected: refused("Invalid host") },
  { name: "empty host", head: head("/health", { hosts: [""] }), expected: refused("Invalid host") },
  {
    name: "two hosts",
    head: head("/health", { hosts: ["localhost", "localhost"] }),
    expected: refused("Invalid host"),
  },
  {
    name: "host with user",
    head: head("/health", { hosts: ["a@localhost"] }),
    expected: refused("Invalid host"),
  },
  {
    name: "port of six digits",
    head: head("/health", { hosts: ["localhost:003490"] }),
    expected: refused("Invalid host"),
  },
  {
    name: "port that no address has",
    head: head("/mcp", { hosts: ["localhost:65536"] }),
    expected: refused("Invalid host"),
  },
  {
    name: "last port",
    head: head("/mcp", { hosts: ["localhost:65535"] }),
    expected: { kind: "mcp" },
  },
  {
    name: "foreign host",
    head: head("/sandboxes", { hosts: ["evil.example"] }),
    expected: refused("Invalid host"),
  },
  {
    name: "foreign host that ends like ours",
    head: head("/sandboxes", { hosts: [`evil${DOMAIN}`] }),
    expected: refused("Invalid host"),
  },
  {
    name: "absolute target",
    head: head("http://localhost/sandboxes"),
    expected: refused("Invalid request target"),
  },
  { name: "star target", head: head("*"), expected: refused("Invalid request target") },
  {
    name: "sandbox host",
    head: head("/sandboxes", { hosts: [`8080-${ID}.${DOMAIN}:3490`] }),
    expected: gateway(8080, true),
  },
  {
    name: "sandbox host in capitals with client suffix",
    head: head("/", { hosts: [`49983-${ID}-6532622B.SANDBOX.localhost`] }),
    expected: gateway(49_983, true),
  },
  {
    name: "headers on a sandbox host are ignored",
    head: head("/mcp", { hosts: [`80-${ID}.${DOMAIN}`], sandboxIds: ["x"], sandboxPorts: ["1"] }),
    expected: gateway(80, true),
  },
  {
    name: "label without a dash",
    head: head("/", { hosts: [`x.${DOMAIN}`] }),
    expected: refused("Invalid host"),
  },
  {
    name: "label below a label",
    head: head("/", { hosts: [`80-${ID}.x.${DOMAIN}`] }),
    expected: refused("Invalid host"),
  },
  {
    name: "port that is no number",
    head: head("/", { hosts: [`http-${ID}.${DOMAIN}`] }),
    expected: refused("Invalid sandbox port"),
  },
  {
    name: "port beyond the last",
    head: head("/", { hosts: [`65536-${ID}.${DOMAIN}`] }),
    expected: refused("Invalid sandbox port"),
  },
  {
    name: "identifier with other characters",
    head: head("/", { hosts: [`80-a_b.${DOMAIN}`] }),
    expected: refused("Invalid sandbox ID"),
  },
  {
    name: "connect of clients that name the daemon in it",
    head: head(`/sandboxes/${ID}/connect`, { sandboxIds: [ID], sandboxPorts: ["49983"] }),
    expected: { kind: "control" },
  },
  {
    name: "connect that names the daemon, of a page of another site",
    head: head(`/sandboxes/${ID}/connect`, {
      origins: ["http://evil.example"],
      sandboxIds: [ID],
      sandboxPorts: ["49983"],
    }),
    expected: { kind: "foreign-page" },
  },
  {
    name: "path of connect for a program inside",
    head: head(`/sandboxes/${ID}/connect`, { sandboxIds: [ID], sandboxPorts: ["80"] }),
    expected: gateway(80, false),
  },
  {
    name: "connect of another sandbox than the one named",
    head: head("/sandboxes/iother/connect", { sandboxIds: [ID], sandboxPorts: ["49983"] }),
    expected: gateway(49_983, false),
  },
  {
    name: "headers on localhost",
    head: head("/health", { sandboxIds: [ID], sandboxPorts: ["49983"] }),
    expected: gateway(49_983, false),
  },
  {
    name: "headers on the shared sandbox host",
    head: head("/files", {
      hosts: [`sandbox.${DOMAIN}`],
      sandboxIds: [`${ID}-6532622b`],
      sandboxPorts: ["49983"],
    }),
    expected: gateway(49_983, false),
  },
  {
    name: "headers on the control host are ignored",
    head: head("/sandboxes", {
      hosts: [`api.${DOMAIN}`],
      sandboxIds: [ID],
      sandboxPorts: ["49983"],
    }),
    expected: { kind: "control" },
  },
  {
    name: "one header alone",
    head: head("/health", { sandboxIds: [ID] }),
    expected: refused("missing header"),
  },
  {
    name: "the other header alone",
    head: head("/health", { sandboxPorts: ["80"] }),
    expected: refused("missing header"),
  },
  {
    name: "identifier header twice",
    head: head("/", { sandboxIds: [ID, ID], sandboxPorts: ["80"] }),
    expected: refused("Invalid sandbox ID"),
  },
  {
    name: "faulty port header",
    head: head("/", { sandboxIds: [ID], sandboxPorts: ["+80"] }),
    expected: refused("Invalid sandbox port"),
  },
  ...["http://localhost", "https://LOCALHOST", "http://127.0.0.1", "http://[::1]"].map(
    (origin) => ({
      name: `own page ${origin}`,
      head: head("/sandboxes", { origins: [origin] }),
      expected: { kind: "control" as const },
    }),
  ),
  {
    name: "own page of the domain",
    head: head("/mcp", { hosts: [`api.${DOMAIN}:443`], origins: [`https://api.${DOMAIN}:443`] }),
    expected: { kind: "mcp" },
  },
  ...[
    "null",
    "",
    "http://localhost:3490",
    "http://localhost.evil.example",
    "http://evil.example",
    "http://localhost@evil.example",
    "http://localhost/",
    "localhost",
    "ftp://localhost",
  ].map((origin) => ({
    name: `foreign page ${origin}`,
    head: head("/mcp", { origins: [origin] }),
    expected: { kind: "foreign-page" as const },
  })),
  {
    name: "two origins, one of them foreign",
    head: head("/sandboxes", { origins: ["http://localhost", "http://evil.example"] }),
    expected: { kind: "foreign-page" },
  },
  ...["/files?path=a", "/files", "/files/x?path=a&Signature=v1_x"].map((target) => ({
    name: `foreign page for the only open sandbox, ${target}`,
    head: head(target, { origins: ["http://evil.example"] }),
    expected: { kind: "foreign-page" as const },
  })),
  ...[
    { target: "/files?path=a&signature=v1_x", origin: "http://evil.example" },
    { target: "/files?path=a", origin: "http://localhost" },
  ].map(({ target, origin }) => ({
    name: `page ${origin} for the file ${target}`,
    head: head(target, { origins: [origin] }),
    expected: { kind: "unaddressed" as const },
  })),
  {
    name: "foreign page for the port of a sandbox",
    head: head("/", { hosts: [`80-${ID}.${DOMAIN}`], origins: ["http://evil.example"] }),
    expected: gateway(80, true),
  },
])("$name", ({ head: request, expected }) => {
  expect(dispatch(request, DOMAIN)).toEqual(expected);
});
