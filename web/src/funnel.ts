// The funnel of "Why not?": how many partial matches reach each step, what the others are lost to, and how
// many matches there would be without each part of the query. All numbers are exact and may exceed 2^53.

import { api, canCount, type Funnel, type Obstacle, type Run } from "./api.ts";
import { h, replace, svg } from "./dom.ts";
import { logOfText, plural, shortCount, shortDifference } from "./numbers.ts";
import { makeTable } from "./table.ts";

const NOT_COUNTED = "too many to count";
const WIDTH = 120;

/** Return how long a bar is, of `WIDTH`: something shows, however few there are. */
export function barLength(count: string | null, most: string): number {
  if (count === null || count === "0" || most === "0") return 0;
  return Math.max(2, WIDTH * 10 ** (logOfText(count) - logOfText(most)));
}

/** Return the largest of some counts. */
export function largest(counts: readonly (string | null)[]): string {
  return counts.reduce<string>((most, one) => (one !== null && BigInt(one) > BigInt(most) ? one : most), "0");
}

const countOf = (count: string | null): string => (count === null ? NOT_COUNTED : shortCount(count));

function writeObstacle({ obstacle, more }: Obstacle): HTMLElement {
  return h("li", {}, h("code", {}, obstacle), ` ${countOf(more)}`);
}

export class FunnelView {
  readonly element = h("section", { class: "funnel", "aria-label": "How far partial matches get" });
  readonly #keys = h("span", { class: "funnel-keys" });
  readonly #end = h("input", { type: "text", inputmode: "numeric", "aria-label": "Row of the end", size: 7 });
  readonly #answer = h("div", { "aria-live": "polite" });
  readonly #button = h("button", { type: "button", click: () => void this.#count() }, "Count");
  readonly #onTrouble: (error: unknown) => void;
  #run: Run | null = null;

  constructor(onTrouble: (error: unknown) => void) {
    this.#onTrouble = onTrouble;
    const enter = (event: KeyboardEvent): void => {
      if (event.key === "Enter" && event.target instanceof HTMLInputElement) void this.#count();
    };
    this.element.append(
      h("p", { class: "note" }, "Count how far partial matches get, and what the others are lost to."),
      h(
        "div",
        { class: "why-filter", keydown: enter },
        this.#keys,
        h("label", {}, "ends at row ", this.#end),
        this.#button,
      ),
      this.#answer,
    );
  }

  show(run: Run | null): void {
    this.#run = run;
    this.element.hidden = run === null || !canCount(run);
    this.#end.value = "";
    this.#end.placeholder = "any";
    replace(this.#answer);
    const field = (name: string): HTMLElement =>
      h("label", {}, `${name} = `, h("input", { type: "text", "aria-label": `Only ${name}`, placeholder: "any", size: 10 }));
    replace(this.#keys, ...(run?.partition ?? []).map(field));
  }

  async #count(): Promise<void> {
    const run = this.#run;
    if (run === null) return;
    const key = [...this.#keys.querySelectorAll("input")].map(({ value }) => value.trim());
    const row = this.#end.value.replace(/[\s,_]/g, "");
    this.#end.toggleAttribute("aria-invalid", !/^\d{0,15}$/.test(row));
    if (!/^\d{0,15}$/.test(row)) return;
    this.#button.disabled = true;
    this.#answer.setAttribute("aria-busy", "true");
    try {
      const asked = { key: key.every((one) => one === "") ? [] : key, end: row === "" ? null : Number(row) };
      const found = await api.funnel(run.run, asked);
      if (run === this.#run) this.#say(found);
    } catch (error) {
      this.#onTrouble(error);
    } finally {
      this.#button.disabled = false;
      this.#answer.removeAttribute("aria-busy");
    }
  }

  #say(found: Funnel): void {
    const most = largest(found.steps.map(({ reached }) => reached));
    const steps = found.steps.map(({ step, events, reached, lost }, i) => [
      h("span", {}, `${i + 1}. `, h("code", {}, step)),
      { value: events === null ? "" : shortCount(events) },
      this.#bar(reached, most),
      lost.length > 0 ? h("ul", {}, ...lost.map(writeObstacle)) : h("span", { class: "empty" }, "nothing"),
    ]);
    const heads = [
      { name: "step" },
      { name: "events that fit", right: true },
      { name: "partial matches" },
      { name: "lost to" },
    ];
    const fewer = found.relaxed.map(({ obstacle, without, more }) => [
      h("code", {}, obstacle),
      { value: countOf(without) },
      { value: more === null || more === "0" ? "" : shortDifference(more) },
    ]);
    const without = [{ name: "without" }, { name: "matches", right: true }, { name: "more", right: true }];
    const total = found.matches === null ? NOT_COUNTED : plural(found.matches, "match", "matches");
    replace(
      this.#answer,
      makeTable("Partial matches by step", heads, steps),
      h("p", { class: "funnel-total" }, h("b", {}, total), found.about && ` of ${found.about}`),
      fewer.length > 0 && makeTable("Matches without each obstacle", without, fewer),
    );
  }

  #bar(count: string | null, most: string): HTMLElement {
    const bar = svg("rect", { width: barLength(count, most), height: 10, rx: 2 });
    const box = { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none" };
    const drawn = svg("svg", { ...box, width: WIDTH, height: 10, "aria-hidden": "true" }, bar);
    return h("span", { class: "funnel-bar" }, drawn, countOf(count));
  }
}
