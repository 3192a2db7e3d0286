import assert from "node:assert/strict";
import { test } from "node:test";
import { groupDigits, logOfText, plural, shortBytes, shortCount, shortDifference, shortSeconds, showValue } from "../src/numbers.ts";

test("thousands are separated by commas", () => {
  assert.equal(groupDigits("0"), "0");
  assert.equal(groupDigits("999"), "999");
  assert.equal(groupDigits("1000"), "1,000");
  assert.equal(groupDigits("-1234567"), "-1,234,567");
  assert.equal(groupDigits(1234.5), "1,234.5");
  assert.equal(groupDigits("a name"), "a name");
});

test("a large count is a few digits and a power of ten", () => {
  assert.equal(shortCount("1234567"), "1,234,567");
  assert.equal(shortCount("12345678"), "1.23 × 10⁷");
  assert.equal(shortCount("1" + "0".repeat(120)), "1.00 × 10¹²⁰");
});

test("a difference has its sign", () => {
  assert.equal(shortDifference("39"), "+39");
  assert.equal(shortDifference("-39"), "−39");
  assert.equal(shortDifference("-12345678"), "−1.23 × 10⁷");
});

test("the logarithm of a decimal text needs no number that holds it", () => {
  assert.equal(logOfText("0"), 0);
  assert.equal(logOfText("1"), 0);
  assert.equal(logOfText("1000"), 3);
  assert.equal(logOfText("1" + "0".repeat(500)), 500);
  assert.ok(Math.abs(logOfText("5" + "0".repeat(500)) - 500.699) < 0.001);
});

test("one thing is singular, none and several are plural", () => {
  assert.equal(plural("1", "match", "matches"), "1 match");
  assert.equal(plural(0, "event"), "0 events");
  assert.equal(plural("1200", "match", "matches"), "1,200 matches");
});

test("durations and sizes have the unit that fits", () => {
  assert.equal(shortSeconds(0.0000004), "1 µs");
  assert.equal(shortSeconds(0.0421), "42 ms");
  assert.equal(shortSeconds(2.34), "2.3 s");
  assert.equal(shortBytes(999), "999 bytes");
  assert.equal(shortBytes(1_500_000), "1.5 MB");
});

test("values of the data are shown as text", () => {
  assert.equal(showValue(null), "null");
  assert.equal(showValue({ a: [1] }), '{"a":[1]}');
  assert.equal(showValue("<b>"), "<b>");
});
