/** A command that sleeps and that no other run of the tests on this machine gives: it may be found by its words. */
export function ownSleep(seconds: number): string {
  return `sleep ${seconds}.${process.pid}`;
}
