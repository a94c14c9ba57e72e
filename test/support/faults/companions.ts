/** Programs beside the ledger in a sandbox, each of which ends when something of its own is not as it was. */

import type { Sandbox } from "e2b";

/** A shell that waits, a pair of connections inside and a program on a terminal. */
const PROGRAMS = `mkfifo /tmp/pipe
setsid python3 -c '
import socket, time
server = socket.create_server(("127.0.0.1", 8124))
near = socket.create_connection(("127.0.0.1", 8124))
far, _ = server.accept()
count = 0
while True:
    near.sendall(b"%08d" % count)
    assert far.recv(8, socket.MSG_WAITALL) == b"%08d" % count
    count += 1
    time.sleep(0.01)
' >/dev/null 2>&1 </dev/null &
echo $! >>/tmp/pids
setsid sh -c 'while :; do read line </tmp/pipe && echo "$line" >>/tmp/lines; done' >/dev/null 2>&1 &
echo $! >>/tmp/pids
setsid script -qc 'sleep 1000000' /dev/null >/dev/null 2>&1 </dev/null &
echo $! >>/tmp/pids
pgrep -f 'ledger[.]py' >>/tmp/pids`;
const COUNT = 4;

/** Starts them where the ledger runs; what `processesOf` says from then on. */
export async function startCompanions(sandbox: Sandbox): Promise<string> {
  await sandbox.commands.run(PROGRAMS);
  const processes = await processesOf(sandbox);
  if (new RegExp(`^(?:[0-9]+ [a-z0-9]+\\n){${COUNT}}$`).test(processes)) return processes;
  throw new Error(`not all companions run: ${processes}`);
}

/** Number and name of each that still runs, the ledger included. */
export async function processesOf(sandbox: Sandbox): Promise<string> {
  const list = 'while read pid; do echo "$pid $(cat /proc/$pid/comm)"; done </tmp/pids';
  return (await sandbox.commands.run(list)).stdout;
}
