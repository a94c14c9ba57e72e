/** What the users of the public clients expect inside a sandbox: programs, accounts, files. */

import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useSdkServe } from "../../support/clients/sdk.ts";
import { hasSetId } from "../../support/level.ts";

const service = useSdkServe();
let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await Sandbox.create("base", service.options);
});

afterAll(async () => sandbox.kill());

async function say(script: string): Promise<string> {
  return (await sandbox.commands.run(script)).stdout.trimEnd();
}

test.for(["bash", "cat", "sudo", "python", "python3", "git", "tput", "curl", "findmnt"])(
  "the program %s is there",
  async (program) => {
    expect(await say(`command -v ${program}`)).toMatch(/^\//);
  },
);

test("git can serve repositories by itself", async () => {
  expect(await say(`test -x "$(git --exec-path)/git-daemon" && echo yes`)).toBe("yes");
});

test("text is UTF-8 for programs, those of root too", async () => {
  expect(await say("x=日本; echo $LANG ${#x}; printf %s $x | wc -m")).toBe("C.UTF-8 2\n2");
  expect(await say("sudo -n sh -c 'echo $LANG' || true")).toBe(hasSetId ? "C.UTF-8" : "");
});

test("the accounts: root, and a user with a shell who may become root without a password", async () => {
  expect(await say("getent passwd root user | cut -d: -f1,6,7")).toBe(
    "root:/root:/bin/bash\nuser:/home/user:/bin/bash",
  );
  expect(await say("id -gn; sudo -n id -u || true")).toBe(hasSetId ? "user\n0" : "user");
});

test("files tell which sandbox this is", async () => {
  const script = "cd /run/e2b && cat .E2B_SANDBOX && echo && cat .E2B_SANDBOX_ID";
  expect(await say(script)).toBe(`true\n${sandbox.sandboxId}`);
});
