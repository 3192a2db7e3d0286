import assert from "node:assert/strict";
import { test } from "node:test";
import { decimalStep, showSpan, showTime, tickLabel, tickStep, ticksBetween } from "../src/times.ts";

const NOON = Date.UTC(2026, 10, 16, 12);

test("ticks of numbers are 1, 2 or 5 times a power of ten", () => {
  assert.equal(decimalStep(0.3), 0.5);
  assert.equal(decimalStep(1), 1);
  assert.equal(decimalStep(11), 20);
  assert.equal(decimalStep(Infinity), 1);
  assert.equal(tickStep(1000, 10, "number"), 100);
  assert.equal(tickStep(2, 10, "row"), 1);
});

test("ticks of times are steps of a clock", () => {
  assert.equal(tickStep(3_600_000, 10, "ms"), 600_000);
  assert.equal(tickStep(86_400_000 * 2, 10, "ms"), 6 * 3_600_000);
  assert.equal(tickStep(5, 10, "ms"), 0.5);
});

test("ticks are the multiples of the step inside the view", () => {
  assert.deepEqual(ticksBetween(-3, 21, 10), [0, 10, 20]);
  assert.deepEqual(ticksBetween(1, 9, 10), []);
  assert.deepEqual(ticksBetween(0, 21, 10), [0, 10, 20]);
  assert.equal(ticksBetween(0, 1e9, 1).length, 1000);
});

test("a tick's label is as fine as the step", () => {
  assert.equal(tickLabel(NOON, 3_600_000, "ms"), "12:00");
  assert.equal(tickLabel(NOON + 1000, 1000, "ms"), "12:00:01");
  assert.equal(tickLabel(NOON + 250, 250, "ms"), "12:00:00.25");
  assert.equal(tickLabel(NOON + 1000, 250, "ms"), "12:00:01");
  assert.equal(tickLabel(NOON + 10_000, 500, "ms"), "12:00:10");
  assert.equal(tickLabel(10, 10, "row"), "10");
  assert.equal(tickLabel(NOON - 12 * 3_600_000, 3_600_000, "ms"), "2026-11-16");
  assert.equal(tickLabel(1500, 500, "number"), "1,500");
  assert.equal(tickLabel(0.5, 0.5, "number"), "0.5");
});

test("a time in full leaves out milliseconds that are zero", () => {
  assert.equal(showTime(NOON, "ms"), "2026-11-16 12:00:00");
  assert.equal(showTime(NOON + 7000, "ms"), "2026-11-16 12:00:07");
  assert.equal(showTime(NOON + 7, "ms"), "2026-11-16 12:00:00.007");
  assert.equal(showTime(1e300, "ms"), "1e+300");
  assert.equal(showTime(0, "row"), "row 0");
  assert.equal(showTime(null, "ms"), "");
});

test("a span has the unit that fits", () => {
  assert.equal(showSpan(7_200_000, "ms"), "2 hours");
  assert.equal(showSpan(1500, "ms"), "1500 ms");
  assert.equal(showSpan(12, "row"), "13 events");
  assert.equal(showSpan(1449, "number"), "a span of 1,449");
});
