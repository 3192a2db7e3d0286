// The headline of an answer: the exact count, what it took, notes and downloads; or why there is none.

import { api, type ResultKind, type Run } from "./api.ts";
import { byId, h, replace } from "./dom.ts";
import { groupDigits, plural, shortCount, shortSeconds } from "./numbers.ts";
import { codeLink } from "./problems.ts";

const LONGEST_COUNT = 15;
const LONGEST_EXACT = 60;
const NOUNS: Record<ResultKind, [string, string]> = {
  matches: ["match", "matches"],
  counts: ["match", "matches"],
  graphs: ["match", "matches"],
  answers: ["answer", "answers"],
  groups: ["group", "groups"],
  rows: ["row", "rows"],
};

const count = byId("count", HTMLOutputElement);
const noun = byId("count-noun", HTMLSpanElement);
const facts = byId("facts", HTMLSpanElement);
const notes = byId("notes", HTMLUListElement);
const downloads = byId("downloads", HTMLDivElement);

/** Show a count in full, however long it is. */
function showExactly(text: string): HTMLElement {
  const digits = groupDigits(text);
  if (text.length <= LONGEST_EXACT) return h("small", {}, `exactly ${digits}`);
  return h("details", {}, h("summary", {}, `all ${groupDigits(text.length)} digits`), h("small", {}, digits));
}

export function showHeadline(run: Run): void {
  const long = run.count.length > LONGEST_COUNT;
  count.textContent = long ? shortCount(run.count) : groupDigits(run.count);
  noun.textContent = NOUNS[run.kind][run.count === "1" ? 0 : 1];
  replace(
    facts,
    `in ${plural(run.events, "event")}, ${shortSeconds(run.seconds)}`,
    run.partial && h("small", {}, "a part of the matches"),
    long && showExactly(run.count),
  );
  notes.hidden = run.notes.length === 0;
  replace(notes, ...run.notes.map(({ text, code }) => h("li", {}, h("pre", {}, text), code && codeLink(code))));
  downloads.hidden = false;
  const link = (format: "csv" | "parquet" | "jsonl", name: string): HTMLElement =>
    h("a", { class: "button quiet", href: api.downloadLink(run.run, format), download: true }, name);
  replace(downloads, link("csv", "CSV"), link("parquet", "Parquet"), link("jsonl", "JSON lines"));
}

/** Say in a few words why there is no answer. */
export function showNoAnswer(words: string): void {
  count.textContent = "";
  noun.textContent = words;
  replace(facts);
  notes.hidden = true;
  downloads.hidden = true;
}
