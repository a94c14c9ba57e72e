/** Fixtures: resources besides the logs. */

import { ResourceTemplate, type McpServer } from "@modelcontextprotocol/server";
import { PNG_BASE64 } from "./samples.ts";

/** Never changes; the suite only subscribes to it. */
export const WATCHED_URI = "test://watched-resource";

export function registerResources(server: McpServer): void {
  const text = { mimeType: "text/plain", description: "A fixed text." };
  server.registerResource("static-text", "test://static-text", text, ({ href: uri }) => ({
    contents: [
      { uri, mimeType: "text/plain", text: "This is the content of the static text resource." },
    ],
  }));
  const image = { mimeType: "image/png", description: "A fixed image." };
  server.registerResource("static-binary", "test://static-binary", image, ({ href: uri }) => ({
    contents: [{ uri, mimeType: "image/png", blob: PNG_BASE64 }],
  }));
  server.registerResource("watched-resource", WATCHED_URI, text, ({ href: uri }) => ({
    contents: [{ uri, mimeType: "text/plain", text: "Watched." }],
  }));
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  const data = { mimeType: "application/json", description: "Data of an id." };
  server.registerResource("template", template, data, ({ href: uri }, { id }) => {
    const body = { id, templateTest: true, data: `Data for ID: ${String(id)}` };
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify(body) }] };
  });
}
