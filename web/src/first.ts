// The first query for data that comes without examples: it runs, and shows how a pattern is written.

import type { Data, Language, Stream } from "./api.ts";
import words from "./words.json";

const NAME = /^[\p{L}_][\p{L}\p{N}_]*$/u;

/** Write a name of a stream or a type: between backquotes where it is no plain name. */
export function quoteName(name: string): string {
  const plain = NAME.test(name) && !words.ceql.always.split(" ").includes(name.toUpperCase());
  return plain ? name : `\`${name.replaceAll("`", "``")}\``;
}

function writeSequence(stream: Stream): string {
  const [first, second] = [stream.types[0]?.name, stream.types[1]?.name];
  if (first === undefined) return "* AS a ; * AS b";
  return `${quoteName(first)} AS a ; ${quoteName(second ?? first)} AS b`;
}

/** Return a query over some data; null where there is nothing to ask of. */
export function writeFirstQuery(data: Data): { text: string; language: Language } | null {
  const stream = data.streams[0];
  if (stream === undefined || data.language === "spaseq") return null;
  const window = stream.time?.unit === "ms" ? "WITHIN 5 MINUTES" : "WITHIN 100 EVENTS";
  return {
    text: `SELECT *\nFROM ${quoteName(stream.name)}\nWHERE ${writeSequence(stream)}\n${window}\n`,
    language: "ceql",
  };
}
