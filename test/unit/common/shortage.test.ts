/** A disk of the service that fails or became read-only is told, whatever met it. */

import { expect, test } from "vitest";
import { toSandboxError } from "../../../src/common/errors.ts";
import { toFault } from "../../../src/control/reply.ts";

test.for([
  { code: "EIO", status: 503, told: "the disk of the service cannot be read or written" },
  { code: "EROFS", status: 503, told: "the disk of the service is read-only" },
  { code: "EDQUOT", status: 507, told: "the service has used up its quota of the disk" },
])("$code", ({ code, status, told }) => {
  const error = Object.assign(new Error(`${code}: open '/home/s/expiry'`), { code });
  const fault = toSandboxError(error, "deadline");
  expect(fault).toMatchObject({ code: "unavailable", message: `deadline: ${told}` });
  for (const one of [error, fault]) {
    expect(toFault(one)).toMatchObject({
      status,
      body: { message: expect.stringContaining(told) },
    });
  }
});
