/** Prints the OpenAPI document of the control API; `npm run generate` keeps it in docs/. */

import { createOpenApi } from "../src/control/openapi.ts";
import { ROUTES } from "../src/control/routes/index.ts";

process.stdout.write(`${JSON.stringify(createOpenApi(ROUTES), undefined, 2)}\n`);
