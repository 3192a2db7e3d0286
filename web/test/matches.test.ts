import assert from "node:assert/strict";
import { test } from "node:test";
import { pagesAround, readNumber } from "../src/matches.ts";

test("pages go to both ends of a set that no number holds", () => {
  const total = 10n ** 30n;
  assert.deepEqual(pagesAround(0n, total, 20n), { before: null, after: 20n, last: total - 20n });
  assert.deepEqual(pagesAround(total - 20n, total, 20n).after, null);
  assert.deepEqual(pagesAround(7n, total, 20n).before, 0n);
});

test("an empty set has one empty page", () => {
  assert.deepEqual(pagesAround(0n, 0n, 20n), { before: null, after: null, last: 0n });
});

test("a number to go to has commas or none, and lies between two others", () => {
  assert.equal(readNumber("1", 1n, 5n), 1n);
  assert.equal(readNumber("1,000", 1n, 5000n), 1000n);
  assert.equal(readNumber("6", 1n, 5n), null);
  assert.equal(readNumber("0", 1n, 5n), null);
  assert.equal(readNumber("0", 0n, 5n), 0n);
  assert.equal(readNumber("many", 1n, 5n), null);
});
