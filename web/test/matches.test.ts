import assert from "node:assert/strict";
import { test } from "node:test";
import { pagesAround, readPosition } from "../src/matches.ts";

test("pages go to both ends of a set that no number holds", () => {
  const total = 10n ** 30n;
  assert.deepEqual(pagesAround(0n, total, 20n), { before: null, after: 20n, last: total - 20n });
  assert.deepEqual(pagesAround(total - 20n, total, 20n).after, null);
  assert.deepEqual(pagesAround(7n, total, 20n).before, 0n);
});

test("an empty set has one empty page", () => {
  assert.deepEqual(pagesAround(0n, 0n, 20n), { before: null, after: null, last: 0n });
});

test("a position counts from one, with or without commas", () => {
  assert.equal(readPosition("1", 5n), 0n);
  assert.equal(readPosition("1,000", 5000n), 999n);
  assert.equal(readPosition("6", 5n), null);
  assert.equal(readPosition("0", 5n), null);
  assert.equal(readPosition("many", 5n), null);
});
