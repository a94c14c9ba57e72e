/** Which headers of the wire pass a gateway whatever a `Connection` header says. */

import type { IncomingMessage } from "node:http";
import { findForbiddenOption } from "../common/connection-headers.ts";
import {
  ACCESS_TOKEN_HEADER,
  API_KEY_HEADER,
  SANDBOX_ID_HEADER,
  SANDBOX_PORT_HEADER,
  TRAFFIC_TOKEN_HEADER,
} from "./headers.ts";

/** They route and admit. */
const OF_THE_WIRE: readonly string[] = [
  SANDBOX_ID_HEADER,
  SANDBOX_PORT_HEADER,
  API_KEY_HEADER,
  ACCESS_TOKEN_HEADER,
  TRAFFIC_TOKEN_HEADER,
];

/** The text of a refusal with status 400; undefined for a request that may go on. */
export function faultOfConnection({
  headersDistinct,
}: Pick<IncomingMessage, "headersDistinct">): string | undefined {
  const name = findForbiddenOption(headersDistinct["connection"], OF_THE_WIRE);
  return name === undefined ? undefined : `Invalid connection header: it names ${name}`;
}
