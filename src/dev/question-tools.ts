/** Fixtures: tools that ask the client, in whichever form its era has. */

import { inputRequired, inputResponse, type McpServer } from "@modelcontextprotocol/server";
import { z } from "../common/schema.ts";
import { textResult } from "./samples.ts";

type FormSchema = Parameters<typeof inputRequired.elicit>[0]["requestedSchema"];

const MAX_TEXT = 1_000;
const KEY = "answer";

export function registerQuestionTools(server: McpServer): void {
  const prompt = z.string().max(MAX_TEXT).describe("What to ask the model.");
  server.registerTool(
    "test_sampling",
    { description: "Asks the client's model.", inputSchema: z.strictObject({ prompt }) },
    (input, ctx) => {
      const answer = inputResponse(ctx.mcpReq.inputResponses, KEY);
      if (answer.kind === "sampling") {
        return textResult(`LLM response: ${JSON.stringify(answer.result.content)}`);
      }
      const content = { type: "text" as const, text: input.prompt };
      const messages = [{ role: "user" as const, content }];
      const question = inputRequired.createMessage({ messages, maxTokens: 100 });
      return inputRequired({ inputRequests: { [KEY]: question } });
    },
  );
  const message = z.string().max(MAX_TEXT).describe("What to ask the user.");
  server.registerTool(
    "test_elicitation",
    { description: "Asks the user.", inputSchema: z.strictObject({ message }) },
    (input, ctx) => {
      const form = { message: input.message, requestedSchema: USER_FORM, label: "User response" };
      return elicit(ctx.mcpReq.inputResponses, form);
    },
  );
  for (const { name, requestedSchema } of FORMS) {
    server.registerTool(name, { description: "Asks the user with a form." }, (ctx) => {
      const form = { message: "Fill the form", requestedSchema, label: "Elicitation completed" };
      return elicit(ctx.mcpReq.inputResponses, form);
    });
  }
}

interface Form {
  readonly message: string;
  readonly requestedSchema: FormSchema;
  /** Begins the text of the result. */
  readonly label: string;
}

function elicit(responses: Record<string, unknown> | undefined, form: Form) {
  const { message, requestedSchema, label } = form;
  const answer = inputResponse(responses, KEY);
  if (answer.kind === "elicit") {
    const content = JSON.stringify(answer.content ?? {});
    return textResult(`${label}: action=${answer.action}, content=${content}`);
  }
  const question = inputRequired.elicit({ message, requestedSchema });
  return inputRequired({ inputRequests: { [KEY]: question } });
}

const USER_FORM: FormSchema = {
  type: "object",
  properties: {
    username: { type: "string", description: "User's response" },
    email: { type: "string", description: "User's email address" },
  },
  required: ["username", "email"],
};

const FORMS: readonly { readonly name: string; readonly requestedSchema: FormSchema }[] = [
  {
    name: "test_elicitation_sep1034_defaults",
    requestedSchema: {
      type: "object",
      properties: {
        name: { type: "string", default: "John Doe" },
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
        verified: { type: "boolean", default: true },
      },
    },
  },
  {
    name: "test_elicitation_sep1330_enums",
    requestedSchema: {
      type: "object",
      properties: {
        untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
        titledSingle: {
          type: "string",
          oneOf: [
            { const: "value1", title: "First Option" },
            { const: "value2", title: "Second Option" },
            { const: "value3", title: "Third Option" },
          ],
        },
        legacyEnum: {
          type: "string",
          enum: ["opt1", "opt2", "opt3"],
          enumNames: ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti: {
          type: "array",
          items: { type: "string", enum: ["option1", "option2", "option3"] },
        },
        titledMulti: {
          type: "array",
          items: {
            anyOf: [
              { const: "value1", title: "First Choice" },
              { const: "value2", title: "Second Choice" },
              { const: "value3", title: "Third Choice" },
            ],
          },
        },
      },
    },
  },
];
