/** Fixtures: tools that return one kind of content each. */

import type { McpServer } from "@modelcontextprotocol/server";
import { SandboxError } from "../common/errors.ts";
import { PNG_BASE64, textResult, WAV_BASE64 } from "./samples.ts";

export function registerContentTools(server: McpServer): void {
  server.registerTool("test_simple_text", { description: "Returns a text." }, () =>
    textResult("This is a simple text response for testing."),
  );
  server.registerTool("test_image_content", { description: "Returns an image." }, () => ({
    content: [{ type: "image", data: PNG_BASE64, mimeType: "image/png" }],
  }));
  server.registerTool("test_audio_content", { description: "Returns a sound." }, () => ({
    content: [{ type: "audio", data: WAV_BASE64, mimeType: "audio/wav" }],
  }));
  server.registerTool("test_embedded_resource", { description: "Returns a resource." }, () => ({
    content: [
      {
        type: "resource",
        resource: {
          uri: "test://embedded-resource",
          mimeType: "text/plain",
          text: "This is an embedded resource content.",
        },
      },
    ],
  }));
  server.registerTool(
    "test_multiple_content_types",
    { description: "Returns three kinds." },
    () => ({
      content: [
        { type: "text", text: "Multiple content types test:" },
        { type: "image", data: PNG_BASE64, mimeType: "image/png" },
        {
          type: "resource",
          resource: {
            uri: "test://mixed-content-resource",
            mimeType: "application/json",
            text: JSON.stringify({ test: "data", value: 123 }),
          },
        },
      ],
    }),
  );
  server.registerTool("test_error_handling", { description: "Always fails." }, () => {
    throw new SandboxError("internal", "This tool intentionally returns an error for testing");
  });
}
