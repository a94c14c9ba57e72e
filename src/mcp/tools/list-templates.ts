/** Tool: lists templates. */

import { z } from "../../common/schema.ts";
import { cutText } from "../../common/untrusted-text.ts";
import { onOptionalRoute } from "../replies/error-hints.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

/** The wire has no pages for templates. */
const MAX_SHOWN = 100;

const MAX_COMMAND_CHARACTERS = 200;
const cut = (text: string) => cutText(text, MAX_COMMAND_CHARACTERS);

export const listTemplates = defineTool({
  name: "list_templates",
  title: "List templates",
  description:
    "Lists the templates of this account that create_sandbox can start from, with size, start command and age. " +
    "The template base always exists. For snapshots use list_snapshots; for the builds of one " +
    "template use get_template.",
  toolset: "all",
  input: z.strictObject({}),
  output: z.object({
    templates: z.array(
      z.object({
        template_id: z.string(),
        names: z.array(z.string()),
        status: z.string(),
        cpus: z.number(),
        memory_mb: z.number(),
        disk_mb: z.number(),
        start_command: z.string().optional(),
        created_at: z.string(),
        updated_at: z.string(),
      }),
    ),
    note: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler(_input, { service, signal, suggest }) {
    const listing = service.control.templates(signal);
    const missing =
      "The sandbox service cannot list templates. Use base, or a name that you were given.";
    const all = await onOptionalRoute(listing, missing, () =>
      service.control.list({ limit: 1 }, signal),
    );
    const omitted = all.length - MAX_SHOWN;
    const hint = suggest("get_template", "; get_template finds one by its name");
    return recordReply({
      templates: all.slice(0, MAX_SHOWN).map((template) => ({
        template_id: template.templateID,
        names: template.names,
        status: template.buildStatus,
        cpus: template.cpuCount,
        memory_mb: template.memoryMB,
        disk_mb: template.diskSizeMB,
        ...(template.startCmd !== undefined && { start_command: cut(template.startCmd) }),
        created_at: template.createdAt,
        updated_at: template.updatedAt,
      })),
      ...(omitted > 0 && { note: `${omitted} more are not listed${hint}` }),
    });
  },
});
