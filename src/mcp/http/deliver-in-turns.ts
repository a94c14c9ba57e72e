/** Hands the messages of a batch to the library one by one: it would begin all of them in one turn. */

import type { StartLimiter } from "../../common/start-limiter.ts";
import { noteDelivered, notePassedOn } from "./open-requests.ts";
import type { Session } from "./sessions.ts";

type Deliver<Given extends readonly unknown[]> = (...given: Given) => void;

/** The same delivery, in turns for a batch; what comes behind a message that waits stays behind it. */
export function deliverInTurns<Given extends readonly unknown[]>(
  session: Session,
  begin: StartLimiter,
  deliver: Deliver<Given>,
): Deliver<Given> {
  let waiting = 0;
  const wait = async (turn: Promise<void>, give: () => void): Promise<void> => {
    waiting += 1;
    await turn;
    waiting -= 1;
    give();
  };
  return (...given) => {
    const [message] = given;
    const give = (): void => {
      deliver(...given);
      noteDelivered(session, message);
    };
    // A message that came alone had its turn before.
    const isOfBatch = notePassedOn(session, message);
    const turn = isOfBatch || waiting > 0 ? begin() : undefined;
    // The library reports its faults itself.
    if (turn === undefined) give();
    else void wait(turn, give);
  };
}
