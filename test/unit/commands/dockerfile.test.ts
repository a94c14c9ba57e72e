/** A Dockerfile as steps: what is read, and what is refused by its line. */

import { expect, test } from "vitest";
import { readDockerfile } from "../../../src/commands/template-build/dockerfile.ts";
import { readIgnoreFile } from "../../../src/commands/template-build/ignore-file.ts";
import { expandVariables } from "../../../src/sandboxes/template-builds/expand.ts";

test("every instruction that a build has", () => {
  const text = [
    "# a comment",
    "ARG OUTSIDE=1",
    "FROM base AS only",
    'RUN echo "a  b" \\',
    "  # inside",
    "  && true",
    'RUN ["echo", "c d"]',
    'ENV A=1 B="x y"',
    "ARG Q",
    "COPY --chown=user:user --chmod=755 x y z to/",
    "ADD file /there",
    "WORKDIR /srv",
    "USER nobody",
    "EXPOSE 80",
    'ENTRYPOINT ["node"]',
    'CMD ["server.js"]',
  ].join("\n");
  expect(readDockerfile(text, "Dockerfile")).toEqual({
    base: "base",
    notes: [],
    startCommand: "node server.js",
    steps: [
      { type: "RUN", args: ['echo "a  b"   && true'], line: 4 },
      { type: "RUN", args: ["exec echo 'c d'"], line: 7 },
      { type: "ENV", args: ["A", "1", "B", "x y"], line: 8 },
      { type: "COPY", args: ["x", "to/", "user:user", "755"], line: 10 },
      { type: "COPY", args: ["y", "to/", "user:user", "755"], line: 10 },
      { type: "COPY", args: ["z", "to/", "user:user", "755"], line: 10 },
      { type: "COPY", args: ["file", "/there", "", ""], line: 11, isAdd: true },
      { type: "WORKDIR", args: ["/srv"], line: 12 },
      { type: "USER", args: ["nobody"], line: 13 },
    ],
  });
});

test("a volume is no step, and the build says so", () => {
  const { notes, steps } = readDockerfile('FROM a\nVOLUME ["/data"]', "Dockerfile");
  expect(steps).toEqual([]);
  expect(notes).toEqual([
    "Dockerfile:2: VOLUME has no effect: its files are on the disk of the sandbox",
  ]);
});

test.for([
  ["FROM a\nFROM b", "Dockerfile:2: FROM begins a second stage"],
  ["FROM scratch", "Dockerfile:1: FROM scratch is not supported"],
  ["FROM $IMAGE", "Dockerfile:1: FROM has the variable IMAGE, whose value is not in the file"],
  [
    "FROM a\nARG A=$OF_IMAGE/b\nARG A\nWORKDIR /srv/$A",
    "Dockerfile:4: WORKDIR has the variable A, whose value is not in the file",
  ],
  ["ARG A=a\nFROM a\nWORKDIR /$A", "Dockerfile:3: WORKDIR has the variable A"],
  ["ARG A\nFROM $A", "Dockerfile:2: FROM needs one image"],
  ["FROM a\nENV A=/$HOME\nWORKDIR $A", "Dockerfile:3: WORKDIR has the variable A"],
  ["FROM a\nENV A=b B=$A\nWORKDIR /$B", "Dockerfile:3: WORKDIR has the variable B"],
  ["FROM a\nENV A=b\nWORKDIR ${A%b}", "Dockerfile:3: WORKDIR has a variable in a form"],
  ["RUN true", "Dockerfile:1: RUN comes before FROM"],
  ["FROM a\nRUN --mount=type=secret,id=x true", "RUN with --mount of type secret is not supp"],
  ["FROM a\nRUN --mount=target=/x true", "Dockerfile:2: RUN with --mount of type bind is not"],
  ["FROM a\nRUN --mount=type=cache,id=x true", "Dockerfile:2: RUN with --mount needs a target"],
  ["FROM a\nRUN --mount=type=cache,target=/x,uid=a true", "with --mount of the uid a"],
  ["FROM a\nRUN --network=none true", "Dockerfile:2: RUN with --network is not"],
  ["FROM a\nRUN <<EOF\ntrue", "Dockerfile:2: RUN has a here-document EOF that does not end"],
  ["FROM a\nRUN <<EOF\n#!/bin/x\nEOF", "Dockerfile:2: RUN with a here-document of another"],
  ["FROM a\nCOPY <<EOF /x\nb\nEOF", "Dockerfile:2: COPY with a here-document"],
  ["FROM a\nCOPY --chmod=600 <<EOF /x\nb=$B\nEOF", "Dockerfile:2: COPY with a here-document"],
  ["FROM --platform=linux/s390x a", "Dockerfile:1: FROM with --platform=linux/s390x is not"],
  ["FROM a\nCOPY --from=b x y", "Dockerfile:2: COPY with --from"],
  ["FROM a\nADD https://a.test/x y", "Dockerfile:2: ADD from an address"],
  ["FROM a\nCOPY x", "Dockerfile:2: COPY needs a source"],
  ["FROM a\n\nONBUILD RUN true", "Dockerfile:3: ONBUILD is not supported"],
  ["FROM a\nSHELL []", "Dockerfile:2: SHELL has no words"],
  ["FROM a\nSHELL /bin/bash -c", "Dockerfile:2: SHELL needs a list of words"],
  ["FROM a\nRUN []", "Dockerfile:2: RUN has no command"],
  ["FROM a\nRUN --network=default", "Dockerfile:2: RUN has no command"],
  ["FROM a\nWORKDIR $APP/x", "Dockerfile:2: WORKDIR has the variable APP"],
  ["FROM a\nUSER ${WHO}", "Dockerfile:2: USER has the variable WHO"],
  ["FROM a\nCOPY $A b", "Dockerfile:2: COPY has the variable A"],
  ["FROM a\nCOPY --chown=$U a b", "Dockerfile:2: COPY has the variable U"],
  ["FROM a\nCOPY --chown=a:b:c a b", "Dockerfile:2: COPY with --chown needs"],
  ["FROM a\nCOPY --chown a b", "Dockerfile:2: COPY with --chown needs"],
  ["FROM a\nCOPY --chown=a=b a b", "Dockerfile:2: COPY with --chown needs"],
  ["FROM a\nCOPY --chmod=755=x a b", "Dockerfile:2: COPY with --chmod needs"],
  ["FROM a\nCOPY --chmod=u+x a b", "Dockerfile:2: COPY with --chmod needs"],
  ["FROM a\nENV", "Dockerfile:2: ENV needs a name"],
  ["FROM a\nENV A", "Dockerfile:2: ENV needs a name"],
  ["FROM a\nENV A=1 B", "Dockerfile:2: ENV needs a value"],
  ["FROM a\nENV =x", "Dockerfile:2: ENV has a name"],
  ["FROM a\nENV A-B=x", "Dockerfile:2: ENV has a name"],
  ["FROM a\nENV $A=x", "Dockerfile:2: ENV has a name"],
  ["FROM a\nENV __proto__=x", "Dockerfile:2: ENV has a name"],
  ["FROM a\nARG 1A", "Dockerfile:2: ARG has a name"],
  ['FROM a\nENV A="x', 'Dockerfile:2: ENV has a " that does not end'],
  ["FROM a\nENV A='x", "Dockerfile:2: ENV has a ' that does not end"],
  ["FROM a\nENV A=${B#x}", "Dockerfile:2: ENV has a variable in a form"],
  ["FROM a\nENV A=${B:-a'}'}", "Dockerfile:2: ENV has a variable in a form"],
  ["FROM a\nENV A=${B:-a", "Dockerfile:2: ENV has a variable in a form"],
  ['FROM a\nCOPY x "y z" to/', 'Dockerfile:2: COPY has a " that does not end'],
  ["FROM a\nENV A=\\\\$B", "Dockerfile:2: ENV has a backslash before a variable"],
  ["# escape=`\nFROM a", "another escape character"],
  ["", "FROM is missing"],
])("%j is refused", ([text = "", message = ""]) => {
  expect(() => readDockerfile(text, "Dockerfile")).toThrow(message);
});

function faultsOf(text: string): readonly string[] {
  try {
    readDockerfile(text, "Dockerfile");
    return [];
  } catch (error) {
    return String(error instanceof Error ? error.message : error).split("\n");
  }
}

test("all that is refused is told at once, each by its line", () => {
  const text = "FROM a\nONBUILD RUN x\nCOPY --from=b x y\nRUN true\nRUN <<EOF\nx";
  expect(faultsOf(text)).toEqual([
    "Dockerfile:2: ONBUILD is not supported",
    "Dockerfile:3: COPY with --from is not supported",
    "Dockerfile:5: RUN has a here-document EOF that does not end",
  ]);
});

test.for([
  ["RUN a\nRUN b\nCOPY c d\nFROM e", ["Dockerfile:1: RUN comes before FROM"]],
  ["FROM scratch\nRUN a\nUSER b", ["Dockerfile:1: FROM scratch is not supported"]],
  ["FROM a\nENV A=${B#x}\nWORKDIR /$A\nUSER $A", ["Dockerfile:2: ENV has a variable in a form"]],
  ["ARG I=${B#x}\nFROM $I\nRUN a", ["Dockerfile:1: ARG has a variable in a form"]],
  ["RUN a\nARG I=b\nFROM $I\nRUN c", ["Dockerfile:1: RUN comes before FROM"]],
  ["FROM a\nEVN A=b\nWORKDIR /$A", ["Dockerfile:2: EVN is not supported"]],
  ["FROM a\nONBUILD RUN <<B\nc\nB\nRUN d", ["Dockerfile:2: ONBUILD is not supported"]],
] as const)("what only follows from a fault of %j is none of its own", ([text, begins]) => {
  expect(faultsOf(text)).toEqual(begins.map((begin) => expect.stringContaining(begin)));
});

test("of many faults the first ones are told, and how many more there are", () => {
  const faults = faultsOf(`FROM a\n${"ONBUILD RUN x\n".repeat(23)}`);
  expect(faults).toHaveLength(21);
  expect(faults.slice(-2)).toEqual(["Dockerfile:21: ONBUILD is not supported", "and 3 more"]);
});

test.for([
  ["ENV A='$HOME'", ["A", String.raw`\$HOME`]],
  ['ENV A="$HOME"', ["A", "$HOME"]],
  [String.raw`ENV A=\$HOME B="\$HOME"`, ["A", String.raw`\$HOME`, "B", String.raw`\$HOME`]],
  [`ENV A='it'"'"'s' B=a\\ b`, ["A", "it's", "B", "a b"]],
  [String.raw`ENV A="x\"y\z" B='\'`, ["A", String.raw`x"y\z`, "B", "\\"]],
  ["ENV A=$PATH:/x B=${C:-d} D=", ["A", "$PATH:/x", "B", "${C:-d}", "D", ""]],
  ["ENV A some  'value' $B", ["A", "some  value $B"]],
  ["ENV A=1 \\\n  # between\n\n  B=2", ["A", "1", "B", "2"]],
  ["ARG A B=2 C=", ["B", "2", "C", ""]],
] as const)("%j has the pairs %j", ([line, args]) => {
  const { steps } = readDockerfile(`FROM a\n${line}`, "Dockerfile");
  expect(steps.find(({ type }) => ["ENV", "ARG"].includes(type))?.args).toEqual([...args]);
});

test.for([
  // The whole command: a script, whose lines are taken as they are.
  ["<<EOF\necho one\n# kept\n\necho $A \\\n  two\nEOF", "echo one\n# kept\n\necho $A \\\n  two"],
  ["<<-'E'\n\techo one\n\tE", "echo one"],
  // Input of commands.
  ["cat <<A > /x \\\n  && cat <<B\na\nA\nb\nB", "cat <<A > /x   && cat <<B\na\nA\nb\nB\n"],
  ["<<EOF python3\nprint(1)\nEOF", "<<EOF python3\nprint(1)\nEOF\n"],
  // None at all.
  ['echo $((1<<3)) "<<"', 'echo $((1<<3)) "<<"'],
  ['--network=default ["make", "a b"]', "exec make 'a b'"],
] as const)("RUN %j runs %j", ([given, command]) => {
  const { steps } = readDockerfile(`FROM a\nRUN ${given}\nUSER x`, "Dockerfile");
  expect(steps.map(({ args }) => args)).toEqual([[command], ["x"]]);
});

test.for([
  ["type=cache,target=/x", 'mkdir -p -- "/x"'],
  ["type=cache,target=/x=y", 'mkdir -p -- "/x=y"'],
  ["dst=in/$A,type=tmpfs", 'mkdir -p -- "in/$A"'],
  [
    "type=cache,destination=/x,uid=1000,gid=7,mode=0700,sharing=locked",
    'mkdir -p -- "/x" && chown -- 1000:7 "/x" && chmod -- 0700 "/x"',
  ],
] as const)("of a mount %s its directory is there", ([mount, command]) => {
  const text = `FROM a\nRUN --mount=${mount} --network=default --mount=type=cache,target=/y <<E\nmake\nE`;
  const { steps } = readDockerfile(text, "Dockerfile");
  const runs = steps.filter(({ type }) => type === "RUN").map(({ args }) => args);
  expect(runs).toEqual([[`${command} && mkdir -p -- "/y"`, "root"], ["make"]]);
});

test.for([
  ['["/bin/sh", "-c"]', "it's two"],
  ['["/bin/bash", "-c"]', String.raw`/bin/bash -c 'it'\''s two'`],
  ['["/bin/ash", "-eo", "pipefail", "-c"]', String.raw`/bin/ash -eo pipefail -c 'it'\''s two'`],
  ['["python3", "-c"]', String.raw`python3 -c 'it'\''s two'`],
] as const)("SHELL %s runs what follows and is a text by %j", ([shell, command]) => {
  const { steps } = readDockerfile(
    `FROM a\nRUN one\nSHELL ${shell}\nRUN it's two\nRUN ["three"]`,
    "Dockerfile",
  );
  const commands = steps.filter(({ type }) => type === "RUN").flatMap(({ args }) => args);
  expect(commands).toEqual(["one", command, "exec three"]);
});

test("a script of a here-document is a text for the shell", () => {
  const text = 'FROM a\nSHELL ["/bin/zsh", "-c"]\nRUN <<E\none\ntwo\nE';
  expect(readDockerfile(text, "Dockerfile").steps.map(({ args }) => args)).toEqual([
    ["/bin/zsh -c 'one\ntwo'"],
  ]);
});

test("what describes an image is passed over, as is a platform that is this machine's", () => {
  const platform = process.arch === "x64" ? "amd64" : process.arch;
  const text = `FROM --platform=linux/${platform} a\nHEALTHCHECK CMD true\nSTOPSIGNAL 9`;
  const { base, steps } = readDockerfile(text, "Dockerfile");
  expect(base).toBe("a");
  expect(steps).toEqual([]);
});

test("variables of the file are expanded where the service expands none", () => {
  const text = [
    "ARG VERSION=3.12",
    "ARG IMAGE=python:${VERSION}",
    "FROM ${IMAGE}-slim AS only",
    "ARG VERSION",
    "ENV APP=/srv/app WHO=node",
    "ENV DATA=${APP}/data",
    "WORKDIR $APP",
    "COPY --chown=$WHO:${WHO} app-${VERSION}.py ${DATA}/",
    "USER ${WHO:-nobody}",
  ].join("\n");
  const { base, steps } = readDockerfile(text, "Dockerfile");
  expect(base).toBe("python:3.12-slim");
  expect(steps.map(({ type, args }) => [type, ...args])).toEqual([
    ["ARG", "VERSION", "3.12"],
    ["ENV", "APP", "/srv/app", "WHO", "node"],
    ["ENV", "DATA", "${APP}/data"],
    ["WORKDIR", "/srv/app"],
    ["COPY", "app-3.12.py", "/srv/app/data/", "node:node", ""],
    ["USER", "node"],
  ]);
});

test("an ARG for the platform has that of this machine", () => {
  const own = process.arch === "x64" ? "amd64" : process.arch;
  const text =
    "FROM --platform=$BUILDPLATFORM a\nARG TARGETARCH TARGETPLATFORM TARGETVARIANT\nWORKDIR /$TARGETARCH";
  const { base, steps } = readDockerfile(text, "Dockerfile");
  expect(base).toBe("a");
  expect(steps.map(({ args }) => args)).toEqual([
    ["TARGETARCH", own, "TARGETPLATFORM", `linux/${own}`],
    [`/${own}`],
  ]);
});

test("ENV stands above ARG, and a later ARG above an earlier one", () => {
  const text = "FROM a\nARG A=1 B=1\nENV A=2\nARG A B=3\nARG A=4\nWORKDIR /$A/$B";
  const { steps } = readDockerfile(text, "Dockerfile");
  expect(steps.map(({ args }) => args)).toEqual([
    ["A", "1", "B", "1"],
    ["A", "2"],
    ["B", "3"],
    ["/2/3"],
  ]);
});

test("what is quoted in a Dockerfile is what the service makes of the step", () => {
  const values = ["$HOME", "it's $X", String.raw`a\b`, '"', "$(id)", "${A:-b}", "plain"];
  for (const value of values) {
    const quoted = `'${value.replaceAll("'", `'"'"'`)}'`;
    const { steps } = readDockerfile(`FROM a\nENV A=${quoted}`, "Dockerfile");
    const [, given = ""] = steps.find(({ type }) => type === "ENV")?.args ?? [];
    expect(expandVariables(given, { HOME: "/root", X: "y", A: "z" })).toBe(value);
  }
});

test("an empty line between lines that are continued does not end a command", () => {
  const { steps } = readDockerfile("FROM a\nRUN one \\\n  two \\\n\n  three", "Dockerfile");
  expect(steps).toEqual([{ type: "RUN", args: ["one   two   three"], line: 2 }]);
});

test.for([
  ["ENTRYPOINT run me\nCMD arg", "run me"],
  ['ENTRYPOINT ["run"]\nCMD echo $X', "run /bin/sh -c 'echo $X'"],
  ['ENTRYPOINT ["run"]\nCMD ["a b"]', "run 'a b'"],
  ['ENTRYPOINT []\nCMD ["x"]', "x"],
  ["CMD []", undefined],
  ['SHELL ["bash", "-eo", "pipefail", "-c"]\nCMD a | b', "bash -eo pipefail -c 'a | b'"],
  ['SHELL ["/bin/sh", "-c"]\nCMD a | b', "/bin/sh -c 'a | b'"],
  ['SHELL ["bash", "-ec"]\nENTRYPOINT ["run"]\nCMD a', "run bash -ec a"],
  ['CMD a\nSHELL ["bash", "-ec"]\nENTRYPOINT b', "bash -ec b"],
] as const)("%j starts as docker starts it", ([lines, startCommand]) => {
  expect(readDockerfile(`FROM a\n${lines}`, "Dockerfile").startCommand).toBe(startCommand);
});

test("several sources go into a folder: none replaces the one before it", () => {
  const { steps } = readDockerfile("FROM a\nCOPY x y /to\nCOPY x /to", "Dockerfile");
  expect(steps.map(({ args }) => args.slice(0, 2))).toEqual([
    ["x", "/to/"],
    ["y", "/to/"],
    ["x", "/to"],
  ]);
});

test("an ignore file: parts, depth, exceptions, the last one counts", () => {
  const rules = readIgnoreFile(
    "# no\n*.log\n**/*.tmp\nbuild/\n/secret\n!build/keep\n!a.log\ndocs/*.m[de]\n",
  );
  const paths = ["x.log", "in/x.log", "in/x.tmp", "build/a", "build/keep", "secret", "a.log"];
  expect(paths.filter((path) => rules.isIgnored(path))).toEqual([
    "x.log",
    "in/x.tmp",
    "build/a",
    "secret",
  ]);
  expect(
    ["docs/a.md", "docs/a.mx", "docs/in/a.md"].filter((path) => rules.isIgnored(path)),
  ).toEqual(["docs/a.md"]);
});

test("an ignored folder is looked into only where an exception can be below it", () => {
  const rules = readIgnoreFile("*\n!src/app/*.py\n!docs\ndocs/tmp\n");
  const folders = ["src", "src/app", "src/web", "docs/tmp", "node_modules", "doc"];
  expect(folders.filter((path) => rules.hasExceptionBelow(path))).toEqual(["src", "src/app"]);
});

test.for([
  ["a/../b", ["b", "b/c"], ["a"]],
  ["a/./b/.", ["a/b"], ["a"]],
  ["/../x", ["x"], []],
  ["../x", [], ["x"]],
  ["./x/", ["x", "x/y"], []],
  ["\uFEFF/x  ", ["x"], []],
  ["x/**/", ["x/y", "x/y/z"], ["x"]],
  ["#x\n #y", ["#y"], ["#x"]],
  ["*\n!  ./a/../b/", ["c"], ["b", "b/c"]],
  [".\n/", [], ["x"]],
] as const)("an ignore file %j has its paths cleaned", ([text, ignored, kept]) => {
  const rules = readIgnoreFile(text);
  expect([...ignored, ...kept].filter((path) => rules.isIgnored(path))).toEqual(ignored);
});

test("an exception without a path is no pattern", () => {
  expect(() => readIgnoreFile("x\n!\n")).toThrow("not a pattern of paths: !");
});

test("a list of COPY keeps its blanks", () => {
  const { steps } = readDockerfile('FROM a\nCOPY --chmod=755 ["a  b", "/x\\ty"]', "Dockerfile");
  expect(steps[0]?.args).toEqual(["a  b", "/x\ty", "", "755"]);
});

test.for([
  [String.raw`echo a\\`, String.raw`echo a\\`],
  ["a \\\\\\  ", "a \\\\\\"],
  ["a \\\n\\\n  b", "a   b"],
])("RUN %j ends where docker ends it", ([given, command]) => {
  const { steps } = readDockerfile(`FROM a\nRUN ${given}\nRUN b\nWORKDIR /c \\\n`, "Dockerfile");
  expect(steps.slice(0, 3).map(({ args }) => args)).toEqual([[command], ["b"], ["/c"]]);
});

test("the image of FROM may be quoted", () => {
  expect(readDockerfile('ARG V=1\nFROM "a:$V" AS b', "Dockerfile").base).toBe("a:1");
});
