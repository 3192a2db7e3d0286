// What a reload keeps: the query, its language and its source, in the storage of this tab.

import type { Language, Source } from "./api.ts";

const KEY = "cernis-question";

export interface Remembered {
  query: string;
  language: Language;
  source: Source;
  /** Whether the page has offered the query, so that it may offer another one. */
  offered: boolean;
}

type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Remember a question under the fragment of the address; null: forget it. */
export function remember(question: Remembered | null, fragment: string, store?: Store): void {
  try {
    const place = store ?? sessionStorage;
    if (question === null) place.removeItem(KEY);
    else place.setItem(KEY, JSON.stringify({ ...question, fragment }));
  } catch {
    // storage may be forbidden or full: then a reload begins anew
  }
}

/** Return what was asked before; null if there is nothing, or if another link has been opened since. */
export function recall(fragment: string, store?: Store): Remembered | null {
  try {
    const kept = JSON.parse((store ?? sessionStorage).getItem(KEY) ?? "null") as
      (Remembered & { fragment: string }) | null;
    return kept !== null && kept.fragment === fragment ? kept : null;
  } catch {
    return null;
  }
}
