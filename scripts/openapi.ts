/** Prints the OpenAPI document of the control API; `npm run generate` keeps it in docs/. */

import { createOpenApi } from "../src/control/openapi.ts";
import { ROUTES } from "../src/control/routes/index.ts";
import { CONTENT_ROUTES } from "../src/control/volume-content.ts";

process.stdout.write(`${JSON.stringify(createOpenApi(ROUTES, CONTENT_ROUTES), undefined, 2)}\n`);
