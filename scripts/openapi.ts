/** Prints the OpenAPI document of the control API; `npm run generate` keeps it in docs/. */

import { createOpenApi } from "./openapi-document.ts";

process.stdout.write(`${JSON.stringify(createOpenApi(), undefined, 2)}\n`);
