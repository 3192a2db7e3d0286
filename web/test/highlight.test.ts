import assert from "node:assert/strict";
import { test } from "node:test";
import { StringStream } from "@codemirror/language";
import type { Language } from "../src/api.ts";
import { readToken, start, vocabularyOf } from "../src/highlight.ts";

const WORDS = vocabularyOf({
  always: ["SELECT", "WHERE", "AS", "FILTER", "WITHIN", "PREFIX"],
  soft: ["LAST", "MINUTES"],
});

/** Return the tokens of a text with their kinds, without blanks. */
function tokens(language: Language, text: string): [string, string | null][] {
  const inside = start();
  const found: [string, string | null][] = [];
  for (const line of text.split("\n")) {
    const stream = new StringStream(line, 4, 2);
    while (!stream.eol()) {
      stream.start = stream.pos;
      const kind = readToken(language, WORDS, stream, inside);
      assert.ok(stream.pos > stream.start, "a tokenizer goes on");
      if (kind !== null) found.push([stream.current(), kind]);
    }
  }
  return found;
}

test("CEQL has keywords in any case, types, variables and attributes", () => {
  assert.deepEqual(tokens("ceql", "select s WHERE SELL AS s FILTER s[price > 1.5]"), [
    ["select", "keyword"],
    ["s", "variableName"],
    ["WHERE", "keyword"],
    ["SELL", "typeName"],
    ["AS", "keyword"],
    ["s", "variableName"],
    ["FILTER", "keyword"],
    ["s", "variableName"],
    ["[", "bracket"],
    ["price", "propertyName"],
    [">", "operator"],
    ["1.5", "number"],
    ["]", "bracket"],
  ]);
});

test("a soft keyword in small letters is a name", () => {
  assert.deepEqual(tokens("ceql", "last LAST"), [
    ["last", "variableName"],
    ["LAST", "keyword"],
  ]);
});

test("comments may span lines, and strings double their quotes", () => {
  assert.deepEqual(tokens("ceql", "/* a\nb */ 'it''s' -- end"), [
    ["/* a", "comment"],
    ["b */", "comment"],
    ["'it''s'", "string"],
    ["-- end", "comment"],
  ]);
});

test("a text that does not end goes on to the end of the line", () => {
  assert.deepEqual(tokens("ceql", "'open\nWHERE"), [
    ["'open", "string"],
    ["WHERE", "keyword"],
  ]);
});

test("conjunctive queries have relations and variables", () => {
  const kinds = tokens("cq", "Q(x) <- T(x, y) WITHIN 5 MINUTES").map(([, kind]) => kind);
  assert.deepEqual(kinds.filter((kind) => kind === "typeName").length, 2);
  assert.deepEqual(kinds.slice(-3), ["keyword", "number", "keyword"]);
});

test("SPAseQ has variables, IRIs and prefixed names", () => {
  assert.deepEqual(tokens("spaseq", "PREFIX ex: <http://e/> ?x a ex:T . # c"), [
    ["PREFIX", "keyword"],
    ["ex:", "propertyName"],
    ["<http://e/>", "string"],
    ["?x", "variableName"],
    ["a", "keyword"],
    ["ex:T", "propertyName"],
    [".", "operator"],
    ["# c", "comment"],
  ]);
});

test("SQL has comments of two dashes, and brackets around patterns", () => {
  assert.deepEqual(tokens("sql", "SELECT 7 // 2 -- rest"), [
    ["SELECT", "keyword"],
    ["7", "number"],
    ["/", "operator"],
    ["/", "operator"],
    ["2", "number"],
    ["-- rest", "comment"],
  ]);
});
