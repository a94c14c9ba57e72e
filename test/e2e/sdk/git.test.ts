/** Repositories through the helpers of the public clients, against servers inside the sandbox. */

// The helpers will leave the client one day; until then they are part of it.
/* oxlint-disable typescript/no-deprecated */
import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MATRIX_RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const AUTHOR = { authorName: "Some Body", authorEmail: "some@body.test" };

const service = useSdkServe();

describe.each(MATRIX_RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
    const script = `set -e
git init -q --bare -b main /tmp/served/origin.git
git init -q -b main /tmp/seed && cd /tmp/seed
git config user.name seed && git config user.email seed@body.test
echo first > a.txt && git add -A && git commit -qm "First of all"
git branch side && git push -q /tmp/served/origin.git main side`;
    await sandbox.commands.run(script);
  });

  afterAll(async () => sandbox.kill());

  /** A new repository with one commit. */
  async function seeded(path: string): Promise<void> {
    await sandbox.git.init(path, { initialBranch: "main" });
    await sandbox.files.write(`${path}/a.txt`, "one\n");
    await sandbox.git.add(path);
    await sandbox.git.commit(path, "Begin", AUTHOR);
  }

  test("a repository is made, plain and bare", async () => {
    await sandbox.git.init("/tmp/made", { initialBranch: "trunk" });
    expect(await sandbox.git.status("/tmp/made")).toMatchObject({
      currentBranch: "trunk",
      detached: false,
      isClean: true,
      totalCount: 0,
    });
    await sandbox.git.init("/tmp/made.git", { bare: true });
    expect(await sandbox.files.exists("/tmp/made.git/HEAD")).toBe(true);
  });

  test("files of an upload are git's own: no doubt about who owns the repository", async () => {
    await sandbox.git.init("/tmp/uploaded");
    await sandbox.files.write("/tmp/uploaded/new.txt", "x");
    expect(await sandbox.git.status("/tmp/uploaded")).toMatchObject({
      hasUntracked: true,
      untrackedCount: 1,
      fileStatus: [{ name: "new.txt", status: "untracked", staged: false }],
    });
    await sandbox.git.add("/tmp/uploaded", { files: ["new.txt"] });
    expect(await sandbox.git.status("/tmp/uploaded")).toMatchObject({
      hasStaged: true,
      fileStatus: [{ name: "new.txt", status: "added", staged: true }],
    });
    await sandbox.git.commit("/tmp/uploaded", "It's a 'first' $commit", AUTHOR);
    expect(await sandbox.git.status("/tmp/uploaded")).toMatchObject({ isClean: true });
    const log = await sandbox.commands.run("git -C /tmp/uploaded log --format='%an %ae %s'");
    expect(log.stdout).toBe("Some Body some@body.test It's a 'first' $commit\n");
  });

  test("changes, renames and deletions are told apart", async () => {
    await seeded("/tmp/changing");
    await sandbox.commands.run("git mv a.txt b.txt && echo c > c.txt && git add c.txt", {
      cwd: "/tmp/changing",
    });
    await sandbox.git.commit("/tmp/changing", "Rename", AUTHOR);
    await sandbox.files.write("/tmp/changing/b.txt", "two\n");
    await sandbox.files.remove("/tmp/changing/c.txt");
    const status = await sandbox.git.status("/tmp/changing");
    expect(status.fileStatus.map((file) => [file.name, file.status, file.staged])).toEqual([
      ["b.txt", "modified", false],
      ["c.txt", "deleted", false],
    ]);
    await sandbox.git.restore("/tmp/changing", { paths: ["b.txt", "c.txt"] });
    expect(await sandbox.git.status("/tmp/changing")).toMatchObject({ isClean: true });
  });

  test("a reset takes back what was staged, or the commit itself", async () => {
    await seeded("/tmp/reset");
    await sandbox.files.write("/tmp/reset/a.txt", "two\n");
    await sandbox.git.add("/tmp/reset");
    await sandbox.git.reset("/tmp/reset", { mode: "mixed" });
    expect(await sandbox.git.status("/tmp/reset")).toMatchObject({ hasStaged: false });
    await sandbox.git.reset("/tmp/reset", { mode: "hard", target: "HEAD" });
    expect(await sandbox.files.read("/tmp/reset/a.txt")).toBe("one\n");
    await sandbox.git.commit("/tmp/reset", "Empty", { ...AUTHOR, allowEmpty: true });
    await sandbox.git.reset("/tmp/reset", { mode: "soft", target: "HEAD~1" });
    const { stdout } = await sandbox.commands.run("git -C /tmp/reset log --format=%s");
    expect(stdout).toBe("Begin\n");
  });

  test("branches are made, listed, changed and deleted", async () => {
    await seeded("/tmp/branches");
    await sandbox.git.createBranch("/tmp/branches", "work");
    expect(await sandbox.git.branches("/tmp/branches")).toEqual({
      branches: ["main", "work"],
      currentBranch: "work",
    });
    await sandbox.git.checkoutBranch("/tmp/branches", "main");
    await sandbox.git.deleteBranch("/tmp/branches", "work");
    expect(await sandbox.git.branches("/tmp/branches")).toEqual({
      branches: ["main"],
      currentBranch: "main",
    });
    await expect(sandbox.git.checkoutBranch("/tmp/branches", "gone")).rejects.toThrow(
      sdk.CommandExitError,
    );
  });

  test("a local repository is cloned, whole or one branch of it", async () => {
    await sandbox.git.clone("/tmp/served/origin.git", { path: "/tmp/cloned" });
    expect(await sandbox.files.read("/tmp/cloned/a.txt")).toBe("first\n");
    expect(await sandbox.git.remoteGet("/tmp/cloned", "origin")).toBe("/tmp/served/origin.git");
    expect(await sandbox.git.remoteGet("/tmp/cloned", "nowhere")).toBeUndefined();
    await sandbox.git.clone("file:///tmp/served/origin.git", {
      path: "/tmp/shallow",
      branch: "side",
      depth: 1,
    });
    expect(await sandbox.git.branches("/tmp/shallow")).toMatchObject({ currentBranch: "side" });
    await expect(sandbox.git.clone("/tmp/served/none.git", { path: "/tmp/never" })).rejects.toThrow(
      sdk.CommandExitError,
    );
  });

  test("a daemon in the background is cloned from, pushed to and pulled from", async () => {
    const daemon = await sandbox.commands.run(
      "git daemon --reuseaddr --base-path=/tmp/served --export-all --enable=receive-pack --listen=127.0.0.1",
      { background: true },
    );
    const url = "git://127.0.0.1/origin.git";
    await expect
      .poll(async () =>
        sandbox.commands.run(`git ls-remote ${url} main`).then(({ exitCode }) => exitCode, String),
      )
      .toBe(0);
    await sandbox.git.clone(url, { path: "/tmp/here" });
    await sandbox.git.clone(url, { path: "/tmp/there" });
    await sandbox.files.write("/tmp/here/pushed.txt", "over the wire\n");
    await sandbox.git.add("/tmp/here");
    await sandbox.git.commit("/tmp/here", "Push me", AUTHOR);
    expect(await sandbox.git.status("/tmp/here")).toMatchObject({
      upstream: "origin/main",
      ahead: 1,
      behind: 0,
    });
    await sandbox.git.push("/tmp/here");
    await sandbox.git.pull("/tmp/there");
    expect(await sandbox.files.read("/tmp/there/pushed.txt")).toBe("over the wire\n");
    await daemon.kill();
  });

  test("without an upstream, pushes and pulls say so in a class of their own", async () => {
    await seeded("/tmp/lonely");
    await expect(sandbox.git.pull("/tmp/lonely")).rejects.toThrow(sdk.GitUpstreamError);
    await sandbox.git.remoteAdd("/tmp/lonely", "origin", "/tmp/served/origin.git", {
      overwrite: true,
    });
    await expect(sandbox.git.push("/tmp/lonely", { setUpstream: false })).rejects.toThrow(
      sdk.GitUpstreamError,
    );
    await sandbox.git.createBranch("/tmp/lonely", "own");
    await sandbox.git.push("/tmp/lonely", { remote: "origin", branch: "own" });
    expect(await sandbox.git.status("/tmp/lonely")).toMatchObject({ upstream: "origin/own" });
  });

  test("a server that asks who it is gets no answer, and the client says why", async () => {
    const server = `import http.server
class Asking(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 8090), Asking).serve_forever()`;
    await sandbox.files.write("/tmp/asking.py", server);
    const asking = await sandbox.commands.run("python3 /tmp/asking.py", { background: true });
    await sandbox.commands.run(
      "curl -s --retry 50 --retry-delay 0 --retry-connrefused localhost:8090",
    );
    const url = "http://127.0.0.1:8090/some.git";
    await expect(sandbox.git.clone(url, { path: "/tmp/asked" })).rejects.toThrow(sdk.GitAuthError);
    await expect(
      sandbox.git.clone(url, { path: "/tmp/asked", username: "some", password: "wrong" }),
    ).rejects.toThrow(sdk.GitAuthError);
    await asking.kill();
  });

  test("settings: of everybody's, of one repository, and of one user", async () => {
    const { git } = sandbox;
    await git.configureUser("Global Name", "global@body.test");
    expect(await git.getConfig("user.name")).toBe("Global Name");
    expect(await git.getConfig("user.email")).toBe("global@body.test");
    await git.init("/tmp/settings");
    const local = { scope: "local", path: "/tmp/settings" } as const;
    await git.setConfig("pull.rebase", "true", local);
    expect(await git.getConfig("pull.rebase", local)).toBe("true");
    expect(await git.getConfig("pull.rebase")).toBeUndefined();
    expect(await git.getConfig("user.name", { user: "root" })).toBeUndefined();
    await git.dangerouslyAuthenticate({ username: "some", password: "secret", host: "host.test" });
    expect(await git.getConfig("credential.helper")).toBe("store");
    expect(await sandbox.files.read("/home/user/.git-credentials")).toBe(
      "https://some:secret@host.test\n",
    );
  });

  test("what makes no sense is refused by the client, before anything runs", async () => {
    const { git } = sandbox;
    const refused = sdk.InvalidArgumentError;
    await expect(git.clone("/x", { password: "alone" })).rejects.toThrow(refused);
    await expect(git.remoteAdd("/tmp/made", "", "")).rejects.toThrow(refused);
    await expect(git.restore("/tmp/made", { paths: [] })).rejects.toThrow(refused);
    await expect(git.setConfig("", "x")).rejects.toThrow(refused);
    await expect(git.status("/tmp/no-repository")).rejects.toThrow(sdk.CommandExitError);
  });
});
