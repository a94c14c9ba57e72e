/** The requests of a warm-up are what the wire's own schemas make of the calls. */

import { create, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { warmUpRequests } from "../../../src/commands/service/warm-up-requests.ts";
import { StartRequestSchema } from "../../../src/gen/process/process_pb.ts";
import { encodeStart } from "../../../src/rpc/process-events.ts";

test("a process is started in either codec", () => {
  const message = { process: { cmd: "true" } };
  const bodies = warmUpRequests("/work").flatMap(({ path, body }) =>
    path === "/process.Process/Start" ? [body] : [],
  );
  expect(bodies).toEqual([
    encodeStart(message),
    expect.objectContaining({ length: expect.any(Number) }),
  ]);
  const bytes = toBinary(StartRequestSchema, create(StartRequestSchema, message));
  expect(bodies[0]).toEqual(Buffer.concat([Buffer.of(0, 0, 0, 0, bytes.length), bytes]));
});

test("every path is below the folder", () => {
  const [, , , , upload, download, list] = warmUpRequests("/a b");
  expect([upload?.path, download?.path, list?.body]).toEqual([
    "/files?path=%2Fa%20b%2Ffile",
    "/files?path=%2Fa%20b%2Ffile",
    '{"path":"/a b"}',
  ]);
});
