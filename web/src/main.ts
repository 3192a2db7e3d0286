// The page: it joins the panels. Data and query make a question; a run of it makes the answer.

import {
  api,
  ApiError,
  canAskWhy,
  canLabel,
  canStep,
  isAbort,
  type Data,
  type Language,
  type Limits,
  type Problem,
  type Question,
  type ResultKind,
  type Run,
  type Sample,
  type Source,
  type TimelineMatch,
} from "./api.ts";
import { DataPanel } from "./data.ts";
import { byId, h, iconButton, replace } from "./dom.ts";
import { QueryEditor } from "./editor.ts";
import { writeFirstQuery } from "./first.ts";
import { showHeadline, showNoAnswer } from "./headline.ts";
import { LabelPanel } from "./label.ts";
import { readLink, writeLink } from "./link.ts";
import { MatchesPanel } from "./matches.ts";
import { codeLink, showProblems } from "./problems.ts";
import { recall, remember } from "./remember.ts";
import { StepsPanel } from "./steps.ts";
import { Tabs } from "./tabs.ts";
import { connectTheme } from "./theme.ts";
import { TimelineView } from "./timeline.ts";
import { WhyPanel } from "./why.ts";

const SOON = 150;
const BETWEEN_REVIVALS = 10_000;
const ROWS: Partial<Record<ResultKind, string>> = { answers: "Answers", groups: "Groups", rows: "Rows" };

const runButton = byId("run", HTMLButtonElement);
const languageSelect = byId("language", HTMLSelectElement);
const exampleSelect = byId("examples", HTMLSelectElement);
const trouble = byId("trouble", HTMLParagraphElement);
const stale = byId("stale", HTMLElement);
const answer = byId("answer", HTMLElement);

let samples: Sample[] = [];
let files: string[] = [];
let keywords: Limits["keywords"] | null = null;
let running: AbortController | null = null;
let current: Run | null = null;
let offered = "";
let asked = "";
let checked: string | null = null;
let revived = -Infinity;
let opened = ""; // the fragment that the page has opened: the address may be a step ahead of it

const isGone = (error: unknown): boolean => error instanceof ApiError && (error.status === 404 || error.status === 410);

/** Run the query again where the server has dropped its answer; return false if that does not help. */
function revive(error: unknown): boolean {
  if (!isGone(error)) return false;
  if (running !== null) return true; // others of its panels ask for the same answer
  const now = Date.now();
  if (current === null || editor.text !== asked || now - revived < BETWEEN_REVIVALS) return false;
  revived = now;
  current = null;
  void run();
  return true;
}

function complain(error: unknown): void {
  if (isAbort(error) || revive(error)) return;
  const known = error instanceof ApiError;
  if (!known) console.error(error);
  const message = known ? error.message : "Something in this page went wrong.";
  const hint = (known && error.hint) || (isGone(error) ? "Run the query again." : "");
  replace(
    trouble,
    h("span", {}, message, " ", known && error.kind && codeLink(error.kind), hint && h("small", {}, ` ${hint}`)),
    iconButton("Close message", "×", () => (trouble.hidden = true)),
  );
  trouble.hidden = false;
}

function language(): Language {
  return languageSelect.value as Language;
}

function question(): Question | null {
  const source = data.source;
  return source === null ? null : { language: language(), query: editor.text, source };
}

// ------------------------------------------------------------------ panels

const plan = h("div", { class: "plan" });

const timeline = new TimelineView({
  parent: byId("timeline", HTMLDivElement),
  onSelect: (match) => showMatch(match),
  onPick: (event) => (tabs.current === "steps" ? steps.goTo(event.row) : why.pick(event)),
  onError: complain,
});

const matches = new MatchesPanel({
  onSelect: (match) => timeline.select(match),
  laneOf: (event, variable) => timeline.laneOf(event, variable),
  onStep: (row) => {
    steps.goTo(row);
    tabs.open("steps");
  },
  onTrouble: complain,
});

const steps = new StepsPanel({ onStep: (time) => (timeline.playhead = time), onTrouble: complain });

const why = new WhyPanel({
  laneOf: (event, variable) => timeline.laneOf(event, variable),
  onPicked: (events) => (timeline.picked = events),
  onTrouble: complain,
});

const label = new LabelPanel({
  laneOf: (event, variable) => timeline.laneOf(event, variable),
  onShow: (match) => timeline.select(match),
  onTrouble: complain,
});

function leaveTools(): void {
  timeline.picking = false;
  timeline.picked = [];
  timeline.playhead = null;
}

const panels = [
  { id: "matches", label: "Matches", panel: matches.element, onShow: leaveTools },
  {
    id: "steps",
    label: "Step by step",
    panel: steps.element,
    onShow: () => (leaveTools(), (timeline.picking = true), steps.open(matches.opened)),
  },
  {
    id: "why",
    label: "Why not?",
    panel: why.element,
    onShow: () => (leaveTools(), (timeline.picking = true), why.open()),
  },
  { id: "label", label: "Label", panel: label.element, onShow: () => (leaveTools(), label.open()) },
  { id: "plan", label: "Plan", panel: plan, onShow: leaveTools },
];
const tabs = new Tabs("Answer", panels);
byId("tabs", HTMLDivElement).append(tabs.element, ...panels.map(({ panel }) => panel));

function showMatch(match: TimelineMatch | null): void {
  if (match !== null) tabs.open("matches");
  void matches.select(match);
}

function showMistakes(problems: readonly Problem[], text: string): void {
  showProblems(byId("problems", HTMLUListElement), problems, text, {
    show: (problem) => editor.show(problem),
    apply: (fix) => editor.apply(fix),
  });
}

const editor = new QueryEditor({
  parent: byId("editor", HTMLDivElement),
  language: "ceql",
  question,
  onProblems: (problems, text) => {
    checked = problems.some(({ severity }) => severity === "error") ? text : null;
    showMistakes(problems, text);
  },
  onChange: (text) => {
    exampleSelect.value = "";
    stale.hidden = current === null || text === asked;
    keep();
  },
  onRun: () => void run(),
});

const data = new DataPanel({
  onSource: (source, described) => {
    if (!("sample" in source)) suggest(source, described);
    editor.recheck();
    keep();
  },
  onRemoved: () => {
    remember(null, opened);
    void begin();
  },
  onTrouble: complain,
});

// --------------------------------------------------------------------- run

function showRun(made: Run | null, query: string): void {
  asked = query;
  stale.hidden = made === null || editor.text === query; // the visitor may have written on meanwhile
  const before = current;
  if (before !== null && before !== made) api.forget(before.run).catch(() => undefined);
  current = made;
  for (const part of ["timeline", "tabs"]) byId(part, HTMLDivElement).hidden = made === null;
  if (made === null) return;
  showHeadline(made);
  timeline.show(made);
  matches.show(made);
  steps.show(made);
  why.show(made);
  label.show(made);
  tabs.offer("matches", ROWS[made.kind] ?? "Matches");
  tabs.offer("steps", canStep(made) ? "Step by step" : made.automaton ? "Automaton" : null);
  tabs.offer("why", canAskWhy(made) ? "Why not?" : null);
  tabs.offer("label", canLabel(made) ? "Label" : null);
  tabs.open("matches");
  replace(
    plan,
    h("p", { class: "plan-class" }, made.plan.class),
    h("ul", { class: "plan-cost" }, ...made.plan.cost.map((line) => h("li", {}, line))),
    h("pre", { tabindex: "0", role: "region", "aria-label": "Plan in words" }, made.plan.words),
  );
}

async function run(): Promise<void> {
  const wish = question();
  if (wish === null || wish.query.trim() === "") return;
  running?.abort();
  const mine = new AbortController();
  running = mine;
  trouble.hidden = true;
  answer.setAttribute("aria-busy", "true");
  const slow = window.setTimeout(() => (runButton.textContent = "Stop"), SOON);
  try {
    const made = await api.run(wish, mine.signal);
    if (running === mine) showRun(made, wish.query);
  } catch (error) {
    if (running === mine) {
      showRun(null, wish.query);
      if (isAbort(error)) {
        showNoAnswer("Stopped");
      } else if (error instanceof ApiError && error.diagnostics.length > 0) {
        showNoAnswer("The query has a mistake");
        if (checked !== wish.query) showMistakes(error.diagnostics, wish.query); // else they are there, with fixes
      } else {
        showNoAnswer("No answer");
        complain(error);
      }
    }
  } finally {
    window.clearTimeout(slow);
    if (running === mine) {
      running = null;
      runButton.textContent = "Run";
      answer.removeAttribute("aria-busy");
    }
  }
}

runButton.addEventListener("click", () => {
  if (running !== null && runButton.textContent === "Stop") running.abort();
  else void run(); // in place of a run that the visitor has not seen begin
});

// ---------------------------------------------------------- query and data

function setLanguage(next: Language): void {
  languageSelect.value = next;
  editor.speak(next, keywords?.[next]);
  editor.recheck();
}

/** List the examples of a sample; return the first of them. */
function listExamples(source: Source): { text: string; language: Language } | null {
  const sample = "sample" in source ? samples.find(({ id }) => id === source.sample) : undefined;
  const options = sample?.queries.map(({ title }, i) => h("option", { value: i }, title)) ?? [];
  replace(exampleSelect, h("option", { value: "", disabled: true, hidden: true }, "Examples"), ...options);
  exampleSelect.hidden = options.length === 0;
  exampleSelect.value = "";
  return sample?.queries[0] ?? null;
}

/** Write a query into the editor; the page may replace it later, what a visitor writes it may not. */
function offer(query: { text: string; language: Language }): void {
  setLanguage(query.language);
  offered = query.text.trimEnd();
  editor.text = offered;
}

/** Offer a first query for data that comes without examples. */
function suggest(source: Source, described: Data): void {
  const first = writeFirstQuery(described, keywords?.ceql.always ?? []);
  listExamples(source);
  if (first === null || (editor.text !== offered && (editor.focused || editor.text.trim() !== ""))) return;
  if (editor.text === first.text.trimEnd() && (current ?? running) !== null) return;
  offer(first);
  void run();
}

/** Remember the question, so that a reload comes back to it. */
function keep(): void {
  const source = data.source;
  if (source === null) return;
  remember({ query: editor.text, language: language(), source, offered: editor.text === offered }, opened);
}

languageSelect.addEventListener("change", () => {
  setLanguage(language());
  keep();
});
exampleSelect.addEventListener("change", () => {
  const source = data.source;
  const chosen = exampleSelect.value;
  if (source === null || !("sample" in source)) return;
  const query = samples.find(({ id }) => id === source.sample)?.queries[Number(chosen)];
  if (!query) return;
  offer(query);
  exampleSelect.value = chosen;
  void run();
});
byId("source", HTMLSelectElement).addEventListener("change", (event) => {
  const source = JSON.parse((event.target as HTMLSelectElement).value) as Source;
  const first = listExamples(source);
  keep();
  if (first === null) return;
  offer(first);
  exampleSelect.value = "0";
  void run();
});

// --------------------------------------------------------- link, theme, keys

byId("share", HTMLButtonElement).addEventListener("click", (event) => {
  const source = data.source;
  const sample = source !== null && "sample" in source ? source.sample : null;
  const fragment = writeLink({ query: editor.text, language: language(), sample });
  history.replaceState(null, "", fragment);
  opened = location.hash;
  keep();
  const button = event.currentTarget as HTMLButtonElement;
  const say = (words: string): void => {
    button.textContent = words;
    window.setTimeout(() => (button.textContent = "Copy link"), 1800);
  };
  const copied = navigator.clipboard?.writeText(location.href) ?? Promise.reject(new Error("no clipboard"));
  copied.then(
    () => say(sample === null ? "Copied, without data" : "Copied"),
    () => say("In the address bar"),
  );
});

connectTheme(byId("theme", HTMLButtonElement), () => timeline.recolour());
const keys = byId("keys-dialog", HTMLDialogElement);
byId("keys", HTMLButtonElement).addEventListener("click", () => keys.showModal());
window.addEventListener("hashchange", () => void begin());
window.addEventListener("pagehide", () => api.leave());

// ------------------------------------------------------------------- begin

function isThere(source: Source): boolean {
  if ("sample" in source) return samples.some(({ id }) => id === source.sample);
  if ("uploads" in source) return source.uploads.every((id) => data.has(id));
  return source.files.every((name) => files.includes(name));
}

/** Return what this tab asked before its reload, or what the link holds; its source may be gone. */
function findQuestion(): { query: string; language: Language | null; source: Source | null; offered: boolean } | null {
  const kept = recall(opened);
  if (kept !== null) return kept;
  const link = readLink(opened);
  return link && { ...link, source: link.sample === null ? null : { sample: link.sample }, offered: false };
}

/** Open what was asked before, or a file of the command line, or the first sample; and run it. */
async function begin(): Promise<void> {
  opened = location.hash;
  const wanted = findQuestion();
  const given: Source | null = files.length > 0 ? { files } : null;
  const sample: Source | null = samples[0] ? { sample: samples[0].id } : null;
  const found = wanted?.source && isThere(wanted.source) ? wanted.source : null;
  const source = found ?? (wanted === null ? (given ?? sample) : (sample ?? given));
  if (source === null) return;
  const first = listExamples(source);
  if (wanted !== null) {
    setLanguage(wanted.language ?? first?.language ?? "ceql");
    if (wanted.offered) offered = wanted.query;
    editor.text = wanted.query;
  } else if (first !== null) {
    offer(first);
    exampleSelect.value = "0";
  }
  const opening = data.open(source);
  if (editor.text.trim() !== "") await run();
  await opening;
  if (wanted?.source && found === null) {
    const gone = "sample" in wanted.source ? `no sample "${wanted.source.sample}"` : "these events no longer";
    complain(new ApiError(0, "", `This playground has ${gone}.`, "The query is there all the same."));
  }
}

try {
  const [offered, limits, uploads] = await Promise.all([api.samples(), api.limits(), api.uploads()]);
  samples = offered;
  files = limits.files;
  keywords = limits.keywords;
  data.offer(samples, limits, uploads);
  await begin();
} catch (error) {
  complain(error);
}
