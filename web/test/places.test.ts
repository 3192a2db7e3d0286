import assert from "node:assert/strict";
import { test } from "node:test";
import { drawCarets, offsetOf, placeOf, rangeOf } from "../src/places.ts";

const TEXT = "SELECT *\nFROM Stok\n\tWHERE A";
const place = (line: number, column: number, end_line: number, end_column: number) => ({
  line,
  column,
  end_line,
  end_column,
});

test("a line and a column are an offset, and back", () => {
  for (let offset = 0; offset <= TEXT.length; offset++) {
    const { line, column } = placeOf(TEXT, offset);
    assert.equal(offsetOf(TEXT, line, column), offset);
  }
});

test("a place behind the end is the end", () => {
  assert.equal(offsetOf(TEXT, 1, 99), 8);
  assert.equal(offsetOf(TEXT, 9, 1), TEXT.length);
});

test("a problem's range is its text", () => {
  const { from, to } = rangeOf(TEXT, place(2, 6, 2, 10));
  assert.equal(TEXT.slice(from, to), "Stok");
});

test("carets stand under the part that the problem is about", () => {
  assert.deepEqual(drawCarets(TEXT, place(2, 6, 2, 10)), { line: "FROM Stok", carets: "     ^^^^" });
  assert.deepEqual(drawCarets(TEXT, place(3, 2, 3, 7)), { line: "\tWHERE A", carets: "\t^^^^^" });
});

test("a problem at the end of the text, and one over several lines, have carets", () => {
  assert.equal(drawCarets(TEXT, place(3, 9, 3, 9)).carets, "\t       ^");
  assert.equal(drawCarets(TEXT, place(2, 6, 3, 4)).carets, "     ^^^^");
  assert.equal(drawCarets("", place(1, 1, 1, 1)).carets, "^");
});

test("a character of two units has one caret", () => {
  assert.equal(drawCarets("a = '🙂' x", place(1, 5, 1, 9)).carets, "    ^^^");
});
