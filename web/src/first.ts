// The first query for data that comes without examples: it runs, and shows how a pattern is written.

import type { Data, Language, Stream } from "./api.ts";

const NAME = /^[\p{L}_][\p{L}\p{N}_]*$/u;

/** Write a name of a stream or a type: between backquotes where it is no plain name, or a keyword. */
export function quoteName(name: string, keywords: readonly string[]): string {
  const plain = NAME.test(name) && !keywords.includes(name.toUpperCase());
  return plain ? name : `\`${name.replaceAll("`", "``")}\``;
}

function writeSequence(stream: Stream, keywords: readonly string[]): string {
  const [first, second] = [stream.types[0]?.name, stream.types[1]?.name];
  if (first === undefined) return "* AS a ; * AS b";
  return `${quoteName(first, keywords)} AS a ; ${quoteName(second ?? first, keywords)} AS b`;
}

function writeGraphQuery(stream: Stream): string | null {
  if (!NAME.test(stream.name)) return null;
  const graph = `DEFINE GPM A ON ${stream.name} { ?subject ?predicate ?object }`;
  return `SELECT *\nWITHIN 10 MINUTES\nFROM STREAM ${stream.name} <urn:${stream.name}>\nWHERE {\n  SEQ (A)\n  ${graph}\n}`;
}

/** Return a query over some data; null where there is nothing to ask of. */
export function writeFirstQuery(data: Data, keywords: readonly string[]): { text: string; language: Language } | null {
  const stream = data.streams[0];
  if (stream === undefined) return null;
  if (data.language === "spaseq") {
    const text = writeGraphQuery(stream);
    return text === null ? null : { text, language: "spaseq" };
  }
  const window = stream.time?.unit === "ms" ? "WITHIN 5 MINUTES" : "WITHIN 100 EVENTS";
  const text = `SELECT *\nFROM ${quoteName(stream.name, keywords)}\nWHERE ${writeSequence(stream, keywords)}\n${window}`;
  return { text, language: "ceql" };
}
