import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

import { ProtocolError } from "./errors.js";

/** The wire's form of a length of time in milliseconds, kept to the nanosecond. Throws a `RangeError` for what is no length. */
export function toDuration(ms: number): Duration {
  if (!Number.isFinite(ms)) {
    throw new RangeError(`${ms} is no length of time in milliseconds`);
  }
  const seconds = Math.trunc(ms / 1000);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) });
}

/** A length of time from the wire, in milliseconds. Absent or negative counts as none. */
export function length(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Math.max(0, Number(duration.seconds) * 1000 + duration.nanos / 1e6);
}

/** A point in time from the wire. */
export function optionalTime(timestamp: Timestamp | undefined): Date | undefined {
  return timestamp && timestampDate(timestamp);
}

/** A point in time that the contract promises. */
export function time(field: string, timestamp: Timestamp | undefined): Date {
  const date = optionalTime(timestamp);
  if (date === undefined) {
    throw new ProtocolError(`${field} is missing`);
  }
  return date;
}

/** Waits. Rejects with the signal's reason when it aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** What `promise` gives, unless the signal aborts first. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) {
    return promise;
  }
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    signal.throwIfAborted();
    abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
