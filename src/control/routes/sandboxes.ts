/** `/sandboxes`: create, describe and end one, and replace its egress rules. */

import { z } from "../../common/schema.ts";
import {
  createRequestSchema,
  networkUpdateSchema,
  sandboxDetailSchema,
  createdSandboxSchema,
} from "../../wire/control.ts";
import { CREATE_HEADERS, createOnce } from "../create-once.ts";
import { toCreateOptions } from "../create-options.ts";
import { checkEgressRules } from "../network.ts";
import { toDetailBody } from "../reply.ts";
import {
  DEFAULT_TIMEOUT_SECONDS,
  DEFAULT_TIMEOUT_V2_SECONDS,
  defineRoute,
  readSandboxId,
  requirePositive,
  sandboxParams,
  type Route,
} from "../route.ts";

export const sandboxRoutes: readonly Route[] = [
  // Secured only on request.
  defineRoute({
    method: "POST",
    path: "/sandboxes",
    creates: () => 1,
    headers: CREATE_HEADERS,
    body: createRequestSchema,
    replies: { 201: createdSandboxSchema },
    faults: [400, 403, 404, 409, 422, 429, 503],
    worded: [409, 422, 429, 503],
    async handle(request, context) {
      const { body, waitMs } = request;
      const options = toCreateOptions(body, {
        timeoutSeconds: body.timeout ?? DEFAULT_TIMEOUT_SECONDS,
        isSecured: body.secure ?? false,
        templateWaitMs: waitMs,
      });
      return createOnce(request, context, options);
    },
  }),
  // Always secured: a stray `secure` of whatever type is ignored.
  defineRoute({
    method: "POST",
    path: "/v2/sandboxes",
    creates: () => 1,
    headers: CREATE_HEADERS,
    body: createRequestSchema.extend({ secure: z.unknown().optional() }),
    replies: { 201: createdSandboxSchema },
    faults: [400, 403, 404, 409, 422, 429, 503],
    worded: [409, 422, 429, 503],
    async handle(request, context) {
      const { body, waitMs } = request;
      const timeoutSeconds = requirePositive(body.timeout ?? DEFAULT_TIMEOUT_V2_SECONDS);
      const options = toCreateOptions(
        { ...body, secure: true },
        { timeoutSeconds, isSecured: true, templateWaitMs: waitMs },
      );
      return createOnce(request, context, options);
    },
  }),
  defineRoute({
    method: "GET",
    path: "/sandboxes/{sandboxID}",
    params: sandboxParams,
    replies: { 200: sandboxDetailSchema },
    faults: [400, 404],
    async handle({ params }, { sandboxes, domain }) {
      const sandboxId = readSandboxId(params);
      const memoryFault = await sandboxes.findRestoreFault?.(sandboxId);
      return { status: 200, body: toDetailBody(sandboxes.get(sandboxId), { domain, memoryFault }) };
    },
  }),
  defineRoute({
    method: "DELETE",
    path: "/sandboxes/{sandboxID}",
    params: sandboxParams,
    replies: { 204: null },
    faults: [400, 404],
    async handle({ params }, { sandboxes }) {
      await sandboxes.kill(readSandboxId(params));
      return { status: 204 };
    },
  }),
  defineRoute({
    method: "PUT",
    path: "/sandboxes/{sandboxID}/network",
    params: sandboxParams,
    body: networkUpdateSchema,
    replies: { 204: null },
    faults: [400, 403, 404, 409],
    async handle({ params, body }, { sandboxes }) {
      const sandboxId = readSandboxId(params);
      checkEgressRules(body, "egressProxy");
      await sandboxes.updateNetwork(sandboxId, {
        allowOut: body.allowOut,
        denyOut: body.denyOut,
        dnsServers: body.dnsServers,
        allowsInternet: body.allow_internet_access,
      });
      return { status: 204 };
    },
  }),
];
