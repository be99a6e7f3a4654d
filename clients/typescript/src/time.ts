import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

import { ProtocolError } from "./errors.js";

/** The longest time that the wire's form allows: some 10 000 years. */
const LONGEST_MS = 315_576_000_000_000;

/** The wire's form of a length of time in milliseconds, kept to the nanosecond. Throws a `RangeError` for what is no length. */
export function toDuration(ms: number): Duration {
  if (!(ms >= 0 && ms <= LONGEST_MS)) {
    throw new RangeError(`${ms} is no length of time in milliseconds`);
  }
  const seconds = Math.trunc(ms / 1000);
  const nanos = Math.round((ms - seconds * 1000) * 1e6);
  // What is rounded up to a whole second must be one.
  return create(DurationSchema, nanos < 1e9 ? { seconds: BigInt(seconds), nanos } : { seconds: BigInt(seconds + 1) });
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

/**
 * The period of a stream's signs of life, in milliseconds: between 10 ms and an hour, whatever was named, since no timer of Node is longer than
 * 24 days. `fallback` where none was.
 */
export function aliveInterval(named: Duration | undefined, fallback: number): number {
  const ms = length(named);
  return ms === 0 ? fallback : Math.min(Math.max(ms, 10), 3_600_000);
}
