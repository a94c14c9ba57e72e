/** POST /init: the host tells the daemon about its sandbox; the first call opens the public side. */

import { existsSync } from "node:fs";
import { SandboxError, errorText } from "../../common/errors.ts";
import { fromWirePath, toSystemPath } from "../../common/file-names.ts";
import { readBody } from "../../common/http.ts";
import { faultsOf } from "../../common/schema.ts";
import { initRequestSchema, type InitRequest } from "../../wire/files.ts";
import { ENVD_VERSION } from "../../wire/headers.ts";
import type { Daemon } from "../daemon.ts";
import { sendStatus } from "../exchange.ts";
import { writeIdentity } from "../identity.ts";
import { ensureDirectories } from "../owner.ts";
import type { ControlExchange } from "./exchange.ts";
import { prepareSpawner } from "./prepare-spawner.ts";

/** Environment variables and a token; the host itself takes no larger request. */
const MAX_BODY_BYTES = 16_777_216;

/** @throws SandboxError invalid_argument */
export async function init({ daemon, request, response, open }: ControlExchange): Promise<void> {
  const body = await readBody(request, MAX_BODY_BYTES);
  const isNews = daemon.settings.apply(parseInit(body.toString("utf8")));
  const { identityDirectory: directory, log } = daemon;
  if (isNews && directory !== undefined) {
    await writeIdentity({ directory, variables: daemon.settings.current.envVars, log });
  }
  if (isNews) await makeWorkdir(daemon);
  await open();
  sendStatus(response, 204, { "cache-control": "no-store", "x-envd-version": ENVD_VERSION });
  // Beside whatever its host does next; it never fails.
  void prepareSpawner(daemon);
}

/** What a template has below /run and /dev is hidden by the empty file systems that are mounted there. */
async function makeWorkdir({ settings, accounts, log }: Daemon): Promise<void> {
  const { defaultUser, defaultWorkdir } = settings.current;
  if (defaultWorkdir === undefined || existsSync(toSystemPath(defaultWorkdir))) return;
  try {
    const path = await fromWirePath(defaultWorkdir);
    const user = (await accounts.read()).users.get(defaultUser);
    if (user !== undefined) await ensureDirectories(path, user);
  } catch (error) {
    log.write("warn", "work directory not made", { logger: "envd", error: errorText(error) });
  }
}

function invalid(message: string, cause?: unknown): SandboxError {
  return new SandboxError("invalid_argument", `invalid request body: ${message}`, { cause });
}

function parseInit(text: string): InitRequest {
  let json: unknown = {};
  try {
    if (text !== "") json = JSON.parse(text);
  } catch (error) {
    throw invalid(errorText(error), error);
  }
  const parsed = initRequestSchema.safeParse(json);
  if (!parsed.success) throw invalid(faultsOf(parsed.error));
  const { defaultWorkdir } = parsed.data;
  if (defaultWorkdir && !defaultWorkdir.startsWith("/")) {
    throw invalid("defaultWorkdir: not an absolute path");
  }
  return parsed.data;
}
