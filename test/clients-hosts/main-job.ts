/** The main job as a script for a model, and what each of its results must show the model. */

import assert from "node:assert/strict";
import { withoutMark } from "../support/marks.ts";
import type { Script, ScriptedCall, ShownResult } from "./model-api.ts";

/** One red pixel. */
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/** More than any host shows its model whole. */
const LARGE = "seq 1 40000";

export interface Turn {
  readonly name: string;
  call(shown: readonly ShownResult[]): ScriptedCall;
  /** @throws when the model could not go on from this. */
  check(result: ShownResult): void;
}

/** What differs between hosts. */
export interface HostWords {
  /** What the model is told of a call that took longer than the host's limit. */
  readonly timeout: RegExp;
  /** What it is told of a result that the host cuts. */
  readonly cut: RegExp;
  /** All that it can reach of a result that was cut. */
  readonly whole: (text: string) => string;
}

export function mainJob({ timeout, cut, whole }: HostWords): readonly Turn[] {
  return [
    {
      name: "creates a sandbox",
      call: () => ({ tool: "create_sandbox", input: {} }),
      check: ({ text }) => assert.match(text, /sandbox_id.*"state":"running"|state: running/),
    },
    {
      name: "runs a command with progress",
      call: run({ cmd: "echo one; sleep 1.5; echo two; sleep 1.5; exit 3" }),
      check: ({ text }) =>
        assert.match(withoutMark(text), /exit_code: 3 [^]*--- stdout\none\ntwo\n--- end/),
    },
    {
      name: "starts a long command",
      call: run({ cmd: "for i in 1 2 3; do echo step $i; sleep 1; done", wait_seconds: 1 }),
      check: ({ text }) => assert.match(text, /status: running [^]*next_cursor: \d+/),
    },
    {
      name: "follows it to its end",
      call: (shown) => ({
        tool: "get_process_output",
        input: {
          ...sandboxOf(shown),
          process_id: read(shown.at(-1), /process_id: (p_\d+)/),
          cursor: 0,
          wait_seconds: 0,
        },
      }),
      check: ({ text }) => assert.match(text, /step 1/),
    },
    {
      name: "writes a picture",
      call: (shown) => ({
        tool: "write_file",
        input: { ...sandboxOf(shown), path: "a.png", content: PIXEL, encoding: "base64" },
      }),
      check: ({ text }) => assert.match(text, /wrote \d+ bytes/),
    },
    {
      name: "sees the picture",
      call: (shown) => ({ tool: "read_file", input: { ...sandboxOf(shown), path: "a.png" } }),
      check({ text, images }) {
        assert.match(text, /image\/png \| 1 x 1 pixels/);
        assert.deepEqual(images, ["image/png"]);
      },
    },
    {
      name: "gets the beginning and the end of a large output, uncut by the host",
      call: run({ cmd: LARGE }),
      check({ text }) {
        assert.match(withoutMark(text), /exit_code: 0 [^]*\n1\n2\n[^]*\n40000\n--- end/);
        assert.doesNotMatch(text, cut);
      },
    },
    {
      name: "still reads how a command ended whose result the host cuts",
      call: run({ cmd: LARGE, max_output_bytes: 200_000 }),
      check({ text }) {
        assert.match(text, cut);
        assert.match(whole(text), /exit_code: 0 .*process_id: p_\d+/);
      },
    },
    {
      name: "is told that the host gave a command up",
      call: run({ cmd: "exec sleep 600", wait_seconds: 50 }),
      check: ({ text }) => assert.match(text, timeout),
    },
    {
      name: "finds that the command was ended",
      call: run({ cmd: "sleep 4; cat /proc/[0-9]*/comm | grep -cx sleep; true" }),
      check: ({ text }) => assert.match(withoutMark(text), /--- stdout\n0\n--- end/),
    },
    {
      name: "kills the sandbox",
      call: (shown) => ({ tool: "kill_sandbox", input: sandboxOf(shown) }),
      check: ({ text }) => assert.match(text, /killed/),
    },
    {
      name: "is told that it is gone, and what to do",
      call: run({ cmd: "true" }),
      check: ({ text }) => assert.match(text, /not_found: [^]*create_sandbox/),
    },
  ];
}

function run(input: object): Turn["call"] {
  return (shown) => ({ tool: "run_process", input: { ...sandboxOf(shown), ...input } });
}

/** The calls one after the other; the number of results tells which is next. */
export function scriptOf(turns: readonly Turn[]): Script {
  return (shown) => turns[shown.length]?.call(shown);
}

function sandboxOf(shown: readonly ShownResult[]): { readonly sandbox_id: string } {
  return { sandbox_id: read(shown[0], /sandbox_id\\?"?: ?\\?"?([a-z0-9]+)/) };
}

/** What a result says in the place of the pattern's group; a word that no call accepts otherwise. */
function read(result: ShownResult | undefined, pattern: RegExp): string {
  return pattern.exec(result?.text ?? "")?.[1] ?? "unknown";
}
