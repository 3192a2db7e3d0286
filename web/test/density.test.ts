import assert from "node:assert/strict";
import { test } from "node:test";
import { barHeights } from "../src/density.ts";

test("a bar with any event is seen, and one without is not", () => {
  assert.deepEqual(barHeights([0, 1, 1_000_000]), [0, 0.08, 1]);
  assert.deepEqual(barHeights([]), []);
});
