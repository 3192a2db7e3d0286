// What a link holds: query, language and sample, as readable text behind the '#', which no server sees.

import type { Language } from "./api.ts";

export interface Shared {
  query: string;
  language: Language | null;
  sample: string | null;
}

const LANGUAGES: readonly string[] = ["ceql", "cq", "spaseq", "sql"];
const LONGEST = 100_000;

export function writeLink(shared: Shared): string {
  const fields = new URLSearchParams();
  if (shared.sample !== null) fields.set("sample", shared.sample);
  if (shared.language !== null) fields.set("language", shared.language);
  fields.set("query", shared.query);
  return `#${fields.toString()}`;
}

/** Return what a link's fragment holds; null if it holds no query of this page. */
export function readLink(fragment: string): Shared | null {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const query = fields.get("query");
  if (query === null || query.length > LONGEST) return null;
  const language = fields.get("language");
  return {
    query,
    language: language !== null && LANGUAGES.includes(language) ? (language as Language) : null,
    sample: fields.get("sample"),
  };
}
