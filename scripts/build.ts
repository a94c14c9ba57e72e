/**
 * Builds the programs into `dist`: the server in chunks that are loaded when they are needed, and
 * those that run elsewhere as one file each.
 */

import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { rolldown, type Plugin, type RolldownOutput } from "rolldown";
import { readNotices } from "./notices.ts";
import { readyDescriptors } from "./ready-descriptors.ts";

const ROOT = resolve(import.meta.dirname, "..");
const DIST = join(ROOT, "dist");
/** What the RPC library finds in the place of the platform's own; each file says why. */
const BASE64: Readonly<Record<string, [string, string]>> = {
  "Uint8Array.prototype.toBase64": [join(ROOT, "src/rpc/base64.ts"), "toBase64"],
  "Uint8Array.prototype.setFromBase64": [join(ROOT, "src/rpc/base64.ts"), "setFromBase64"],
};
const HEADERS: Readonly<Record<string, [string, string]>> = {
  Headers: [join(ROOT, "src/rpc/headers.ts"), "LightHeaders"],
};

await rm(DIST, { recursive: true, force: true });
await mkdir(DIST);
const built = [
  await buildServer(),
  await buildOne("src/envd/main.ts", { file: "envd.cjs", format: "cjs" }),
  await buildOne("src/envd/starter.ts", { file: "envd-starter.cjs", format: "cjs" }),
  await buildOne("src/egress/main.ts", { file: "egress.mjs", format: "esm" }),
];
await writeFile(join(DIST, "third-party-notices.txt"), await readNotices(modulesOf(built)));
// Programs for the system calls that Node lacks; they are run as they are.
await cp(join(ROOT, "src/perl"), DIST, { recursive: true });
await cp(join(ROOT, "src/shell"), DIST, { recursive: true });
// The code interpreter runs inside a sandbox, with what its template has.
const isProgram = (path: string) => !path.includes("__pycache__");
await cp(join(ROOT, "src/interpreter"), join(DIST, "interpreter"), {
  recursive: true,
  filter: isProgram,
});

/** CommonJS: modules of Node load much more when they are imported than when they are required. */
async function buildServer(): Promise<RolldownOutput> {
  const input = join(ROOT, "src/main.ts");
  await using build = await rolldown({
    input,
    platform: "node",
    transform: { inject: BASE64 },
    plugins: [readyDescriptors(), lateModules(), lateProgram()],
  });
  // What is not ASCII would take twice the memory, so that is escaped and comments go.
  const options = { format: "cjs", charset: "ascii", comments: false } as const;
  const output = await build.write({ dir: DIST, ...options });
  await writeFile(join(DIST, "package.json"), '{"type":"commonjs"}\n');
  return output;
}

async function buildOne(
  source: string,
  { file, format }: { readonly file: string; readonly format: "cjs" | "esm" },
): Promise<RolldownOutput> {
  const plugins = [readyDescriptors(), ...(format === "cjs" ? [lateModules()] : [])];
  await using build = await rolldown({
    input: join(ROOT, source),
    platform: "node",
    transform: { inject: { ...BASE64, ...HEADERS } },
    plugins,
  });
  return await build.write({ file: join(DIST, file), format, minify: true, charset: "ascii" });
}

/** The files of which the programs are made. */
function modulesOf(outputs: readonly RolldownOutput[]): readonly string[] {
  const files = outputs.flatMap(({ output }) => output);
  return files.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
}

/**
 * Has the entry load nothing of the program before it has looked at the version of Node and begun
 * to keep what is compiled. The bundler's own functions are in a chunk of their own or in that of the
 * command line, and the bundler has every chunk load it, also those that use none of them.
 */
function lateProgram(): Plugin {
  return {
    name: "late-program",
    generateBundle(_options, bundle) {
      for (const output of Object.values(bundle)) {
        if (output.type !== "chunk") continue;
        output.code = output.code.replaceAll(
          /^require\("\.\/(?:cli|rolldown-runtime)-[^"]+"\);\n/gm,
          "",
        );
      }
    },
  };
}

/** Has each module of Node loaded where it is first used, not before anything runs. */
function lateModules(): Plugin {
  const required = /^let (node_\w+) = require\("(node:[^"]+)"\);\n(?:\1 = (\S+\(\1.*\));\n)?/gm;
  return {
    name: "late-modules",
    renderChunk(code) {
      let text = code;
      for (const [statement, name = "", module = "", wrapped] of code.matchAll(required)) {
        const load = `require("${module}")`;
        const value = wrapped === undefined ? load : wrapped.replace(`(${name}`, `(${load}`);
        const late = `let ${name}$; const ${name} = () => ${name}$ ??= ${value};\n`;
        // In parentheses, so that `new` makes what the module has and not the module.
        text = text
          .replace(statement, () => late)
          .replaceAll(new RegExp(`\\b${name}\\.`, "g"), () => `(${name}()).`);
        const missed = new RegExp(`\\b${name}\\b(?![$(]| = \\()`).exec(text);
        if (missed !== null) throw new Error(`${name} is used as a whole at ${missed.index}`);
      }
      return text;
    },
  };
}
