// Requests that follow a slider or a zoom: one is under way at a time, and after it the latest wish.
// Wishes in between are dropped, so that the server never works through a queue of old views.

export class Latest<Wish> {
  readonly #fulfil: (wish: Wish) => Promise<void>;
  #waiting: { wish: Wish } | null = null;
  #busy = false;

  constructor(fulfil: (wish: Wish) => Promise<void>) {
    this.#fulfil = fulfil;
  }

  async ask(wish: Wish): Promise<void> {
    this.#waiting = { wish };
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#waiting !== null) {
        const next: { wish: Wish } = this.#waiting;
        this.#waiting = null;
        await this.#fulfil(next.wish);
      }
    } finally {
      this.#busy = false;
    }
  }
}
