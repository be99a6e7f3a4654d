import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";

import { onAbort, sleep } from "./abort.js";
import { jittered } from "./backoff.js";
import { isPassing, type Refusal, Refused, Stopped, Unavailable, unreached } from "./errors.js";
import { Cut, unary } from "./grpc.js";
import { type Link, Links } from "./links.js";
import { address, complete, type FullSettings, type Settings } from "./settings.js";

/** The longest time that a broker may keep a client from trying again. */
const LONGEST_RETRY_DELAY_MS = 600_000;
/** The try that restraint begins with: its delay is up to 8 s. */
const RESTRAINED_ATTEMPT = 5;
/** How long a warning stands before the same cause is worth another. */
const WARNING_MS = 3_600_000;

/** A stream that lived for this long makes the next cut a first one. Shorter ones are a broker, or a proxy, in trouble. */
export const HEALTHY_MS = 5_000;

/** How long a caller who gave up, or who closes the client, waits for waits to be withdrawn, in milliseconds. */
export const WITHDRAWAL_MS = 5_000;

/** How a call is repeated. */
export interface Repeat {
  /** For how long, in milliseconds; `Infinity` for ever. Default: the client's patience. */
  readonly patienceMs?: number;
  /** Ends the call and the repeating. */
  readonly signal?: AbortSignal | undefined;
  /** A closed client makes the call for as long as it still has its connections. Default: false. */
  readonly lastWord?: boolean;
}

/** What bounds a repeat. */
interface RetryLimits {
  /** When the first try began, by `performance.now()`. Default: now. */
  readonly begun?: number;
  /** For how long to try from then on, in milliseconds. Default: for ever, as for a wait that is attached; nobody is warned then. */
  readonly patienceMs?: number;
  /** Ends the waiting. */
  readonly signal?: AbortSignal | undefined;
  /** The connection of the stream that was cut. All its streams rest together when the server asks for restraint. */
  readonly link?: Link;
}

/** A way to stop something that is under way. */
export interface Stop {
  /** Aborts when it is to stop. */
  readonly signal: AbortSignal;
  /** Stops it. */
  stop(): void;
  /** No longer stops it with the caller's signal. */
  unlink(): void;
  /** There is nothing to stop any more. */
  release(): void;
}

/** What all parts of a client share: its connections, its patience, and when it stops. */
export class Core {
  readonly settings: FullSettings;
  readonly links: Links;
  readonly #stoppers = new Set<() => void>();
  readonly #unfinished = new Set<Promise<unknown>>();
  #closed = false;
  #warned = Number.NEGATIVE_INFINITY;
  #unreachable = false;
  readonly #address: string;

  constructor(target: string, settings: Settings) {
    this.settings = complete(settings);
    this.#address = address(target);
    this.links = new Links(target, this.settings);
  }

  /** Makes a call that has one answer and repeats it until it succeeds, is refused, or patience has passed at the end of a try. */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    repeat: Repeat = {},
  ): Promise<MessageShape<O>> {
    const stop = repeat.lastWord ? undefined : this.stoppable(repeat.signal);
    const signal = stop?.signal ?? repeat.signal;
    try {
      return await this.patiently(
        async () => {
          const link = this.links.calls;
          const { client } = link;
          const deadline = new Date(Date.now() + this.settings.attemptTimeoutMs);
          try {
            return await unary(client, method, request, { deadline, signal });
          } catch (error) {
            if (error instanceof Cut && error.deadConnection) {
              link.renew(client);
            }
            throw error;
          }
        },
        { ...repeat, signal },
      );
    } finally {
      stop?.release();
    }
  }

  /** Tries until a try succeeds, is refused, or patience has passed at the end of one. A try fails with a {@link Cut}. */
  async patiently<T>(tryOnce: () => Promise<T>, repeat: Repeat): Promise<T> {
    const begun = performance.now();
    const patienceMs = repeat.patienceMs ?? this.settings.patienceMs;
    for (let attempt = 0; ; ) {
      try {
        const result = await tryOnce();
        this.reached();
        return result;
      } catch (error) {
        if (!(error instanceof Cut)) {
          throw error;
        }
        attempt = await this.retry(error, attempt, { begun, patienceMs, signal: repeat.signal });
      }
    }
  }

  /**
   * Waits until it is time to try again after a cut, and gives the number of the try after that. Throws what was said if it is a clear refusal,
   * or if no time is left.
   */
  async retry(cut: Cut, attempt: number, limits: RetryLimits): Promise<number> {
    const { refusal } = cut;
    const { begun = performance.now(), patienceMs = Number.POSITIVE_INFINITY, signal, link } = limits;
    const triedMs = performance.now() - begun;
    const leftMs = patienceMs - triedMs;
    const asked = Math.min(refusal.retryDelayMs ?? 0, LONGEST_RETRY_DELAY_MS);
    if (cut.planned) {
      await sleep(asked, signal);
      return attempt;
    }
    if (!isPassing(refusal)) {
      throw new Refused(refusal);
    }
    if (leftMs <= 0) {
      throw new Unavailable(refusal, this.#address, triedMs);
    }
    if (patienceMs < Number.POSITIVE_INFINITY) {
      this.#warnOnce(refusal);
    }
    const n = this.#heed(refusal, attempt);
    // The last try is made when patience ends, not given up because its delay would be longer.
    const delay = Math.min(leftMs, jittered(this.settings.backoff, n) + asked);
    this.settings.logger.debug(`trying again in ${Math.round(delay)} ms: ${refusal.message} (${refusal.code})`);
    if (link !== undefined && isScolding(refusal)) {
      link.restUntil = Math.max(link.restUntil, performance.now() + delay);
    }
    await sleep(delay, signal);
    // A server scolds a connection, not a stream: the hastiest of many streams must not make the next one for all.
    while (link !== undefined && link.restUntil > performance.now()) {
      await sleep(link.restUntil - performance.now(), signal);
    }
    return n + 1;
  }

  /** A call succeeded: when the broker is gone again, that is worth a warning again. */
  reached(): void {
    this.#unreachable = false;
  }

  /** Says at once that a call does not get through: it may be silent for all of its patience. Restraint has a warning of its own. */
  #warnOnce(refusal: Refusal): void {
    if (!this.#unreachable && !isScolding(refusal)) {
      this.settings.logger.warn(`no answer from the broker at ${this.#address}, trying again: ${unreached(refusal)}`);
    }
    this.#unreachable = true;
  }

  /** The number of the next try after a stream that began at `begun` was cut. One that was cut for asking too much proves nothing. */
  afterCut(refusal: Refusal, attempt: number, begun: number): number {
    return performance.now() - begun >= HEALTHY_MS && !isScolding(refusal) ? 0 : attempt;
  }

  /** The number of the next try after `refusal`: a server that asks for restraint is heard, and its words are passed on, once. */
  #heed(refusal: Refusal, attempt: number): number {
    if (!isScolding(refusal)) {
      return attempt;
    }
    if (performance.now() - this.#warned >= WARNING_MS) {
      this.#warned = performance.now();
      const said = `${refusal.message} (${refusal.reason ?? refusal.code})`;
      this.settings.logger.warn(`the broker, or a proxy before it, asks for restraint; slowing down: ${said}`);
    }
    return Math.max(attempt, RESTRAINED_ATTEMPT);
  }

  /** Something that stops with `signal`, and when the client is closed. It must be released, or the client keeps it. */
  stoppable(signal?: AbortSignal): Stop {
    const controller = new AbortController();
    const follow = () => controller.abort(signal?.reason);
    const unlink = onAbort(signal, follow);
    const stop = () => controller.abort(new Stopped("the client was closed, or the wait was detached from"));
    if (signal?.aborted) {
      follow();
    }
    if (this.#closed) {
      stop();
    }
    this.#stoppers.add(stop);
    const release = () => {
      unlink();
      this.#stoppers.delete(stop);
    };
    return { signal: controller.signal, stop, unlink, release };
  }

  /** Keeps the connections of a client that is being closed until `promise` is settled, for a while. */
  async beforeClosing<T>(promise: Promise<T>): Promise<T> {
    this.#unfinished.add(promise);
    try {
      return await promise;
    } finally {
      this.#unfinished.delete(promise);
    }
  }

  /** Stops all that is under way, waits until what must be said is said, and closes the connections. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const stop of this.#stoppers) {
      stop();
    }
    const limit = new AbortController();
    await Promise.race([
      this.#finished().finally(() => limit.abort()),
      sleep(WITHDRAWAL_MS, limit.signal).catch(() => {}),
    ]);
    this.links.close();
  }

  async #finished(): Promise<void> {
    while (this.#unfinished.size > 0) {
      await Promise.allSettled(this.#unfinished);
    }
  }
}

// A message larger than we take, which grpc-js itself finds: often enough no message at all but a page of a proxy.
const TOO_LARGE = /^Received message larger than max/;

/** Whether a cut says that we do too much. grpc-js reports a GOAWAY with `ENHANCE_YOUR_CALM` so, too. */
function isScolding(refusal: Refusal): boolean {
  return refusal.code === "RESOURCE_EXHAUSTED" && !TOO_LARGE.test(refusal.message);
}
