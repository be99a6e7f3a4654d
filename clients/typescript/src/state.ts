import { ProtocolError } from "./errors.js";
import { Wait_State as Wire } from "./gen/abeyance/v1/wait_pb.js";

/** What has become of a wait. It changes once, from `pending` to one of the others, and never again. */
export type State = "pending" | "resolved" | "failed" | "expired" | "cancelled";

const TO_WIRE: Readonly<Record<State, Wire>> = {
  pending: Wire.PENDING,
  resolved: Wire.RESOLVED,
  failed: Wire.FAILED,
  expired: Wire.EXPIRED,
  cancelled: Wire.CANCELLED,
};

const FROM_WIRE = new Map(Object.entries(TO_WIRE).map(([state, wire]) => [wire, state as State]));

/** The wire's form of a state. */
export function stateToWire(state: State): Wire {
  return TO_WIRE[state];
}

/** A state from the wire. */
export function stateFromWire(wire: Wire): State {
  const state = FROM_WIRE.get(wire);
  if (state === undefined) {
    throw new ProtocolError(`unknown state ${wire} of a wait`);
  }
  return state;
}
