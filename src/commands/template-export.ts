/** `template export NAME FILE`: a template as an image that runs elsewhere. */

import { join } from "node:path";
import { SandboxError } from "../common/errors.ts";
import type { Config } from "../config.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { openStoreImage } from "../engine/storage/store-image.ts";
import { exportImage } from "../images/export.ts";
import { toDisk, toLayers } from "../sandboxes/layer-folders.ts";
import { openStore } from "../store/sqlite.ts";
import { findPerlDirectory } from "./engine.ts";
import { listenForStopSignals } from "./process-end.ts";
import { findTemplate } from "./template-records.ts";

const EXIT_OK = 0;
/** Its layers are this machine's own files. */
const HOST = "host";

export async function exportTemplate(
  config: Config,
  name: string,
  file: string | undefined,
): Promise<number> {
  if (file === undefined) {
    throw new SandboxError("invalid_argument", "template export: no file", {
      hint: "template export NAME FILE",
    });
  }
  using stops = listenForStopSignals();
  const perlDirectory = findPerlDirectory();
  await using stack = new AsyncDisposableStack();
  stack.use(await openStoreImage({ home: config.home, perlDirectory }));
  using store = openStore({ path: join(config.home, "state.db") });
  const { build, image } = await findTemplate(config, store, name);
  const layers = toLayers(join(config.home, LAYERS), build);
  if (layers.some(({ usr }) => usr === "/usr")) {
    throw new SandboxError("failed_precondition", `${name} is made of this machine's own files`, {
      hint: `templates on ${HOST} run on this machine alone`,
    });
  }
  const digest = await exportImage(
    {
      home: config.home,
      layers,
      disk: toDisk(join(config.home, LAYERS), build),
      name,
      config: {
        env: Object.entries(build.setup?.environment ?? {}).map(
          ([key, value]) => `${key}=${value}`,
        ),
        workdir: build.defaultWorkdir,
        user: build.defaultUser,
        entrypoint: image?.config.entrypoint ?? [],
        cmd: image?.config.cmd ?? [],
        exposedPorts: image?.config.exposedPorts ?? [],
        labels: Object.fromEntries(
          (image?.config.labels ?? []).map(({ name: key, value }) => [key, value]),
        ),
      },
      perlDirectory,
      signal: stops.signal,
      onProgress: (message) => process.stdout.write(`${message}\n`),
    },
    file,
  );
  process.stdout.write(`${file} is ${digest}\n`);
  return EXIT_OK;
}
