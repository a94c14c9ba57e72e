/** `template export NAME FILE`: a template as an image that runs elsewhere. */

import { cp, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createSystemClock } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { removeTree } from "../../common/remove-tree.ts";
import type { Config } from "../../config.ts";
import { DAEMON_DIRECTORY } from "../../engine/daemon/daemon-command.ts";
import { prepareDaemon } from "../../engine/daemon/daemon.ts";
import type { Layer } from "../../engine/engine.ts";
import { newDraft } from "../../engine/host/drafts.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { openStoreImage } from "../../engine/storage/store-image.ts";
import { exportImage, type ExportTask } from "../../images/export.ts";
import { toDisk, toLayers } from "../../sandboxes/builds/layer-folders.ts";
import { registerBuiltIn } from "../../sandboxes/templates/built-ins.ts";
import { withSetupLabel } from "../../sandboxes/templates/setup-label.ts";
import { openStore } from "../../store/sqlite.ts";
import type { Store } from "../../store/store.ts";
import { EXIT_OK } from "../program/command.ts";
import { findProgramFiles } from "../program/program-files.ts";
import { daemonSources } from "../service/engine.ts";
import { builtInTemplates } from "./built-ins.ts";
import { findTemplate } from "./template-records.ts";
import { withDiskSpace } from "./with-disk-space.ts";

/** Its layers are this machine's own files. */
const HOST = "host";

export async function exportTemplate(
  config: Config,
  { name, file }: { readonly name: string; readonly file: string },
  signal: AbortSignal,
): Promise<number> {
  const perlDirectory = findProgramFiles().perlDirectory;
  await using stack = new AsyncDisposableStack();
  stack.use(await openStoreImage({ home: config.home, perlDirectory }));
  using store = openStore({ path: join(config.home, "state.db") });
  await registerBase(config, store);
  const { build, image } = await findTemplate(config, store, name);
  const layers: Layer[] = toLayers(join(config.home, LAYERS), build);
  if (layers.some(({ usr }) => usr === "/usr")) {
    throw new SandboxError("failed_precondition", `${name} is made of this machine's own files`, {
      hint: `templates on ${HOST} run on this machine alone`,
    });
  }
  await using daemon =
    config.engine === "kubernetes" ? await openDaemonLayer(config.home) : undefined;
  if (daemon !== undefined) layers.push(daemon.layer);
  const { home } = config;
  const task: Omit<ExportTask, "signal"> = {
    home,
    layers,
    disk: toDisk(join(config.home, LAYERS), build),
    name,
    config: {
      env: Object.entries(build.setup?.environment ?? {}).map(([key, value]) => `${key}=${value}`),
      workdir: build.defaultWorkdir,
      user: build.defaultUser,
      entrypoint: image?.config.entrypoint ?? [],
      cmd: image?.config.cmd ?? [],
      exposedPorts: image?.config.exposedPorts ?? [],
      labels: Object.fromEntries(
        withSetupLabel(image?.config.labels ?? [], build).map(({ name: key, value }) => [
          key,
          value,
        ]),
      ),
    },
    perlDirectory,
    requireLayers() {
      // The row of a build goes before its layers.
      if (store.builds.get(build.buildId) !== undefined) return;
      throw new SandboxError("not_found", `${name} was removed while it was exported`);
    },
    onProgress: (message) => process.stdout.write(`${message}\n`),
  };
  const digest = await withDiskSpace({ home, signal }, (stop) =>
    exportImage({ ...task, signal: stop }, file),
  );
  process.stdout.write(`${file} is ${digest}\n`);
  return EXIT_OK;
}

/** A base that was built and that no service has used yet has no record. */
async function registerBase({ home, limits }: Config, store: Store): Promise<void> {
  const base = builtInTemplates(home, findProgramFiles().perlDirectory).find(
    ({ name }) => name === "base",
  );
  const layers = await base?.find();
  if (base === undefined || layers === undefined) return;
  const clock = createSystemClock();
  const layersDirectory = join(home, LAYERS);
  registerBuiltIn({ store, clock, owner: "export", limits, layersDirectory }, base, layers);
}

interface DaemonLayer extends AsyncDisposable {
  readonly layer: Layer;
}

/**
 * The daemon's directory as the top of an image whose containers are Pods: a copy that lasts until it
 * is disposed.
 */
async function openDaemonLayer(home: string): Promise<DaemonLayer> {
  const source = await prepareDaemon(home, daemonSources(findProgramFiles()));
  const directory = newDraft(join(home, LAYERS, "daemon"));
  const root = join(directory, "root");
  const target = join(root, DAEMON_DIRECTORY);
  await mkdir(dirname(target), { recursive: true, mode: 0o755 });
  await cp(source, target, { recursive: true });
  return { layer: { root }, [Symbol.asyncDispose]: () => removeTree(directory) };
}
