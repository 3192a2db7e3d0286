// Light or dark: as the system says, until the visitor chooses; the choice stays in the browser.

const KEY = "cernis-theme";

export type Theme = "light" | "dark";

const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosenTheme(): Theme | null {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null; // storage may be forbidden
  }
}

function findTheme(): Theme {
  return chosenTheme() ?? (system.matches ? "dark" : "light");
}

/** Give a page without a button the theme that was chosen. */
export function applyTheme(): void {
  document.documentElement.dataset["theme"] = findTheme();
}

/** Let a button switch the theme; call `onChange` whenever it changes. */
export function connectTheme(button: HTMLButtonElement, onChange: () => void): void {
  const apply = (): void => {
    applyTheme();
    button.setAttribute("aria-pressed", String(findTheme() === "dark"));
    onChange();
  };
  button.addEventListener("click", () => {
    const next: Theme = document.documentElement.dataset["theme"] === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // the choice lasts as long as the page
    }
    document.documentElement.dataset["theme"] = next;
    button.setAttribute("aria-pressed", String(next === "dark"));
    onChange();
  });
  system.addEventListener("change", apply);
  apply();
}
