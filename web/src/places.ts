// Lines and columns of the server, which count UTF-16 units from 1, and offsets of the editor, which
// counts them from 0.

import type { Place } from "./api.ts";

export interface Range {
  from: number;
  to: number;
}

/** Return the offset in a text of a line and a column; a place behind the end of a line is its end. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let i = 1; i < line; i++) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  return Math.min(start + column - 1, end < 0 ? text.length : end);
}

/** Return the line and the column of an offset, both from 1. */
export function placeOf(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset);
  return { line: before.split("\n").length, column: offset - before.lastIndexOf("\n") };
}

export function rangeOf(text: string, place: Place): Range {
  const from = offsetOf(text, place.line, place.column);
  return { from, to: Math.max(from, offsetOf(text, place.end_line, place.end_column)) };
}

/** Return a problem's line and, below it, carets under the part that the problem is about. */
export function drawCarets(text: string, place: Place): { line: string; carets: string } {
  const line = text.split("\n")[place.line - 1] ?? "";
  const end = place.end_line > place.line ? line.length : place.end_column - 1;
  const width = (part: string): number => [...part].length; // a pair of units is one character
  const indent = line.slice(0, place.column - 1).padEnd(place.column - 1);
  const blank = [...indent].map((character) => (character === "\t" ? "\t" : " ")).join("");
  return { line, carets: blank + "^".repeat(Math.max(1, width(line.slice(place.column - 1, end)))) };
}
