/**
 * Exponential backoff with full jitter: the n-th try waits a random time between nothing and `baseMs * 2^n`, at most `capMs`.
 *
 * Full jitter, since all clients of a broker lose their streams in the same moment, and must not come back in one.
 */
export interface Backoff {
  /** The bound of the first delay, in milliseconds. Default: 250. */
  readonly baseMs: number;
  /** The bound of every delay, in milliseconds. Default: 30 000. */
  readonly capMs: number;
}

/** What the delay before try number `attempt` (the first is 0) stays below, in milliseconds. */
export function bound(backoff: Backoff, attempt: number): number {
  return Math.min(backoff.capMs, backoff.baseMs * 2 ** attempt);
}

/** The delay before try number `attempt`, in milliseconds. */
export function jittered(backoff: Backoff, attempt: number): number {
  return Math.random() * bound(backoff, attempt);
}
