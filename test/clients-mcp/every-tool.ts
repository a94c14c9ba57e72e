/** A successful call of every tool, in an order in which each has what it needs. */

import type { ForeignClient, ForeignReply } from "./foreign-client.ts";

export interface MadeCall {
  readonly tool: string;
  readonly reply: ForeignReply;
}

/** What a reply says in the place of the pattern's group. */
function read({ text }: ForeignReply, pattern: RegExp): string {
  const found = pattern.exec(text)?.[1];
  if (found === undefined) throw new Error(`${pattern} is not in: ${text}`);
  return found;
}

/** All but `run_code`; the sandbox lives afterwards. */
export async function* callsOfEveryTool(
  client: ForeignClient,
  sandbox: { readonly sandbox_id: string },
): AsyncGenerator<MadeCall> {
  const call = async (tool: string, input: object): Promise<MadeCall> => ({
    tool,
    reply: await client.call(tool, { ...sandbox, ...input }),
  });
  const plain = async (tool: string, input: object): Promise<MadeCall> => ({
    tool,
    reply: await client.call(tool, input),
  });
  yield* files(call);
  yield* processes(call);
  const watch = await call("watch_path", { path: "/home/user", wait_seconds: 0 });
  yield watch;
  const watcher_id = read(watch.reply, /watcher_id: (\S+)/);
  yield call("watch_path", { watcher_id, wait_seconds: 0, close: true });
  for (const tool of ["get_sandbox", "get_logs", "get_metrics", "list_processes"]) {
    yield call(tool, {});
  }
  yield call("get_sandbox_url", { port: 80 });
  yield call("set_timeout", { timeout_seconds: 300 });
  yield plain("list_sandboxes", {});
  const templates = await plain("list_templates", {});
  yield templates;
  yield plain("get_template", { template: "base" });
  yield plain("build_template", { name: "every", steps: [{ type: "env", value: "A=b" }] });
  const made = await call("snapshot", {});
  yield made;
  yield call("list_snapshots", {});
  const fork = await call("fork_sandbox", {});
  yield fork;
  const copy = read(fork.reply, /"sandbox_id":"([a-z0-9]+)"/);
  yield plain("kill_sandbox", { sandbox_id: copy });
  yield plain("delete_snapshot", { snapshot_id: read(made.reply, /snapshot_id: (\S+)/) });
  yield call("pause_sandbox", {});
  yield call("connect_sandbox", {});
  const other = await plain("create_sandbox", {});
  yield other;
  yield plain("kill_sandbox", { sandbox_id: read(other.reply, /sandbox_id"?: ?"?([a-z0-9]+)/) });
}

type Call = (tool: string, input: object) => Promise<MadeCall>;

async function* files(call: Call): AsyncGenerator<MadeCall> {
  yield call("make_directory", { path: "every" });
  yield call("write_file", { path: "every/a.txt", content: "one\ntwo\n" });
  yield call("edit_file", { path: "every/a.txt", old_string: "two", new_string: "three" });
  yield call("read_file", { path: "every/a.txt" });
  yield call("write_file", { path: "every/b.bin", content: "AP+A", encoding: "base64" });
  yield call("read_file", { path: "every/b.bin", encoding: "base64" });
  yield call("read_file", { path: "pixel.png" });
  yield call("search_files", { path: "every", pattern: "three" });
  yield call("stat_path", { path: "every/a.txt" });
  yield call("list_directory", { path: "every" });
  yield call("move_path", { source: "every/a.txt", destination: "every/c.txt" });
  yield call("compose_files", {
    sources: ["every/c.txt", "every/b.bin"],
    destination: "every/d.bin",
  });
  yield call("download_url", { path: "every/d.bin" });
  yield call("remove_path", { path: "every/d.bin" });
}

async function* processes(call: Call): AsyncGenerator<MadeCall> {
  const started = await call("run_process", { cmd: "cat", keep_stdin_open: true, wait_seconds: 0 });
  yield started;
  const process_id = read(started.reply, /process_id: (p_\d+)/);
  yield call("send_input", { process_id, data: "hello\n", wait_seconds: 1 });
  yield call("get_process_output", { process_id });
  yield call("send_signal", { process_id, signal: "SIGKILL" });
}
