/** The perl programs as they are in the source. */

import { resolve } from "node:path";

export const PERL_DIRECTORY = resolve(import.meta.dirname, "../../src/perl");
