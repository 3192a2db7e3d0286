// Highlighting: one line tokenizer per language. It knows words and brackets, not the grammar; the
// server says which words are keywords, and checks the query.

import type { Keywords, Language } from "./api.ts";

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

/** What a tokenizer knows of its language. */
export interface Vocabulary {
  always: ReadonlySet<string>;
  soft: ReadonlySet<string>;
}

export const EMPTY: Vocabulary = { always: new Set(), soft: new Set() };

export const vocabularyOf = ({ always, soft }: Keywords): Vocabulary => ({
  always: new Set(always),
  soft: new Set(soft),
});

export const start = (): Inside => ({ brackets: 0, comment: false });

/** Return the kind of a word. A soft keyword is one in capitals only, for it may be a name. */
function kindOfWord(word: string, language: Language, words: Vocabulary, inside: Inside): Kind {
  // keywords are words of ASCII letters: "ſelect" is a name
  const capitals = /^[\x00-\x7f]*$/.test(word) ? word.toUpperCase() : word;
  if (words.always.has(capitals)) return ["TRUE", "FALSE", "NULL"].includes(capitals) ? "atom" : "keyword";
  if (word === capitals && words.soft.has(capitals)) return "keyword";
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

function readQuery(language: Exclude<Language, "spaseq">, words: Vocabulary, stream: Characters, inside: Inside): Kind {
  if (inside.comment) return readComment(stream, inside);
  if (stream.eatSpace()) return null;
  if (stream.match(language === "sql" ? /^--/ : /^(--|\/\/)/)) {
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
  if (word && word !== true) return kindOfWord(word[0], language, words, inside);
  if (stream.match(/^[[\](){}]/, false)) return readBracket(stream, inside);
  stream.next();
  return "operator";
}

function readSpaseq(words: Vocabulary, stream: Characters, inside: Inside): Kind {
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
  if (word && word !== true) return word[0] === "a" ? "keyword" : kindOfWord(word[0], "spaseq", words, inside);
  if (stream.match(/^[[\](){}]/, false)) return readBracket(stream, inside);
  stream.next();
  return "operator";
}

/** Read a token and return its kind. */
export function readToken(language: Language, words: Vocabulary, stream: Characters, inside: Inside): Kind {
  return language === "spaseq" ? readSpaseq(words, stream, inside) : readQuery(language, words, stream, inside);
}
