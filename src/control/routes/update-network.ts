/** `PUT /sandboxes/{sandboxID}/network`: the egress rules anew, as a whole. */

import { networkUpdateSchema } from "../../wire/control.ts";
import { checkEgressRules } from "../network.ts";
import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const updateNetworkRoute = defineRoute({
  method: "PUT",
  path: "/sandboxes/{sandboxID}/network",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: networkUpdateSchema,
  async handle({ params, body }, { sandboxes }) {
    const sandboxId = readSandboxId(params);
    checkEgressRules(body, "egressProxy");
    await sandboxes.updateNetwork(sandboxId, {
      allowOut: body.allowOut,
      denyOut: body.denyOut,
      allowsInternet: body.allow_internet_access,
    });
    return { status: 204 };
  },
});
