import { expect, test } from "vitest";
import { fields, frame, runPerl } from "../../support/daemon/perl-program.ts";

interface Order {
  readonly command: readonly string[];
  readonly size?: readonly [columns: number, rows: number];
  readonly directory?: string;
  readonly variables?: readonly string[];
}

/** Nobody's ids: the command has those of the program. */
function order({ command, size = [80, 24], directory = "/", variables = [] }: Order): Buffer {
  const [columns, rows] = size;
  const count = String(variables.length);
  return frame(
    fields(`${columns}`, `${rows}`, directory, "", "", "", count, ...variables, ...command),
  );
}

/** What was shown and reported; the number of the process is another one each time. */
async function show(orders: Buffer, input = "") {
  const { code, stdout, reports } = await runPerl("terminal", {
    words: [process.arch],
    orders,
    input,
  });
  return { code, shown: stdout.toString(), reports: reports.replace(/^pid \d+$/m, "pid N") };
}

const shell = (script: string, more: Partial<Order> = {}) =>
  order({ command: ["/bin/sh", "-c", script], ...more });

test("a command runs on a terminal of its size, in its directory, with its variables alone", async () => {
  const script = 'test -t 0 && stty size && pwd && echo "$A" "${PATH_OF_TEST-none}"; exit 3';
  const variables = [`PATH=${process.env["PATH"]}`, "A=b=c\nd"];
  const orders = shell(script, { size: [132, 43], directory: "/usr", variables });
  expect(await show(orders)).toEqual({
    code: 0,
    shown: "43 132\r\n/usr\r\nb=c\r\nd none\r\n",
    reports: "pid N\nexit 3\n",
  });
});

test("a change of size is done before what is typed after it", async () => {
  const orders = Buffer.concat([
    shell("read line; stty size", { variables: [`PATH=${process.env["PATH"]}`] }),
    Buffer.of(0, 100, 0, 50),
  ]);
  const { shown, reports } = await show(orders, "x\n");
  expect({ shown, reports }).toEqual({ shown: "x\r\n50 100\r\n", reports: "pid N\nexit 0\n" });
});

test("an end by a signal is reported as one", async () => {
  expect((await show(shell("kill -9 $$"))).reports).toBe("pid N\nsignal 9\n");
});

test.for([
  [["/no/such"], "sh: /no/such: not found\r\n", "exit 127"],
  [["/"], "sh: /: Permission denied\r\n", "exit 126"],
  [[""], "sh: : not found\r\n", "exit 127"],
] as const)("command %j is refused on the terminal", async ([command, shown, end]) => {
  expect(await show(order({ command }))).toEqual({ code: 0, shown, reports: `pid N\n${end}\n` });
});

test("a directory that is not there is reported instead of a process", async () => {
  const orders = shell("true", { directory: "/no/such" });
  expect(await show(orders)).toEqual({ code: 111, shown: "", reports: "fail 2 chdir\n" });
});

test("a record without fields is refused", async () => {
  const { code, reports } = await show(frame());
  expect({ code, reports }).toEqual({ code: 111, reports: expect.stringMatching(/^fail \d+ /) });
});
