/** Tool: a template and its builds. */

import { z } from "../../common/schema.ts";
import { cutText } from "../../common/untrusted-text.ts";
import { withHints } from "../replies/error-hints.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

const MAX_COMMAND_CHARACTERS = 200;
const cut = (text: string) => cutText(text, MAX_COMMAND_CHARACTERS);

export const getTemplate = defineTool({
  name: "get_template",
  title: "Describe a template",
  description:
    "Returns names, use and builds of a template or snapshot, newest build first, with the " +
    "status, size and start command of each. Use it to check that a template is ready before starting " +
    "sandboxes from it.",
  toolset: "all",
  input: z.strictObject({
    template: z.string().min(1).max(256).describe("Template id, alias, or snapshot id."),
    limit: z.int().min(1).max(100).default(10).describe("Most builds to return."),
    cursor: z.string().max(1_024).optional().describe("next_cursor of the last reply."),
  }),
  output: z.object({
    template_id: z.string(),
    names: z.array(z.string()),
    is_public: z.boolean(),
    created_at: z.string(),
    updated_at: z.string(),
    spawn_count: z.number(),
    builds: z.array(
      z.object({
        build_id: z.string(),
        status: z.string().optional(),
        created_at: z.string(),
        cpus: z.number(),
        memory_mb: z.number(),
        disk_mb: z.number().optional(),
        start_command: z.string().optional(),
      }),
    ),
    next_cursor: z.string().optional(),
    note: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler({ template: reference, limit, cursor }, { service, signal, suggest }) {
    const query = { limit, ...(cursor !== undefined && { nextToken: cursor }) };
    // The wire takes a plain id; the tag of a snapshot names a build, which the list shows anyway.
    const templateId = reference.split(":")[0] ?? reference;
    const page = await withHints(service.control.template(templateId, query, signal), {
      not_found: `No such template; the default is base.${suggest("list_templates", " list_templates has all.")}`,
      invalid_argument: cursor === undefined ? "" : "Start again without cursor.",
    });
    const { template } = page;
    // Services without pages of builds answer with all of them.
    const omitted = template.builds.length - limit;
    return recordReply({
      template_id: template.templateID,
      names: template.names,
      is_public: template.public,
      created_at: template.createdAt,
      updated_at: template.updatedAt,
      spawn_count: template.spawnCount,
      builds: template.builds.slice(0, limit).map((build) => ({
        build_id: build.buildID,
        ...(build.status !== undefined && { status: build.status }),
        created_at: build.createdAt,
        cpus: build.cpuCount,
        memory_mb: build.memoryMB,
        ...(build.diskSizeMB !== undefined && { disk_mb: build.diskSizeMB }),
        ...(build.startCmd !== undefined && { start_command: cut(build.startCmd) }),
      })),
      ...(page.nextToken !== undefined && { next_cursor: page.nextToken }),
      ...(omitted > 0 && { note: `${omitted} older builds are not listed` }),
    });
  },
});
