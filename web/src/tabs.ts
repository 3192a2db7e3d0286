// Tabs as the ARIA practices have them: arrows, Home and End move, one tab is in the order of focus.

import { h } from "./dom.ts";

export interface Tab {
  id: string;
  label: string;
  panel: HTMLElement;
  onShow?(): void;
}

export class Tabs {
  readonly #tabs: readonly Tab[];
  readonly #buttons: HTMLButtonElement[];
  readonly element: HTMLElement;
  #current = "";

  /** The tab that is open. */
  get current(): string {
    return this.#current;
  }

  constructor(label: string, tabs: readonly Tab[]) {
    this.#tabs = tabs;
    this.#buttons = tabs.map((tab, i) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${tab.id}`,
          "aria-controls": `panel-${tab.id}`,
          click: () => this.open(tab.id),
        },
        tabs[i]!.label,
      ),
    );
    for (const tab of tabs) {
      tab.panel.id = `panel-${tab.id}`;
      tab.panel.setAttribute("role", "tabpanel");
      tab.panel.setAttribute("aria-labelledby", `tab-${tab.id}`);
    }
    const move = (event: KeyboardEvent): void => {
      const there = this.#buttons.filter((button) => !button.hidden);
      const now = there.findIndex((button) => button === event.target);
      const last = there.length - 1;
      const next = { ArrowLeft: now > 0 ? now - 1 : last, ArrowRight: now < last ? now + 1 : 0, Home: 0, End: last }[
        event.key
      ];
      if (now < 0 || next === undefined) return;
      event.preventDefault();
      there[next]?.focus();
      there[next]?.click();
    };
    this.element = h("div", { class: "tabs", role: "tablist", "aria-label": label, keydown: move }, ...this.#buttons);
    this.#mark(tabs[0]!.id);
  }

  open(id: string): void {
    this.#mark(id);
    this.#tabs.find((tab) => tab.id === id)?.onShow?.();
  }

  /** Offer a tab under a name, or take it away: null. */
  offer(id: string, label: string | null): void {
    const button = this.#buttons[this.#tabs.findIndex((tab) => tab.id === id)]!;
    button.hidden = label === null;
    button.textContent = label;
  }

  #mark(id: string): void {
    this.#current = id;
    this.#tabs.forEach((tab, i) => {
      const open = tab.id === id;
      tab.panel.hidden = !open;
      this.#buttons[i]?.setAttribute("aria-selected", String(open));
      this.#buttons[i]?.setAttribute("tabindex", open ? "0" : "-1");
    });
  }
}
