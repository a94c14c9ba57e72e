/**
 * The attacks of `npm run security` that programs make by themselves, inside a Pod. Whatever is not
 * refused is listed here with the reason; what is listed and refused is a fault of the list.
 */

import { readFile } from "node:fs/promises";
import type { Sandbox } from "e2b";
import { attackCommand, attackFiles, parseOutcomes } from "../../support/hostile/attack-range.ts";
import { REFUSED_CALLS } from "../../support/hostile/refused-calls.ts";
import type { World } from "../world.ts";
import { createFrom } from "./images.ts";

const USERS = ["root", "user"] as const;
/** An error of the system, the signal of a filter, or what an attack prints when it found nothing. */
const REFUSED = /^(?:E[A-Z]+|SIG[A-Z]+|none|contained)$/;
/** Ids of the machine from which those of Pods begin. */
const FIRST_ID = 65_536;

interface PodAttack {
  readonly program: string;
  readonly id: string;
  readonly words?: readonly (string | number)[];
  /** Outcomes that are not refusals, by user and name: what they may be. */
  readonly open?: readonly (readonly [string, RegExp, RegExp])[];
}

/** A path of the node that no container has is the last word of some. */
function attacksOn(secret: string): readonly PodAttack[] {
  return [
    { program: "mounts", id: "E08" },
    { program: "mounts", id: "E09" },
    { program: "mounts", id: "E10", words: [secret] },
    {
      program: "mounts",
      id: "E11",
      words: ["/dev/shm"],
      // The default filter lets a handle be made. None can be opened.
      open: [["any", /^name_to_handle_at$/, /^ok$/]],
    },
    { program: "mounts", id: "E12" },
    { program: "mounts", id: "E13" },
    { program: "mounts", id: "E14" },
    { program: "processes", id: "E05", words: [secret] },
    {
      program: "processes",
      id: "E06",
      open: [["any", /^[012]$/, /^(?:\/dev\/null|\/dev\/shm\/envd-\S+ \(deleted\)|pipe)$/]],
    },
    {
      program: "processes",
      id: "E07",
      words: ["/run/sandbox-mcp/sh", "-c", "'sleep 9'"],
      // Files of the image, which this one Pod changes for itself; no snapshot takes them along.
      open: [["root", /^reopen$/, /^ok$/]],
    },
    {
      program: "processes",
      id: "E23",
      words: [1],
      // Root of a Pod traces processes of its Pod, the daemon too: it guards the Pod against others alone.
      open: [["root", /^victim (?:attach|seize|readv|writev|mem)$/, /^ok$/]],
    },
    {
      program: "processes",
      id: "E24",
      words: [1],
      // The tokens of this one sandbox, which its daemon compares.
      open: [
        ["root", /^tokens$/, /^[0-9a-f ]+$/],
        ["root", /^\S+ of 1$/, /^ok$/],
      ],
    },
    {
      program: "processes",
      id: "E30",
      open: [
        ["any", /^set-user-id$/, /^0 [0-9]+$/],
        // CAP_NET_BIND_SERVICE alone.
        ["any", /^bind service$/, /^0000000000000400$/],
      ],
    },
    { program: "kernel", id: "E21" },
    { program: "kernel", id: "E22" },
    {
      program: "kernel",
      id: "E31",
      // UNIX, INET, INET6 and NETLINK, whose protocols the default filter does not tell apart.
      open: [
        ["any", /^(?:native|socketcall|int80) (?:1|2|10|16)$/, /^ok$/],
        ["any", /^netlink /, /^ok$/],
      ],
    },
    { program: "kernel", id: "E32", words: REFUSED_CALLS },
    {
      program: "kernel",
      id: "E33",
      // Into a terminal of its own: the default filter lets it pass, and no terminal of others is there.
      open: [["any", /^TIOCSTI/, /^ok$/]],
    },
    { program: "kernel", id: "E34" },
    {
      program: "kernel",
      id: "E35",
      // A file that the kubelet mounts.
      open: [["any", /^beyond the list$/, /^termination-log$/]],
    },
  ];
}

export async function runEscapes(world: World): Promise<void> {
  const [sandbox, neighbour] = [await createFrom(world, "base"), await createFrom(world, "base")];
  for (const { source, path } of attackFiles()) {
    await sandbox.files.write(path, await readFile(source, "utf8"), { user: "root" });
  }
  for (const attack of attacksOn(world.directory)) {
    for (const user of USERS) {
      await world.check(`escape: ${attack.id} by ${user}`, async () => {
        const text = await attackBy(sandbox, attack, user);
        const { stdout } = await neighbour.commands.run("echo alive");
        if (stdout !== "alive\n") throw new Error("the neighbour does not answer");
        return text;
      });
    }
  }
  for (const each of [sandbox, neighbour]) await each.kill();
}

async function attackBy(sandbox: Sandbox, attack: PodAttack, user: string): Promise<string> {
  const command = attackCommand(attack).join(" ");
  const { stdout } = await sandbox.commands.run(command, { user, timeoutMs: 0 });
  const outcomes = Object.entries(parseOutcomes(stdout));
  const open = (attack.open ?? []).filter(([who]) => who === "any" || who === user);
  const through = outcomes.filter(([, outcome]) => !REFUSED.test(outcome));
  const odd = through.filter(
    ([name, outcome]) => !open.some(([, names, may]) => names.test(name) && may.test(outcome)),
  );
  const unused = open.filter(([, names]) => !through.some(([name]) => names.test(name)));
  if (outcomes.length === 0 || odd.length > 0) throw new Error(JSON.stringify(odd));
  if (unused.length > 0) throw new Error(`listed, and refused: ${String(unused)}`);
  requireOwnIds(outcomes);
  return `${outcomes.length - through.length} refused, ${through.length} open by design`;
}

/** A program that is raised has an id of the Pod. */
function requireOwnIds(outcomes: readonly (readonly [string, string])[]): void {
  const raised = new Map(outcomes).get("set-user-id");
  if (raised === undefined) return;
  const outside = Number(raised.split(" ")[1]);
  if (!(outside >= FIRST_ID)) throw new Error(`an id of the machine: ${raised}`);
}
