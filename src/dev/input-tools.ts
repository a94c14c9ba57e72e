/** Fixtures: tools of the newer era that need several rounds, with state that the client carries. */

import {
  acceptedContent,
  inputRequired,
  inputResponse,
  CLIENT_CAPABILITIES_META_KEY,
  type McpServer,
  type RequestStateCodec,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "../common/schema.ts";
import { textResult } from "./samples.ts";

type Codec = RequestStateCodec;

const CAPITAL = question("What is the capital of France?", 100);
const GREETING = question("Generate a greeting", 50);
const CONFIRM = inputRequired.elicit({
  message: "Please confirm",
  requestedSchema: {
    type: "object",
    properties: { ok: { type: "boolean" } },
    required: ["ok"],
  },
});
const NAME = ask("What is your name?", "name");

export function registerInputTools(server: McpServer, codec: Codec): void {
  registerSingle(server);
  registerStateful(server, codec);
  server.registerTool(
    "test_input_required_result_multi_round",
    { description: "Asks twice." },
    (ctx) => multiRound(ctx, codec),
  );
  server.registerTool(
    "test_input_required_result_capabilities",
    { description: "Asks only what the client can answer." },
    askWhatIsDeclared,
  );
  server.registerTool("test_missing_capability", { description: "Needs sampling." }, (ctx) =>
    inputResponse(ctx.mcpReq.inputResponses, "capital_question").kind === "sampling"
      ? textResult("Answered")
      : inputRequired({ inputRequests: { capital_question: CAPITAL } }),
  );
}

/** One question, no state. */
function registerSingle(server: McpServer): void {
  const description = "Asks for a name.";
  server.registerTool("test_input_required_result_elicitation", { description }, byName);
  server.registerTool("test_streaming_elicitation", { description }, byName);
  server.registerTool(
    "test_input_required_result_sampling",
    { description: "Asks the client's model." },
    (ctx) => {
      const answer = inputResponse(ctx.mcpReq.inputResponses, "capital_question");
      if (answer.kind === "sampling") return textResult(JSON.stringify(answer.result.content));
      return inputRequired({ inputRequests: { capital_question: CAPITAL } });
    },
  );
  server.registerTool(
    "test_input_required_result_list_roots",
    { description: "Asks for the client's roots." },
    (ctx) => {
      const answer = inputResponse(ctx.mcpReq.inputResponses, "client_roots");
      if (answer.kind === "roots") {
        return textResult(`Roots: ${answer.roots.map(({ uri }) => uri).join(", ")}`);
      }
      return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
    },
  );
}

function byName(ctx: ServerContext) {
  const name = answered(ctx, "user_name", "name");
  if (name !== undefined) return textResult(`Hello, ${name}!`);
  return inputRequired({ inputRequests: { user_name: NAME } });
}

/** Questions whose answers count only with the state that went out with them. */
function registerStateful(server: McpServer, codec: Codec): void {
  const confirm = async (ctx: ServerContext) => {
    const isAnswered = answered(ctx, "confirm", "ok") !== undefined;
    if (isAnswered && ctx.mcpReq.requestState() === "confirm") return textResult("state-ok");
    const requestState = await codec.mint("confirm");
    return inputRequired({
      inputRequests: { confirm: CONFIRM },
      requestState,
    });
  };
  const description = "Asks for a confirmation.";
  server.registerTool("test_input_required_result_request_state", { description }, confirm);
  server.registerTool("test_input_required_result_tampered_state", { description }, confirm);
  server.registerTool(
    "test_input_required_result_multiple_inputs",
    { description: "Asks three things at once." },
    async (ctx) => {
      const { inputResponses } = ctx.mcpReq;
      const isWhole =
        answered(ctx, "user_name", "name") !== undefined &&
        inputResponse(inputResponses, "greeting").kind === "sampling" &&
        inputResponse(inputResponses, "client_roots").kind === "roots";
      if (isWhole && ctx.mcpReq.requestState() === "inputs") return textResult("All answered");
      return inputRequired({
        inputRequests: {
          user_name: NAME,
          greeting: GREETING,
          client_roots: inputRequired.listRoots(),
        },
        requestState: await codec.mint("inputs"),
      });
    },
  );
}

async function multiRound(ctx: ServerContext, codec: Codec) {
  const round = ctx.mcpReq.requestState();
  const color = answered(ctx, "step2", "color");
  if (round === "round-2" && color !== undefined) return textResult(`Your color is ${color}`);
  const name = answered(ctx, "step1", "name");
  if (round === "round-1" && name !== undefined) {
    return inputRequired({
      inputRequests: { step2: ask("Step 2: What is your favorite color?", "color") },
      requestState: await codec.mint("round-2"),
    });
  }
  return inputRequired({
    inputRequests: { step1: ask("Step 1: What is your name?", "name") },
    requestState: await codec.mint("round-1"),
  });
}

const capabilitiesSchema = z.looseObject({
  sampling: z.unknown().optional(),
  elicitation: z.unknown().optional(),
  roots: z.unknown().optional(),
});

function askWhatIsDeclared(ctx: ServerContext) {
  const { inputResponses, envelope } = ctx.mcpReq;
  if (inputResponses !== undefined) return textResult("Answered");
  const meta: Readonly<Record<string, unknown>> = { ...envelope };
  const declared = capabilitiesSchema.parse(meta[CLIENT_CAPABILITIES_META_KEY] ?? {});
  const inputRequests = {
    ...(declared.sampling !== undefined && { capital_question: CAPITAL }),
    ...(declared.elicitation !== undefined && { user_name: NAME }),
    ...(declared.roots !== undefined && { client_roots: inputRequired.listRoots() }),
  };
  if (Object.keys(inputRequests).length === 0) return textResult("Nothing can be asked");
  return inputRequired({ inputRequests });
}

function ask(message: string, field: string) {
  return inputRequired.elicit({
    message,
    requestedSchema: {
      type: "object",
      properties: { [field]: { type: "string" } },
      required: [field],
    },
  });
}

function question(text: string, maxTokens: number) {
  const content = { type: "text" as const, text };
  return inputRequired.createMessage({ messages: [{ role: "user", content }], maxTokens });
}

/** A field of an accepted form, as text. */
function answered(ctx: ServerContext, key: string, field: string): string | undefined {
  const schema = z.looseObject({ [field]: z.union([z.string(), z.boolean()]) });
  const value = acceptedContent(ctx.mcpReq.inputResponses, key, schema)?.[field];
  return value === undefined ? undefined : String(value);
}
