// The editor: CodeMirror with our highlighting, and diagnostics and completion from the server.

import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { forceLinting, linter, lintKeymap, type Diagnostic } from "@codemirror/lint";
import { Compartment, EditorState, StateEffect, type Extension, type Transaction } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  placeholder,
  tooltips,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { api, isAbort, type Fix, type Keywords, type Language, type Problem, type Question } from "./api.ts";
import { EMPTY, readToken, start, vocabularyOf, type Inside, type Vocabulary } from "./highlight.ts";
import { placeOf, offsetOf, rangeOf } from "./places.ts";

const CHECK_AGAIN = StateEffect.define<null>();

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, class: "hl-keyword" },
  { tag: tags.string, class: "hl-string" },
  { tag: tags.number, class: "hl-number" },
  { tag: tags.comment, class: "hl-comment" },
  { tag: tags.operator, class: "hl-operator" },
  { tag: tags.bracket, class: "hl-bracket" },
  { tag: tags.typeName, class: "hl-type" },
  { tag: tags.propertyName, class: "hl-property" },
  { tag: tags.variableName, class: "hl-variable" },
  { tag: tags.atom, class: "hl-number" },
]);

function languageOf(language: Language, words: Vocabulary): Extension {
  return StreamLanguage.define<Inside>({
    name: language,
    startState: start,
    token: (stream, inside) => readToken(language, words, stream, inside),
    languageData: {
      commentTokens: language === "spaseq" ? { line: "#" } : { line: "--", block: { open: "/*", close: "*/" } },
      closeBrackets: { brackets: ["(", "[", "{", "'", '"'] },
    },
  });
}

/** Replace the selection by a command of the editor.
 *
 * A browser that does it itself writes the style of what it removes into the page, which the server's
 * policy refuses.
 */
function replaceRange(event: InputEvent, view: EditorView): boolean {
  const { from, to } = view.state.selection.main;
  const typed = event.inputType === "insertText" ? event.data : null;
  if (from === to || event.isComposing || (typed === null && !event.inputType.startsWith("deleteContent"))) return false;
  event.preventDefault();
  const text = typed ?? "";
  const userEvent = typed === null ? "delete.selection" : "input.type";
  const insert = (): Transaction =>
    view.state.update(view.state.replaceSelection(text), { userEvent, scrollIntoView: true });
  const handlers = typed === null ? [] : view.state.facet(EditorView.inputHandler);
  if (!handlers.some((handle) => handle(view, from, to, text, insert))) view.dispatch(insert());
  return true;
}

export interface EditorOptions {
  parent: HTMLElement;
  language: Language;
  /** What is asked; null while there is no data. */
  question(): Question | null;
  onProblems(problems: Problem[], text: string): void;
  onChange(text: string): void;
  onRun(): void;
}

export class QueryEditor {
  readonly #view: EditorView;
  readonly #language = new Compartment();
  readonly #options: EditorOptions;
  #checking: AbortController | null = null;

  constructor(options: EditorOptions) {
    this.#options = options;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
    this.#view = new EditorView({
      parent: options.parent,
      state: EditorState.create({
        extensions: [
          EditorView.cspNonce.of(nonce),
          this.#language.of(languageOf(options.language, EMPTY)),
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          syntaxHighlighting(COLOURS),
          placeholder("SELECT * FROM … WHERE …"),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Query", spellcheck: "false", autocapitalize: "off" }),
          tooltips({ position: "fixed" }),
          autocompletion({ override: [(context) => this.#complete(context)], icons: false }),
          linter((view) => this.#check(view), {
            delay: 300,
            needsRefresh: (update) =>
              update.transactions.some(({ effects }) => effects.some((effect) => effect.is(CHECK_AGAIN))),
          }),
          keymap.of([
            { key: "Mod-Enter", run: () => (options.onRun(), true), preventDefault: true },
            { key: "Tab", run: acceptCompletion },
            ...closeBracketsKeymap,
            ...defaultKeymap,
            ...historyKeymap,
            ...completionKeymap,
            ...lintKeymap,
          ]),
          EditorView.domEventHandlers({ beforeinput: replaceRange }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) options.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
  }

  get text(): string {
    return this.#view.state.doc.toString();
  }

  set text(text: string) {
    if (text === this.text) return;
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } });
  }

  /** The keywords of a language are known when the server has told them. */
  speak(language: Language, keywords: Keywords | undefined): void {
    const words = keywords ? vocabularyOf(keywords) : EMPTY;
    this.#view.dispatch({ effects: this.#language.reconfigure(languageOf(language, words)) });
  }

  /** Whether the caret is here: what a visitor is writing, nothing else may change. */
  get focused(): boolean {
    return this.#view.hasFocus;
  }

  focus(): void {
    this.#view.focus();
  }

  /** Check again, after the data or the language has changed. */
  recheck(): void {
    this.#view.dispatch({ effects: CHECK_AGAIN.of(null) });
  }

  /** Move the caret to a problem. */
  show(problem: Problem): void {
    const { from, to } = rangeOf(this.text, problem);
    this.#view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
    this.#view.focus();
  }

  apply(fix: Fix): void {
    const { from, to } = rangeOf(this.text, fix);
    this.#view.dispatch({ changes: { from, to, insert: fix.text }, selection: { anchor: from + fix.text.length } });
    this.#view.focus();
    forceLinting(this.#view);
  }

  async #check(view: EditorView): Promise<Diagnostic[]> {
    this.#checking?.abort();
    const text = view.state.doc.toString();
    const question = this.#options.question();
    if (question === null || text.trim() === "") {
      this.#options.onProblems([], text);
      return [];
    }
    this.#checking = new AbortController();
    let problems: Problem[];
    try {
      ({ diagnostics: problems } = await api.check(question, this.#checking.signal));
    } catch {
      return []; // the next run of the query says what is wrong with the server
    }
    if (view.state.doc.toString() !== text) return [];
    this.#options.onProblems(problems, text);
    return problems.map((problem) => this.#diagnosticOf(problem, text));
  }

  #diagnosticOf(problem: Problem, text: string): Diagnostic {
    return {
      ...rangeOf(text, problem),
      severity: problem.severity,
      source: problem.code,
      message: problem.help ? `${problem.message}\n${problem.help}` : problem.message,
      actions: problem.fixes.map((fix) => ({ name: fix.label, apply: () => this.apply(fix) })),
    };
  }

  async #complete(context: CompletionContext): Promise<CompletionResult | null> {
    const word = context.matchBefore(/[\p{L}\p{N}_?$:.]+/u);
    if (!context.explicit && word === null) return null;
    const question = this.#options.question();
    if (question === null) return null;
    const leaving = new AbortController();
    context.addEventListener("abort", () => leaving.abort());
    const text = context.state.doc.toString();
    const { line, column } = placeOf(text, context.pos);
    try {
      const answer = await api.complete({ ...question, line, column }, leaving.signal);
      return {
        from: offsetOf(text, line, answer.from_column),
        // the server has the likeliest first
        options: answer.options.map(({ label, kind, detail }, i, all) => ({
          label,
          detail: detail || kind,
          boost: 40 * (1 - (2 * i) / all.length),
        })),
        validFor: /^[\p{L}\p{N}_]*$/u,
      };
    } catch (error) {
      if (!isAbort(error)) console.warn("no completion", error);
      return null;
    }
  }
}
