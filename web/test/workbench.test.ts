import assert from "node:assert/strict";
import { test } from "node:test";

import { barLength, largest } from "../src/funnel.ts";
import { readLines, writeLine } from "../src/label.ts";

test("bars are as long as their counts, also beyond 2^53", () => {
  assert.equal(largest(["3", null, "12"]), "12");
  assert.equal(largest([]), "0");
  assert.equal(barLength("0", "12"), 0);
  assert.equal(barLength(null, "12"), 0);
  assert.equal(Math.round(barLength("6", "12")), 60);
  assert.equal(barLength("1", "9".repeat(40)), 2);
  assert.ok(Math.abs(barLength("5" + "0".repeat(40), "1" + "0".repeat(41)) - 60) < 0.01);
});

test("a label is a line as the command line writes it", () => {
  const match = { id: "a1", start: 3, end: 9, vars: { s: [3, 9] }, stratum: "" };
  assert.equal(writeLine(match, "u"), '{"id":"a1","label":"unsure","start":3,"end":9,"vars":{"s":[3,9]},"stratum":""}');
  assert.equal(JSON.parse(writeLine(match, "y")).label, "y");
  assert.deepEqual(readLines("{}\n\n{}\n"), ["{}", "{}"]);
});
