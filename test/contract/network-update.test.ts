/** `PUT /sandboxes/{id}/network`: what it replaces, what it keeps, what it refuses. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
let path: string;
beforeAll(async () => {
  service = await startTestService();
  const network = { maskRequestHost: "a.test", allowPublicTraffic: true, denyOut: ["10.0.0.0/8"] };
  const { sandboxID } = await service.create({ network });
  path = `/sandboxes/${sandboxID}`;
});
afterAll(() => service[Symbol.asyncDispose]());

async function put(body: unknown) {
  const reply = await service.call({ method: "PUT", path: `${path}/network`, body });
  return { status: reply.status, body: reply.body };
}

async function stored() {
  const { body } = await service.call({ path });
  return z.object({ network: z.unknown(), allowInternetAccess: z.unknown() }).parse(body);
}

const INGRESS = { maskRequestHost: "a.test", allowPublicTraffic: true };

test("lists are replaced as a whole, ingress stays, internet access changes when given", async () => {
  const rules = { allowOut: ["192.0.2.0/24"], denyOut: ["0.0.0.0/0"] };
  expect((await put({ ...rules, allow_internet_access: false })).status).toBe(204);
  expect(await stored()).toEqual({ network: { ...INGRESS, ...rules }, allowInternetAccess: false });
  expect((await put({ denyOut: ["1.1.1.1"], maskRequestHost: "ignored" })).status).toBe(204);
  const later = { network: { ...INGRESS, denyOut: ["1.1.1.1"] }, allowInternetAccess: false };
  expect(await stored()).toEqual(later);
  expect((await put({ denyOut: ["nowhere"] })).body).toEqual({
    code: 400,
    message: "invalid denied CIDR nowhere",
  });
  expect((await put({ allowOut: ["example.com"] })).body).toEqual({
    code: 400,
    message:
      "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
  });
  const nameless = { allowOut: ["exa mple.com"], denyOut: ["0.0.0.0/0"] };
  expect((await put(nameless)).body).toEqual({
    code: 400,
    message: 'not a name of a host: "exa mple.com"',
  });
  expect((await put({ egressProxy: { address: "a:1" } })).body).toEqual({
    code: 403,
    message: "Egress proxy (egressProxy) is not enabled for this team.",
  });
  expect((await put({ denyOut: 1 })).status).toBe(400);
  expect(await stored()).toEqual(later);
  const named = { allowOut: ["example.com", "*.Example.org"], denyOut: ["0.0.0.0/0"] };
  expect((await put(named)).status).toBe(204);
  expect(await stored()).toEqual({ network: { ...INGRESS, ...named }, allowInternetAccess: false });
  expect((await put({ denyOut: ["1.1.1.1"] })).status).toBe(204);
  await service.call({ method: "POST", path: `${path}/pause` });
  expect((await put({})).status).toBe(404);
  await service.call({ method: "POST", path: `/v2${path}/connect` });
  expect(await stored()).toEqual(later);
});
