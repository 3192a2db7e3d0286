// Requests that follow a slider or a zoom: one is under way at a time, and after it the latest wish.
// Wishes in between are dropped, so that the server never works through a queue of old views.

export class Latest<Wish> {
  readonly #fulfil: (wish: Wish) => Promise<void>;
  readonly #onBusy: (busy: boolean) => void;
  #waiting: { wish: Wish } | null = null;
  #busy = false;

  constructor(fulfil: (wish: Wish) => Promise<void>, onBusy: (busy: boolean) => void = () => undefined) {
    this.#fulfil = fulfil;
    this.#onBusy = onBusy;
  }

  async ask(wish: Wish): Promise<void> {
    this.#waiting = { wish };
    if (this.#busy) return;
    this.#busy = true;
    this.#onBusy(true);
    try {
      while (this.#waiting !== null) {
        const next: { wish: Wish } = this.#waiting;
        this.#waiting = null;
        await this.#fulfil(next.wish);
      }
    } finally {
      this.#busy = false;
      this.#onBusy(false);
    }
  }
}
