// The page's side of the server's interface: the shapes of its answers, and one function per request.
// The server's side is src/cernis/serve. Counts may exceed 2^53 and are decimal text.

export type Language = "ceql" | "cq" | "spaseq" | "sql";
export type Unit = "ms" | "number" | "row";
/** Which columns of an upload have the types and the times; the server guesses what is not named. */
export interface Reading {
  type?: string;
  time?: string;
  time_unit?: string;
}
export type Source = { sample: string } | ({ uploads: string[] } & Reading) | { files: string[] };
export type Scalar = string | number | boolean | null;

export interface Sample {
  id: string;
  title: string;
  about: string;
  language: Language;
  queries: { title: string; text: string; language: Language }[];
  rows: number;
}
/** Words in capitals: those that always are keywords, and those that may be names too. */
export interface Keywords {
  always: string[];
  soft: string[];
}
export interface Limits {
  version: string;
  /** Names of the files that the command line names. */
  files: string[];
  languages: Language[];
  keywords: Record<Language, Keywords>;
  upload_bytes: number;
}
export interface Upload {
  id: string;
  name: string;
  rows: number;
}
export interface Stream {
  name: string;
  rows: number;
  columns: { name: string; type: string }[];
  /** The column of types, if there is one. */
  type: string | null;
  types: { name: string; count: number }[];
  time: { column: string; first: number; last: number; unit: Unit } | null;
}
export interface Density {
  from: number;
  to: number;
  unit: Unit;
  bins: number[];
}
export interface Data {
  language: "ceql" | "spaseq";
  streams: Stream[];
  density: Density | null;
  notes: string[];
}
export interface Rows {
  columns: string[];
  rows: unknown[][];
  total: number;
}

export interface Place {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
}
export interface Fix extends Place {
  label: string;
  text: string;
}
export interface Problem extends Place {
  severity: "error" | "warning";
  code: string;
  message: string;
  help: string | null;
  fixes: Fix[];
}
export interface Completion {
  label: string;
  kind: "keyword" | "type" | "attribute" | "variable" | "function" | "stream";
  detail: string | null;
}

export interface AutomatonState {
  id: number | string;
  name: string;
  initial: boolean;
  final: boolean;
  kind: "state" | "fork" | "part" | "guard" | "join";
  x: number;
  y: number;
}
export interface AutomatonEdge {
  from: number | string;
  to: number | string;
  label: string;
  condition: string;
  kind: "read" | "skip" | "wait" | "all" | "guard";
  /** How many events have taken it; null where that is not counted. */
  count: string | number | null;
  /** The way from state to state, where it is not straight. */
  points: [number, number][];
}
export interface Automaton {
  /** Over how many events edges are counted: the first ones of the stream. */
  counted: number;
  states: AutomatonState[];
  edges: AutomatonEdge[];
  width: number;
  height: number;
}
/** What a result holds: matches, numbers of matches per end, rows of values, groups, matches of graphs, or rows of SQL. */
export type ResultKind = "matches" | "counts" | "answers" | "groups" | "graphs" | "rows";
export interface Run {
  run: string;
  kind: ResultKind;
  events: number;
  count: string;
  seconds: number;
  /** Every match is real, and some may be missing. */
  partial: boolean;
  notes: { text: string; code: string }[];
  columns: string[];
  plan: { words: string; cost: string[]; class: string };
  automaton: Automaton | null;
  variables: string[];
  /** The columns by whose values events can be found. */
  keys: string[];
  /** The components of PARTITION BY. */
  partition: string[];
  time: { from: number; to: number; unit: Unit };
}
export interface Mark {
  row: number;
  name: string;
  ts: number;
  lane: number;
  variable: string;
}
export interface TimelineMatch {
  index: string;
  marks: Mark[];
}
export interface Timeline {
  from: number;
  to: number;
  lanes: { name: string; total: number; bins: number[] }[];
  events: { row: number; name: string; lane: number; ts: number; label: string }[];
  matches: TimelineMatch[];
  ends: { bins: string[] };
}
export interface MatchRow {
  /** The number in the order of the result; none in a sample. */
  index: string | null;
  /** None for rows that are no matches. */
  start: number | null;
  end: number | null;
  /** The rows of the first and the last event, as the command line numbers them; none for graphs. */
  start_number: number | null;
  end_number: number | null;
  values: Scalar[];
  /** The events by variable; those of no variable are under "". */
  events: Record<string, number[]>;
}
export interface MatchPage {
  total: string;
  columns: string[];
  rows: MatchRow[];
}
export interface EventRow {
  /** The position in the order of time, from 0. */
  row: number;
  /** What people call the event: its row in the input, from 0, or its graph. */
  name: string;
  ts: number;
  type: string | null;
  stream: string;
  values: unknown[];
}
export interface Events {
  columns: string[];
  events: EventRow[];
}
export interface FoundEvents extends Events {
  offset: number;
  total: number;
}
/** Which events are looked for: all, or those with a value in a key; from an offset or a number on. */
export interface Search {
  offset?: number;
  number?: number;
  key?: string;
  value?: string;
}
export interface Step {
  row: number;
  event: (EventRow & { columns: string[] }) | null;
  states: { state: number | string; partial: string; since: number | null }[];
  taken: { from: number | string; to: number | string; label: string }[];
  waiting: { state: number | string; events: number[]; text: string }[];
  completed: string;
  /** The partition that all of this is of, and the rows next to this one in it; null: there is one stream. */
  partition: { key: string; before: number | null; after: number | null } | null;
  /** Whether the stream was replayed from its beginning; otherwise older partial matches are missing. */
  whole: boolean;
  /** Whether the numbers of partial matches are exact. */
  exact: boolean;
}
export interface Why {
  matches: boolean;
  /** `ok` is null for events after the one that stopped them. */
  steps: { row: number; name: string; state: string | null; ok: boolean | null; condition: string; reason: string }[];
  text: string;
}

/** A part of the query, and how many matches there are without it; null: they are too many to be counted. */
export interface Obstacle {
  obstacle: string;
  without: string | null;
  more: string | null;
}
/** How far partial matches get, step by step. */
export interface Funnel {
  about: string;
  steps: { step: string; events: string | null; reached: string | null; lost: Obstacle[] }[];
  matches: string | null;
  relaxed: Obstacle[];
}

/** How a sample of matches is drawn: uniformly (null), or as many of each key or day. */
export type SampleBy = "key" | "day" | null;
/** A match to be labelled: what its line in the file of labels has beside the label, and its row. */
export interface DrawnMatch {
  line: { id: string; start: number; end: number; stratum: string };
  row: MatchRow;
}
export interface DrawnMatches {
  /** The first line of the file of labels. */
  head: { labels_of: string; variables: string[] };
  drawn: DrawnMatch[];
}
export interface Measured {
  /** The share of real matches with its interval; null without labels. */
  value: number | null;
  low: number;
  high: number;
  labelled: number;
  /** How many more labels the width takes. */
  missing: number;
  text: string;
}

/** Whether the server can follow a run event by event. */
export const canStep = (run: Run): boolean =>
  run.automaton !== null && ["matches", "counts", "graphs"].includes(run.kind);

/** Whether the server can say why events are no match. */
export const canAskWhy = (run: Run): boolean => canStep(run) || (run.kind === "rows" && run.variables.length > 0);

/** Whether the server can count partial matches, step by step. */
export const canCount = (run: Run): boolean => canAskWhy(run) && ["matches", "counts"].includes(run.kind);

/** Whether there are matches that can be labelled. */
export const canLabel = (run: Run): boolean => run.kind === "matches" && run.count !== "0";

/** What the server, or the way to it, refused; `message` is for people. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
    /** What is wrong with the query, if that is the reason. */
    readonly diagnostics: Problem[] = [],
    /** The kind of mistake, which has a page; empty: none has. */
    readonly kind = "",
  ) {
    super(message);
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

function parseFailure(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as {
      error?: { code?: string; message?: string; hint?: string; diagnostics?: Problem[]; kind?: string };
    };
    if (error?.message)
      return new ApiError(status, error.code ?? "", error.message, error.hint ?? null, error.diagnostics, error.kind);
  } catch {
    // no JSON: a proxy's page, perhaps
  }
  return new ApiError(status, "", `The server answered with status ${status}.`, null);
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    // the header is one that no form of another site can send
    response = await fetch(path, {
      credentials: "same-origin",
      ...init,
      headers: { ...init.headers, "x-cernis": "1" },
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "offline", "The server does not answer.", "Is `cernis serve` still running?");
  }
  const text = await response.text();
  if (!response.ok) throw parseFailure(response.status, text);
  return (text === "" ? null : JSON.parse(text)) as T;
}

const get = <T>(path: string): Promise<T> => request<T>(path, {});

const post = <T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> =>
  request<T>(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });

function query(values: Record<string, string | number>): string {
  return new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)])).toString();
}

export interface Question {
  language: Language;
  query: string;
  source: Source;
}

export const api = {
  samples: () => get<Sample[]>("/api/samples"),
  limits: () => get<Limits>("/api/limits"),
  uploads: () => get<Upload[]>("/api/uploads"),
  upload: (file: File) => request<Upload>(`/api/uploads?${query({ name: file.name })}`, { method: "POST", body: file }),
  removeUpload: (id: string) => request<unknown>(`/api/uploads/${id}`, { method: "DELETE" }),
  data: (source: Source) => post<Data>("/api/data", { source }),
  rows: (source: Source, stream: string, offset: number, limit: number) =>
    get<Rows>(`/api/data/rows?${query({ source: JSON.stringify(source), stream, offset, limit })}`),
  check: (question: Question, signal?: AbortSignal) => post<{ diagnostics: Problem[] }>("/api/check", question, signal),
  complete: (question: Question & { line: number; column: number }, signal?: AbortSignal) =>
    post<{ from_column: number; options: Completion[] }>("/api/complete", question, signal),
  run: (question: Question, signal?: AbortSignal) => post<Run>("/api/runs", question, signal),
  timeline: (run: string, view: { from: number; to: number; width: number; lanes: string }) =>
    get<Timeline>(`/api/runs/${run}/timeline?${query(view)}`),
  matches: (run: string, offset: string, limit: number) =>
    get<MatchPage>(`/api/runs/${run}/matches?${query({ offset, limit })}`),
  sample: (run: string, n: number, seed: number) => get<MatchPage>(`/api/runs/${run}/sample?${query({ n, seed })}`),
  events: (run: string, rows: readonly number[]) =>
    get<Events>(`/api/runs/${run}/events?${query({ rows: rows.join(",") })}`),
  find: (run: string, search: Search, limit: number) =>
    get<FoundEvents>(`/api/runs/${run}/find?${query({ ...search, limit })}`),
  step: (run: string, row: number) => get<Step>(`/api/runs/${run}/step?${query({ row })}`),
  automaton: (run: string) => get<Automaton | null>(`/api/runs/${run}/automaton`),
  why: (run: string, rows: readonly number[]) => post<Why>(`/api/runs/${run}/why`, { rows }),
  funnel: (run: string, asked: { key: string[]; end: number | null }) =>
    post<Funnel>(`/api/runs/${run}/funnel`, asked),
  draw: (run: string, asked: { labels: string; by: SampleBy; n: number; seed: number }) =>
    post<DrawnMatches>(`/api/runs/${run}/draw`, asked),
  measure: (run: string, asked: { labels: string; by: SampleBy; width: number }) =>
    post<Measured>(`/api/runs/${run}/measure`, asked),
  forget: (run: string) => request<null>(`/api/runs/${run}`, { method: "DELETE" }),
  downloadLink: (run: string, format: "csv" | "parquet" | "jsonl") => `/api/runs/${run}/download?${query({ format })}`,
  leave: () => navigator.sendBeacon("/api/leave"),
};
