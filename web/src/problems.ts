// The list of problems below the editor: each with its line, carets, help and fixes.

import type { Fix, Problem } from "./api.ts";
import { h, replace } from "./dom.ts";
import { drawCarets } from "./places.ts";

/** Link to the page of a kind of mistake or warning. */
export function codeLink(code: string): HTMLElement {
  return h("a", { class: "code", href: `/codes/${code}`, target: "_blank" }, code);
}

export function showProblems(
  list: HTMLElement,
  problems: readonly Problem[],
  text: string,
  actions: { show(problem: Problem): void; apply(fix: Fix): void },
): void {
  const items = problems.map((problem) => {
    const { line, carets } = drawCarets(text, problem);
    const fixes = problem.fixes.map((fix) =>
      h("button", { type: "button", class: "fix", click: () => actions.apply(fix) }, fix.label),
    );
    return h(
      "li",
      { class: problem.severity },
      h(
        "button",
        { type: "button", class: "link", title: "Go there", click: () => actions.show(problem) },
        `${problem.severity}, line ${problem.line}`,
      ),
      h(
        "span",
        { class: "message" },
        `${problem.message} `,
        problem.code && codeLink(problem.code),
      ),
      line.trim() !== "" && h("pre", { "aria-hidden": "true" }, `${line}\n`, h("span", { class: "carets" }, carets)),
      problem.help && h("span", { class: "help" }, problem.help),
      fixes.length > 0 && h("span", { class: "fixes" }, ...fixes),
    );
  });
  replace(list, ...items);
}
