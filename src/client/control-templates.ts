/** The routes of templates and snapshots in the control API; a snapshot is a template too. */

import { z } from "../common/schema.ts";
import { quoteName } from "../common/untrusted-text.ts";
import {
  listedTemplateSchema,
  templateSchema,
  type ListedTemplateBody,
  type TemplateBody,
} from "../wire/control-templates.ts";
import { newSnapshotSchema, snapshotSchema, type SnapshotBody } from "../wire/control.ts";
import { parseBody, queryOf, WRITING, type ControlCaller } from "./control-call.ts";
import { sandboxPath } from "./control-sandboxes.ts";
import { lenient } from "./sandbox-replies.ts";

export interface PageQuery {
  readonly limit?: number;
  readonly nextToken?: string;
}

export interface SnapshotFilter extends PageQuery {
  /** Only those taken from this sandbox. */
  readonly sandboxID?: string;
  readonly name?: string;
}

export interface SnapshotPage {
  readonly snapshots: readonly SnapshotBody[];
  readonly nextToken?: string;
}

export interface TemplatePage {
  readonly template: TemplateBody;
  readonly nextToken?: string;
}

/** Every operation throws SandboxError with the code that the reply's status stands for. */
export interface TemplateRoutes {
  template(templateId: string, query: PageQuery, signal: AbortSignal): Promise<TemplatePage>;
  templates(signal: AbortSignal): Promise<readonly ListedTemplateBody[]>;
  /** The identifier of the template of a reference whose tag is there too. */
  resolveReference(reference: string, signal: AbortSignal): Promise<string>;
  /** Returns whether there was something to delete; undefined as for the end of a sandbox. */
  deleteTemplate(templateId: string, signal: AbortSignal): Promise<boolean | undefined>;
  snapshot(
    sandboxId: string,
    name: string | undefined,
    signal: AbortSignal,
  ): Promise<TakenSnapshotBody>;
  snapshots(filter: SnapshotFilter, signal: AbortSignal): Promise<SnapshotPage>;
}

/** Other services do not say what a snapshot carries. */
const takenSchema = newSnapshotSchema.partial({ memory: true });

type TakenSnapshotBody = z.infer<typeof takenSchema>;

const names = {
  aliases: z.array(z.string()).default([]),
  names: z.array(z.string()).optional(),
  lastSpawnedAt: z.string().nullable().default(null),
  spawnCount: z.number().default(0),
};
/** Older services know aliases alone, and do not say how a build ended. */
const templateReply = lenient(templateSchema.extend(names).transform(withNames));
const templatesReply = lenient(
  z.array(
    listedTemplateSchema
      .extend({
        ...names,
        createdBy: z.unknown().default(null),
        buildCount: z.number().default(0),
        envdVersion: z.string().default(""),
        buildStatus: z.string().default("unknown"),
      })
      .transform(withNames),
  ),
);

interface Named {
  readonly aliases: string[];
  readonly names?: string[] | undefined;
}

function withNames<T extends Named>(template: T): T & { names: string[] } {
  return { ...template, names: template.names ?? template.aliases };
}

export function createTemplateRoutes(caller: ControlCaller): TemplateRoutes {
  const { read, readPage, remove, sendUntilSettled } = caller;
  return {
    async template(templateId, query, signal) {
      const path = `${templatePath(templateId)}${queryOf({ ...query })}`;
      const subject = `get template ${quoteName(templateId)}`;
      const call = { path, token: query.nextToken, signal, subject };
      const { body: template, ...rest } = await readPage(call, templateReply);
      return { template, ...rest };
    },

    templates: (signal) =>
      read({ path: "/templates", signal, subject: "list templates" }, templatesReply),

    async resolveReference(reference, signal) {
      const path = `/templates/aliases/${encodeURIComponent(reference)}`;
      const call = { path, signal, subject: `get template ${quoteName(reference)}` };
      return (await read(call, z.object({ templateID: z.string() }))).templateID;
    },

    deleteTemplate: (templateId, signal) =>
      remove({
        path: templatePath(templateId),
        signal,
        subject: `delete ${quoteName(templateId)}`,
      }),

    async snapshot(sandboxId, name, signal) {
      const subject = `snapshot ${sandboxId}`;
      const path = `${sandboxPath(sandboxId)}/snapshots`;
      const json = name === undefined ? {} : { name };
      const reply = await sendUntilSettled({ ...WRITING, path, json, signal, subject });
      return parseBody(reply, takenSchema, subject);
    },

    async snapshots(filter, signal) {
      const call = {
        path: `/snapshots${queryOf({ ...filter })}`,
        token: filter.nextToken,
        signal,
        subject: "list snapshots",
      };
      const { body: snapshots, ...rest } = await readPage(call, z.array(snapshotSchema));
      return { snapshots, ...rest };
    },
  };
}

export function templatePath(templateId: string): string {
  return `/templates/${encodeURIComponent(templateId)}`;
}
