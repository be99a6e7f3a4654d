import type { Core } from "./core.js";
import type { Attached, Beginning } from "./follow.js";
import { beginPatiently, Follower } from "./follow.js";
import { type SignalOption, signalOnly } from "./options.js";
import type { Outcome } from "./outcome.js";
import type { Decided, Opened } from "./types.js";

/**
 * A wait that is attached to, through cuts and restarts of the broker, until its outcome. It attaches again by itself: with full jitter after a
 * cut, at once after the planned end of a stream. A stream on which no sign of life arrives for twice the period that the broker named is dead
 * and is given up.
 *
 * It keeps the process alive until the outcome. `detach`, or the end of an `await using` block, lets go of it and nothing more: the wait stays as
 * it is. To withdraw it, call `AbeyanceClient.cancel`. Neither `util.inspect` nor `JSON.stringify` shows the token.
 */
export class Wait implements AsyncDisposable {
  readonly #follower: Follower;
  /** What the wait was when it was first attached to. */
  readonly opened: Opened;

  /** Made by `AbeyanceClient.wait` and `attach`. */
  constructor(opened: Opened, follower: Follower) {
    this.opened = opened;
    this.#follower = follower;
  }

  /** The wait's token. A secret: whoever holds it can answer. */
  get token(): string {
    return this.opened.token;
  }

  /** The wait's public name. */
  get waitId(): string {
    return this.opened.waitId;
  }

  /**
   * The outcome, once it is there. May be called any number of times, and gives the same each time. A broker that cannot be reached is no error
   * here: the wait goes on.
   *
   * Rejects with `Refused` if the broker no longer knows the wait, `ProtocolError`, `Stopped` after `detach` or the client's `close`, and with
   * the signal's reason; the wait stays attached then.
   */
  async outcome(options: SignalOption = {}): Promise<Outcome> {
    return this.#follower.outcome.get(signalOnly(options).signal);
  }

  /** Whether a stream is attached now. */
  get attached(): boolean {
    return this.#follower.attached;
  }

  /** How many times the wait was attached to again, after a cut or a planned end. */
  get reattached(): number {
    return this.#follower.reattached;
  }

  /** The time left until the wait expires in milliseconds, after what the broker told last. `undefined` before it did. */
  get timeLeftMs(): number | undefined {
    const told = this.#follower.timeLeft;
    return told && Math.max(0, told.ms - (performance.now() - told.at));
  }

  /**
   * Which of the wait's tool calls are decided so far. `undefined` before the broker tells of a decision, and for other questions. What is decided
   * last may be told by the outcome alone.
   */
  get decided(): Decided | undefined {
    return this.#follower.decided;
  }

  /** Each change of `decided`, beginning with what is known now, until the wait has its outcome or is detached from. */
  async *progress(): AsyncGenerator<Decided, void, undefined> {
    let told: Decided | undefined;
    for (;;) {
      const { news, over } = this.#follower;
      if (this.decided !== undefined && this.decided !== told) {
        told = this.decided;
        yield told;
      } else if (over) {
        return;
      } else {
        await news;
      }
    }
  }

  /** Lets go of the wait, which stays as it is. `outcome` rejects with `Stopped` from then on, unless the outcome was there before. */
  async detach(): Promise<void> {
    await this.#follower.stop();
  }

  /** As {@link Wait.detach}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.detach();
  }
}

/** Begins and stays attached. The signal ends the beginning alone. */
export async function attach(core: Core, beginning: Beginning, signal: AbortSignal | undefined): Promise<Wait> {
  const stop = core.stoppable(signal);
  let attached: Attached;
  try {
    attached = await beginPatiently(core, beginning, stop.signal);
  } catch (error) {
    stop.release();
    throw error;
  }
  stop.unlink();
  return new Wait(attached.opened, new Follower(core, attached, stop));
}
