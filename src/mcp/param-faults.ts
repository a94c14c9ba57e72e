/** Refusals of malformed parameters, which the SDK tells as internal errors, with the code of such. */

import {
  INTERNAL_ERROR,
  INVALID_PARAMS,
  type JSONRPCMessage,
  type McpServer,
} from "@modelcontextprotocol/server";
import { tryParseJson } from "../common/json.ts";
import { z } from "../common/schema.ts";
import { cutText, oneLine } from "../common/untrusted-text.ts";

const MAX_MESSAGE_CHARACTERS = 500;

/** As the SDK tells what its schemas refused: their issues as JSON. */
const issuesSchema = z
  .array(
    z.looseObject({
      path: z.array(z.union([z.string(), z.number()])),
      message: z.string(),
    }),
  )
  .min(1);

/** Has the server refuse malformed parameters as such, over every transport. */
export function refuseMalformedParams(server: McpServer): void {
  const connect = server.connect.bind(server);
  Object.assign(server, {
    connect(...[transport]: Parameters<typeof connect>) {
      const send = transport.send.bind(transport);
      return connect(
        Object.assign(transport, {
          send: (...[message, options]: Parameters<typeof send>) =>
            send(withParamsCode(message), options),
        }),
      );
    },
  });
}

function withParamsCode(message: JSONRPCMessage): JSONRPCMessage {
  if (!("error" in message) || message.error.code !== INTERNAL_ERROR) return message;
  const told = issuesIn(message.error.message);
  if (told === undefined) return message;
  return { ...message, error: { code: INVALID_PARAMS, message: told } };
}

function issuesIn(text: string): string | undefined {
  const issues = text.startsWith("[") ? issuesSchema.safeParse(tryParseJson(text)).data : undefined;
  if (issues === undefined) return undefined;
  const told = issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).join(", ");
  return cutText(oneLine(`Invalid params: ${told}`), MAX_MESSAGE_CHARACTERS);
}
