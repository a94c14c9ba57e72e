/** The disk of a home that is not where it was when the service began. */

import { expect, test } from "vitest";
import { requireDiskSpace } from "../../../src/sandboxes/disk-space.ts";

test("a home that is gone is named, with what to do about it", async () => {
  await expect(requireDiskSpace("/nonexistent/home/layers")).rejects.toMatchObject({
    code: "unavailable",
    message: "the home of the service was removed or renamed",
    hint: "put it back as it was, or restart the service",
  });
});
