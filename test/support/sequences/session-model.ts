/** Sessions and sandboxes that the hosts of a test share, each of which any of them may end. */

import { Register, type Moments } from "./register.ts";

/** What may go while others use it. */
class Ending {
  /** Calls that may end it still. */
  ends = 0;
  /** When it was surely gone. */
  goneAt = Number.POSITIVE_INFINITY;

  mayBeGone(): boolean {
    return this.ends > 0 || this.goneAt < Number.POSITIVE_INFINITY;
  }
}

export class SessionModel extends Ending {
  readonly id: string;
  readonly revision: string;

  constructor(id: string, revision: string) {
    super();
    this.id = id;
    this.revision = revision;
  }
}

/** The file that all hosts write and read. */
export const SHARED = "/home/user/shared";

export class SandboxModel extends Ending {
  readonly id: string;
  readonly shared: Register<string | undefined>;
  /** What its log must have. */
  readonly logged: string[] = [];

  constructor(id: string, moments: Moments) {
    super();
    this.id = id;
    const first: string | undefined = undefined;
    this.shared = new Register<string | undefined>(moments, first);
  }
}
