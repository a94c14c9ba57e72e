/** The plain file routes, by path and method. */

import type { Handler } from "../exchange.ts";
import { compose } from "./compose.ts";
import { download } from "./download.ts";
import { logged, withReply } from "./file-log.ts";
import { upload } from "./upload.ts";

export const fileRoutes = {
  "/files": {
    GET: logged("File read", "GET /files", download),
    HEAD: logged("File read", "HEAD /files", download),
    POST: logged("File write", "POST /files", upload),
  },
  "/files/compose": {
    POST: withReply("File compose", "POST /files/compose", compose),
  },
} as const satisfies Record<string, Record<string, Handler>>;
