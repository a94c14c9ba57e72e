/** A client reads no more of a reply than it asked for, however it is cut into pieces. */

import { expect, test } from "vitest";
import { readBounded } from "../../../src/common/http.ts";

const MAX_BYTES = 10;

/** A body that notes how many of its pieces were read, and whether its reader has let go of it. */
function bodyOf(sizes: readonly number[]) {
  const seen = { pieces: 0, isClosed: false };
  async function* pieces(): AsyncGenerator<Uint8Array> {
    try {
      for (const size of sizes) {
        seen.pieces += 1;
        yield Buffer.alloc(size, "a");
      }
    } finally {
      seen.isClosed = true;
    }
  }
  return { seen, body: pieces() };
}

test.for([[[]], [[10]], [[4, 0, 6]], [Array<number>(10).fill(1)]] as const)(
  "pieces of %j bytes are read whole",
  async ([sizes]) => {
    const bytes = sizes.reduce<number>((sum, size) => sum + size, 0);
    const whole = await readBounded(bodyOf(sizes).body, MAX_BYTES, "test");
    expect(whole.toString()).toBe("a".repeat(bytes));
  },
);

test.for([
  { sizes: [11, 1, 1], pieces: 1 },
  { sizes: [4, 6, 1, 1], pieces: 3 },
])("pieces of $sizes bytes are refused after $pieces of them", async ({ sizes, pieces }) => {
  const { seen, body } = bodyOf(sizes);
  await expect(readBounded(body, MAX_BYTES, "test")).rejects.toMatchObject({
    code: "resource_exhausted",
    message: "test: reply exceeds 10 bytes",
  });
  expect(seen).toEqual({ pieces, isClosed: true });
});
