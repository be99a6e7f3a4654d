// Waiting that can be given up, without a trace of whoever gave up.

const told = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `listener` when the signal aborts, and gives a function that calls this off. However many calls share a signal, it has one listener
 * of this client: Node warns of more than ten.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined || signal.aborted) {
    return () => {};
  }
  const listeners = told.get(signal) ?? listenOnce(signal);
  const entry = () => listener();
  listeners.add(entry);
  return () => {
    listeners.delete(entry);
    if (listeners.size === 0) {
      signal.removeEventListener("abort", tellAll);
      told.delete(signal);
    }
  };
}

function listenOnce(signal: AbortSignal): Set<() => void> {
  const listeners = new Set<() => void>();
  told.set(signal, listeners);
  signal.addEventListener("abort", tellAll, { once: true });
  return listeners;
}

function tellAll(event: Event): void {
  const signal = event.target as AbortSignal;
  const listeners = told.get(signal);
  told.delete(signal);
  for (const listener of listeners ?? []) {
    listener();
  }
}

/** Waits. Rejects with the signal's reason when it aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      callOff();
      resolve();
    }, ms);
    const callOff = onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal?.reason);
    });
  });
}

/**
 * A promise that many wait for and may give up waiting for. `Promise.race` would keep something of each of them until the promise is
 * settled, which may be months.
 */
export class Shared<T> {
  /** The promise itself. */
  readonly promise: Promise<T>;
  readonly #waiters = new Set<() => void>();
  #settled = false;

  constructor(promise: Promise<T>) {
    this.promise = promise;
    const tell = () => {
      this.#settled = true;
      for (const waiter of this.#waiters) {
        waiter();
      }
    };
    promise.then(tell, tell);
  }

  /** What the promise gives, unless the signal aborts first: then it rejects with the signal's reason. */
  get(signal?: AbortSignal): Promise<T> {
    if (signal === undefined || this.#settled) {
      return this.promise;
    }
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const waiter = () => {
        leave();
        resolve(this.promise);
      };
      const callOff = onAbort(signal, () => {
        leave();
        reject(signal.reason);
      });
      const leave = () => {
        this.#waiters.delete(waiter);
        callOff();
      };
      this.#waiters.add(waiter);
    });
  }
}
