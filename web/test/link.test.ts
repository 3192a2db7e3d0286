import assert from "node:assert/strict";
import { test } from "node:test";
import { readLink, writeLink } from "../src/link.ts";

test("a link holds query, language and sample", () => {
  const shared = { query: "SELECT * FROM S WHERE A ; B -- ü & # + %\n", language: "ceql", sample: "stocks" } as const;
  const link = writeLink(shared);
  assert.match(link, /^#sample=stocks&language=ceql&query=SELECT/);
  assert.deepEqual(readLink(link), shared);
});

test("a link without a sample holds the query alone", () => {
  assert.deepEqual(readLink(writeLink({ query: "x", language: null, sample: null })), {
    query: "x",
    language: null,
    sample: null,
  });
});

test("another fragment is no link, and an unknown language is left out", () => {
  assert.equal(readLink("#query-title"), null);
  assert.equal(readLink(""), null);
  assert.equal(readLink("#query=" + "x".repeat(100_001)), null);
  assert.equal(readLink("#query=x&language=cobol")?.language, null);
});
