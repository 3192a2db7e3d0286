// Highlighting: one line tokenizer per language. It knows words and brackets, not the grammar; the
// server checks the query. words.json has the keywords of each language; tests/serve/test_assets.py
// compares it with src/cernis/languages.

import type { Language } from "./api.ts";
import words from "./words.json";

/** What the tokenizer remembers between lines. */
export interface Inside {
  brackets: number;
  comment: boolean;
}

/** The part of CodeMirror's StringStream that the tokenizers need. */
export interface Characters {
  match(pattern: RegExp, consume?: boolean): boolean | RegExpMatchArray | null;
  next(): string | void;
  eatSpace(): boolean;
  skipToEnd(): void;
}

export type Kind =
  | "keyword"
  | "string"
  | "number"
  | "comment"
  | "operator"
  | "bracket"
  | "typeName"
  | "propertyName"
  | "variableName"
  | "atom"
  | null;

interface Vocabulary {
  always: ReadonlySet<string>;
  capitals: ReadonlySet<string>;
}

const vocabularyOf = (language: Language): Vocabulary => ({
  always: new Set(words[language].always.split(" ")),
  capitals: new Set(words[language].capitals.split(" ")),
});

const VOCABULARIES: Record<Language, Vocabulary> = {
  ceql: vocabularyOf("ceql"),
  cq: vocabularyOf("cq"),
  spaseq: vocabularyOf("spaseq"),
};

export const start = (): Inside => ({ brackets: 0, comment: false });

/** Return the kind of a word. A soft keyword is one in capitals only, for it may be a name. */
export function kindOfWord(word: string, language: Language, inside: Inside): Kind {
  const capitals = word.toUpperCase();
  const { always, capitals: soft } = VOCABULARIES[language];
  if (always.has(capitals)) return ["TRUE", "FALSE", "NULL"].includes(capitals) ? "atom" : "keyword";
  if (word === capitals && soft.has(capitals)) return "keyword";
  if (language === "ceql" && inside.brackets > 0) return "propertyName";
  return /^\p{Lu}/u.test(word) ? "typeName" : "variableName";
}

function readComment(stream: Characters, inside: Inside): Kind {
  if (stream.match(/^.*?\*\//)) inside.comment = false;
  else stream.skipToEnd();
  return "comment";
}

function readBracket(stream: Characters, inside: Inside): Kind {
  const bracket = stream.next();
  if (bracket === "[") inside.brackets++;
  if (bracket === "]") inside.brackets = Math.max(0, inside.brackets - 1);
  return "bracket";
}

function readQuery(language: "ceql" | "cq", stream: Characters, inside: Inside): Kind {
  if (inside.comment) return readComment(stream, inside);
  if (stream.eatSpace()) return null;
  if (stream.match(/^(--|\/\/)/)) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^\/\*/)) {
    inside.comment = true;
    return readComment(stream, inside);
  }
  if (stream.match(/^'(?:[^']|'')*'?|^"(?:[^"]|"")*"?/)) return "string";
  if (stream.match(/^`(?:[^`]|``)*`?/)) return inside.brackets > 0 ? "propertyName" : "variableName";
  if (stream.match(/^(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?/)) return "number";
  const word = stream.match(/^[\p{L}_][\p{L}\p{N}_]*/u);
  if (word && word !== true) return kindOfWord(word[0], language, inside);
  if (stream.match(/^[[\](){}]/, false)) return readBracket(stream, inside);
  stream.next();
  return "operator";
}

function readSpaseq(stream: Characters, inside: Inside): Kind {
  if (stream.eatSpace()) return null;
  if (stream.match(/^#/)) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^<[^<>"{}|^`\\\s]*>/)) return "string";
  if (stream.match(/^"(?:[^"\\]|\\.)*"?|^'(?:[^'\\]|\\.)*'?/)) return "string";
  if (stream.match(/^[?$][\p{L}\p{N}_]+/u)) return "variableName";
  if (stream.match(/^@[A-Za-z]+(-[A-Za-z0-9]+)*/)) return "atom";
  if (stream.match(/^(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?/)) return "number";
  if (stream.match(/^[\p{L}_]?[\p{L}\p{N}_.-]*:[\p{L}\p{N}_][\p{L}\p{N}_.-]*/u)) return "propertyName";
  if (stream.match(/^([\p{L}_][\p{L}\p{N}_-]*)?:(?=\s*<)/u)) return "propertyName";
  const word = stream.match(/^[\p{L}_][\p{L}\p{N}_]*/u);
  if (word && word !== true) return word[0] === "a" ? "keyword" : kindOfWord(word[0], "spaseq", inside);
  if (stream.match(/^[[\](){}]/, false)) return readBracket(stream, inside);
  stream.next();
  return "operator";
}

/** Read a token and return its kind. */
export function readToken(language: Language, stream: Characters, inside: Inside): Kind {
  return language === "spaseq" ? readSpaseq(stream, inside) : readQuery(language, stream, inside);
}
