/** The template `code-interpreter`: `base` with Python's packages for work on data, and its kernels. */

import { sha256Hex } from "../../common/hash.ts";
import type { Layer } from "../engine.ts";
import { BASE_RECIPE, buildBase, type BuildOptions } from "./base.ts";

export const INTERPRETER_TEMPLATE = "code-interpreter";
/** The name by which the published clients ask for it. */
export const INTERPRETER_ALIAS = "code-interpreter-v1";

/**
 * The server needs the first three. The others are what code for data work imports most, as far as
 * Debian has it and a hundred megabytes allow it.
 */
const PACKAGES = [
  "python3-ipykernel",
  "python3-jupyter-client",
  "python3-zmq",
  // Text of figures in the scripts of East Asia, and symbols: `figures.py` names their files.
  "fonts-symbola",
  "fonts-wqy-microhei",
  "python3-aiohttp",
  "python3-bs4",
  "python3-docx",
  "python3-imageio",
  "python3-matplotlib",
  // Charts of plotly are shown by it alone.
  "python3-nbformat",
  "python3-networkx",
  "python3-numpy",
  "python3-openpyxl",
  "python3-pandas",
  "python3-pil",
  "python3-plotly",
  "python3-pypdf",
  "python3-pytest",
  "python3-requests",
  "python3-scipy",
  "python3-seaborn",
  "python3-sklearn",
  "python3-statsmodels",
  "python3-sympy",
  // With which pandas writes tables as Markdown.
  "python3-tabulate",
  "python3-tqdm",
  "python3-xarray",
  "python3-xlrd",
] as const;

const RECIPE = JSON.stringify([BASE_RECIPE, PACKAGES]);
/** An interpreter that was built from another recipe is out of date. */
export const INTERPRETER_RECIPE: string = sha256Hex(RECIPE).slice(0, 8);

/**
 * Builds the layer as `buildBase` does; takes about two minutes and 1.8 GB.
 * @throws SandboxError as `buildBase`.
 */
export async function buildInterpreter(options: BuildOptions): Promise<readonly Layer[]> {
  return buildBase({ ...options, morePackages: PACKAGES });
}
