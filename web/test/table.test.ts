import assert from "node:assert/strict";
import { test } from "node:test";
import { cellText } from "../src/table.ts";

test("a time in a cell has no T and no zeros at its end", () => {
  assert.equal(cellText("2024-01-02T09:00:00.017000"), "2024-01-02 09:00:00.017");
  assert.equal(cellText("2024-01-02T09:00:00"), "2024-01-02 09:00:00");
  assert.equal(cellText("2024-01-02T09:00:10.000000"), "2024-01-02 09:00:10");
});

test("markup is text, and a long text is cut", () => {
  assert.equal(cellText("<b>&amp;"), "<b>&amp;");
  assert.equal(cellText("x".repeat(500)).length, 200);
});
