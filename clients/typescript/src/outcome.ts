import {
  type ExpiryCause,
  ProtocolError,
  WaitCancelled,
  WaitExpired,
  WaitFailed,
  type WaitUnanswered,
} from "./errors.js";
import { Expired_Cause, type Outcome as WireOutcome } from "./gen/abeyance/v1/wait_pb.js";
import { filled } from "./json.js";
import { type DeferredToolResults, resultsFromWire } from "./results.js";
import { stateFromWire } from "./state.js";
import { time } from "./time.js";

/** What every outcome has. */
abstract class Ended {
  /** The wait that ended. */
  readonly waitId: string;
  /** When the outcome was recorded, by the broker's clock. */
  readonly settleTime: Date;
  /**
   * Of a wait that asked about tool calls, however it ended: the results that a run goes on with. Where it ended without an answer, the
   * calls that were decided keep their decision, and every other is denied or failed. `undefined` for other waits.
   */
  readonly results: DeferredToolResults | undefined;
  /**
   * `results` in the JSON form of Pydantic AI's `DeferredToolResults`. Each value, override and metadata in it is byte for byte its sender's.
   * `undefined` for other waits.
   */
  readonly resultsJson: string | undefined;

  constructor(wire: WireOutcome) {
    this.waitId = wire.waitId;
    this.settleTime = time("outcome.settle_time", wire.settleTime);
    this.results = wire.results && resultsFromWire(wire.results);
    this.resultsJson = filled(wire.resultsJson);
  }
}

/** Somebody answered. */
export class Resolved extends Ended {
  readonly state = "resolved";
  /**
   * The answer: JSON text. To a free question and to a form, byte for byte as it was sent. For tool calls the JSON form of `results`.
   */
  readonly payloadJson: string;
  /** Who answered, as the resolver claimed. `undefined` if it did not say, and for tool calls: there `results` say it. */
  readonly answeredBy: string | undefined;

  constructor(wire: WireOutcome, payloadJson: string, answeredBy: string) {
    super(wire);
    this.payloadJson = this.resultsJson ?? payloadJson;
    if (this.payloadJson === "") {
      throw new ProtocolError("the wait is resolved, and there is no answer");
    }
    this.answeredBy = filled(answeredBy);
  }

  /**
   * The answer as a value: `JSON.parse` of `payloadJson`, anew each time. Numbers become doubles: 9007199254740993 becomes another one, and
   * `payloadJson` has it as it was sent.
   */
  get value(): unknown {
    return JSON.parse(this.payloadJson);
  }
}

/** The answering side ended the wait without an answer. */
export class Failed extends Ended {
  readonly state = "failed";
  /** Why, in the resolver's words. May be empty. */
  readonly reason: string;
  /** The resolver's name for the kind of failure. */
  readonly errorType: string | undefined;
  /** More about it: JSON text, byte for byte. */
  readonly detailsJson: string | undefined;

  constructor(wire: WireOutcome, failed: { reason: string; errorType: string; detailsJson: string }) {
    super(wire);
    this.reason = failed.reason;
    this.errorType = filled(failed.errorType);
    this.detailsJson = filled(failed.detailsJson);
  }
}

/** The wait's time ran out. */
export class Expired extends Ended {
  readonly state = "expired";
  /** Which clock ran out. */
  readonly cause: ExpiryCause;
  /** The same for people. */
  readonly reason: string;

  constructor(wire: WireOutcome, expired: { cause: Expired_Cause; reason: string }) {
    super(wire);
    this.cause =
      expired.cause === Expired_Cause.TIMEOUT
        ? "timeout"
        : expired.cause === Expired_Cause.HEARTBEAT
          ? "heartbeat"
          : "other";
    this.reason = expired.reason;
  }
}

/** The worker's side withdrew the wait. */
export class Cancelled extends Ended {
  readonly state = "cancelled";
  /** Why, in the worker's words. May be empty. */
  readonly reason: string;

  constructor(wire: WireOutcome, cancelled: { reason: string }) {
    super(wire);
    this.reason = cancelled.reason;
  }
}

/**
 * The one outcome of a wait. Once recorded it never changes. Outcomes are delivered at least once and to everybody attached: act on one
 * idempotently, by its wait id. `state` tells which of the four it is.
 */
export type Outcome = Resolved | Failed | Expired | Cancelled;

/** An outcome that this client does not understand is an error and never an answer. */
export function outcomeFromWire(wire: WireOutcome): Outcome {
  const outcome = known(wire);
  if (stateFromWire(wire.state) !== outcome.state) {
    throw new ProtocolError("an outcome whose state is another");
  }
  return outcome;
}

function known(wire: WireOutcome): Outcome {
  const { case: arm, value } = wire.result;
  switch (arm) {
    case "resolved":
      return new Resolved(wire, value.payloadJson, value.answeredBy);
    case "failed":
      return new Failed(wire, value);
    case "expired":
      return new Expired(wire, value);
    case "cancelled":
      return new Cancelled(wire, value);
    default:
      throw new ProtocolError("the wait ended in a way that this version of the client does not know");
  }
}

/** Why an outcome is no answer; `undefined` if it is one. Nothing but an answer is ever taken for one. */
export function unanswered(outcome: Outcome): WaitUnanswered | undefined {
  switch (outcome.state) {
    case "resolved":
      return undefined;
    case "failed":
      return new WaitFailed(outcome.waitId, outcome.reason, outcome.errorType, outcome.detailsJson);
    case "expired":
      return new WaitExpired(outcome.waitId, outcome.reason, outcome.cause);
    case "cancelled":
      return new WaitCancelled(outcome.waitId, outcome.reason);
  }
}
