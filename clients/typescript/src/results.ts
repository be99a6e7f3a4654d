import { create } from "@bufbuild/protobuf";

import {
  DeferredToolResultsSchema,
  ToolApprovalSchema,
  ToolCallResultSchema,
  type ToolApproval as WireApproval,
  type ToolCallResult as WireResult,
  type DeferredToolResults as WireResults,
} from "./gen/abeyance/v1/results_pb.js";
import { defined, filled, given, toJson } from "./json.js";
import { resultsToJson } from "./results-json.js";

/** The decision on a call that waits for an approval. A tool may run after `approved` and after nothing else. */
export type Approval =
  | {
      /** The tool may run. */
      readonly kind: "approved";
      /** With these arguments instead of the model's: JSON text of an object, byte for byte. Absent: with the model's. */
      readonly overrideArgsJson?: string;
    }
  | {
      /** The tool must not run. */
      readonly kind: "denied";
      /** What the model is told. Absent: `The tool call was denied.` */
      readonly message?: string;
    }
  | {
      /** A decision that this version of the client does not know. No approval. Refused where it is sent. */
      readonly kind: "other";
    };

/** The result of a call that was made elsewhere, or the answer to a question. */
export type CallResult =
  | {
      /** The value that the call returned. */
      readonly kind: "value";
      /** JSON text, byte for byte. */
      readonly json: string;
    }
  | {
      /** A value and what goes with it. */
      readonly kind: "return";
      /** The value: JSON text, byte for byte. */
      readonly returnValueJson: string;
      /** More for the model to see, outside the result itself: JSON text of a string, or of an array as Pydantic AI's user content. */
      readonly contentJson?: string;
      /** For the application alone, never shown to the model: JSON text. */
      readonly metadataJson?: string;
      /** Tools that the result makes known, where the library supports that. */
      readonly tools: readonly string[];
      /** Which objects of the value may become files again: JSON text, as Pydantic AI itself wrote it. */
      readonly contentFileDigestsJson?: string;
    }
  | {
      /** The call failed. */
      readonly kind: "failed";
      /** What the model is told. */
      readonly message: string;
    }
  | {
      /** The model is to try again. */
      readonly kind: "retry";
      /** What it is told. */
      readonly message: string;
    }
  | {
      /** A result that this version of the client does not know. No success. Refused where it is sent. */
      readonly kind: "other";
    };

/**
 * Decisions on tool calls: an answer to such a question, and what a worker goes on with.
 *
 * ```ts
 * new DeferredToolResults()
 *   .approve("call_1")
 *   .approve("call_2", { amount: 100 })
 *   .deny("call_3", "Over the limit.")
 *   .value("call_4", { status: "shipped" })
 * ```
 */
export class DeferredToolResults {
  /** Decisions on calls that wait for an approval, by call id. */
  readonly approvals = new Map<string, Approval>();
  /** Results of external calls and answers to questions, by call id. */
  readonly calls = new Map<string, CallResult>();
  /** What the resolver tells the tool about a call, by call id: JSON text of an object each, kept byte for byte. */
  readonly metadataJson = new Map<string, string>();
  /**
   * Who decided a call, by call id, as the resolver claims: up to 256 characters each. Not part of the decision: an equal decision by
   * somebody else is a repeat.
   */
  readonly answeredBy = new Map<string, string>();

  /** Whether the tool of this call may run. */
  isApproved(toolCallId: string): boolean {
    return this.approvals.get(toolCallId)?.kind === "approved";
  }

  /**
   * Lets the tool run, with `overrideArgs` instead of the model's arguments where they are given. Throws a `TypeError` for arguments that JSON
   * cannot say whole, such as `NaN` or a property that is `undefined`.
   */
  approve(toolCallId: string, overrideArgs?: Readonly<Record<string, unknown>>): this {
    const overrideArgsJson = overrideArgs === undefined ? undefined : toJson(overrideArgs, "overrideArgs");
    return this.approval(toolCallId, { kind: "approved", ...defined({ overrideArgsJson }) });
  }

  /** Keeps the tool from running; `message` is what the model is told. */
  deny(toolCallId: string, message?: string): this {
    return this.approval(toolCallId, { kind: "denied", ...defined({ message }) });
  }

  /** Decides a call that waits for an approval. */
  approval(toolCallId: string, approval: Approval): this {
    this.approvals.set(toolCallId, approval);
    return this;
  }

  /** The value that the call returned, or the answer to the question. Always data, whatever it looks like. */
  value(toolCallId: string, value: unknown): this {
    return this.result(toolCallId, { kind: "value", json: toJson(value) });
  }

  /** The call failed; `message` is what the model is told. */
  failed(toolCallId: string, message: string): this {
    return this.result(toolCallId, { kind: "failed", message });
  }

  /** The call cannot be made so, and the model is to try again; `message` is what it is told. */
  retry(toolCallId: string, message: string): this {
    return this.result(toolCallId, { kind: "retry", message });
  }

  /** The result of an external call, or the answer to a question, of any kind. */
  result(toolCallId: string, result: CallResult): this {
    this.calls.set(toolCallId, result);
    return this;
  }

  /**
   * What `JSON.stringify` writes: the JSON form, as in `resultsJson` and `payloadJson`. Throws a `TypeError` where `JSON.parse` would change a
   * number of the exact text, or knows no such decision; take the exact text of `resultsJson` or `payloadJson` then.
   */
  toJSON(): Record<string, unknown> {
    return resultsToJson(this);
  }

  /** A copy without a call; `undefined` if that call is not decided here. */
  without(toolCallId: string): DeferredToolResults | undefined {
    if (!this.approvals.has(toolCallId) && !this.calls.has(toolCallId)) {
      return undefined;
    }
    const rest = new DeferredToolResults();
    for (const name of ["approvals", "calls", "metadataJson", "answeredBy"] as const) {
      const to: Map<string, unknown> = rest[name];
      for (const [id, value] of this[name]) {
        if (id !== toolCallId) {
          to.set(id, value);
        }
      }
    }
    return rest;
  }
}

/** The wire's form of decisions. */
export function resultsToWire(results: DeferredToolResults): WireResults {
  const message = create(DeferredToolResultsSchema);
  // Not by assignment: a call may be named `__proto__`.
  message.approvals = Object.fromEntries(Array.from(results.approvals, ([id, it]) => [id, approvalToWire(it)]));
  message.calls = Object.fromEntries(Array.from(results.calls, ([id, it]) => [id, resultToWire(it)]));
  message.metadataJson = Object.fromEntries(results.metadataJson);
  message.answeredBy = Object.fromEntries(results.answeredBy);
  return message;
}

/** Decisions from the wire. */
export function resultsFromWire(wire: WireResults): DeferredToolResults {
  const results = new DeferredToolResults();
  for (const [id, approval] of Object.entries(wire.approvals)) {
    results.approval(id, approvalFromWire(approval));
  }
  for (const [id, result] of Object.entries(wire.calls)) {
    results.result(id, resultFromWire(result));
  }
  for (const [id, json] of Object.entries(wire.metadataJson)) {
    results.metadataJson.set(id, json);
  }
  for (const [id, who] of Object.entries(wire.answeredBy)) {
    results.answeredBy.set(id, who);
  }
  return results;
}

function approvalToWire(approval: Approval): WireApproval {
  switch (approval.kind) {
    case "approved":
      return create(ToolApprovalSchema, {
        decision: { case: "approved", value: { overrideArgsJson: given(approval.overrideArgsJson) } },
      });
    case "denied": {
      const value = defined({ message: approval.message });
      return create(ToolApprovalSchema, { decision: { case: "denied", value } });
    }
    case "other":
      return create(ToolApprovalSchema);
  }
}

function approvalFromWire({ decision }: WireApproval): Approval {
  switch (decision.case) {
    case "approved":
      return { kind: "approved", ...defined({ overrideArgsJson: filled(decision.value.overrideArgsJson) }) };
    case "denied":
      return { kind: "denied", ...defined({ message: decision.value.message }) };
    case undefined:
      return { kind: "other" };
  }
}

function resultToWire(result: CallResult): WireResult {
  switch (result.kind) {
    case "value":
      return create(ToolCallResultSchema, { result: { case: "returnValueJson", value: result.json } });
    case "return": {
      const value = {
        returnValueJson: result.returnValueJson,
        contentJson: given(result.contentJson),
        metadataJson: given(result.metadataJson),
        tools: [...result.tools],
        contentFileDigestsJson: given(result.contentFileDigestsJson),
      };
      return create(ToolCallResultSchema, { result: { case: "toolReturn", value } });
    }
    case "failed":
      return create(ToolCallResultSchema, { result: { case: "failed", value: { message: result.message } } });
    case "retry":
      return create(ToolCallResultSchema, { result: { case: "retry", value: { message: result.message } } });
    case "other":
      return create(ToolCallResultSchema);
  }
}

function resultFromWire({ result }: WireResult): CallResult {
  switch (result.case) {
    case "returnValueJson":
      return { kind: "value", json: result.value };
    case "toolReturn":
      return {
        kind: "return",
        returnValueJson: result.value.returnValueJson,
        tools: result.value.tools,
        ...defined({
          contentJson: filled(result.value.contentJson),
          metadataJson: filled(result.value.metadataJson),
          contentFileDigestsJson: filled(result.value.contentFileDigestsJson),
        }),
      };
    case "failed":
      return { kind: "failed", message: result.value.message };
    case "retry":
      return { kind: "retry", message: result.value.message };
    case undefined:
      return { kind: "other" };
  }
}
