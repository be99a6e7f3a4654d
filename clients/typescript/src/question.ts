import { create } from "@bufbuild/protobuf";

import { type DeferredToolCall as WireCall, DeferredToolCall_Kind as WireKind } from "./gen/abeyance/v1/question_pb.js";
import { QuestionSchema, type Question as WireQuestion } from "./gen/abeyance/v1/wait_pb.js";
import { defined, filled, given, toJson } from "./json.js";
import { checkNames, type Names } from "./keys.js";

/**
 * What a wait asks, and so what answers it. The broker checks each answer against it before anything is recorded. Make one with the
 * functions of {@link Question}.
 */
export type Question =
  | {
      /** Any JSON answers it. */
      readonly kind: "free";
      /** Shown to whoever answers: JSON text, kept byte for byte. */
      readonly json: string;
    }
  | {
      /** Tool calls that wait for a decision each, answered by `DeferredToolResults`. The broker always shows them in this form. */
      readonly kind: "toolCalls";
      /** The calls: at most 64, each with an id of its own. */
      readonly calls: readonly ToolCall[];
      /** One answer may leave calls undecided and still settle the wait. It has nothing to do with partial answers. */
      readonly mayLeavePending: boolean;
    }
  | {
      /** The same in the JSON form of Pydantic AI. The broker reads it, and never sends it. */
      readonly kind: "toolCallsJson";
      /** What `TypeAdapter(DeferredToolRequests).dump_json` writes: JSON text. */
      readonly requestsJson: string;
      /** As for `toolCalls`. */
      readonly mayLeavePending: boolean;
    }
  | {
      /** A question whose answer must fit a JSON Schema. */
      readonly kind: "form";
      /** What is asked, for people: up to 4096 characters. May be empty. */
      readonly message: string;
      /** What the answer is about: JSON text, kept byte for byte. */
      readonly payloadJson?: string;
      /** The JSON Schema that an answer must fit: JSON text, kept byte for byte. Absent: any JSON fits. */
      readonly responseSchemaJson?: string;
    }
  | {
      /** A question of a kind that this version of the client does not know. Refused where it is sent. */
      readonly kind: "other";
    };

/** What a tool call waits for: a permission, a result that is made elsewhere, or an answer to a question of the model. */
export type CallKind = "approval" | "external" | "question" | "other";

/** One tool call that waits. */
export interface ToolCall {
  /** The call's id: 1 to 256 characters, unique in its wait. */
  readonly toolCallId: string;
  /** The tool: 1 to 256 characters. */
  readonly toolName: string;
  /** What the call waits for. `other`: something that this version of the client does not know, refused where it is sent. */
  readonly kind: CallKind;
  /** The arguments that the model gave: JSON text, kept byte for byte. An object; a string that holds JSON; or `null`. */
  readonly argsJson: string;
  /** What the worker tells about the call beside its arguments: JSON text of an object, kept byte for byte. */
  readonly metadataJson?: string;
  /** What the call would do, for people who decide it: up to 4096 characters. May be empty. */
  readonly description: string;
}

/** One tool call to wait for, with arguments as a value or as text. */
export interface NewToolCall extends Omit<ToolCall, "argsJson" | "description"> {
  /** The arguments as a value, turned into JSON. Default: `argsJson`. */
  readonly args?: unknown;
  /** The arguments as JSON text, kept byte for byte. Default: `null`. */
  readonly argsJson?: string;
  /** As in {@link ToolCall}. Default: empty. */
  readonly description?: string;
}

/** Makes questions. */
export const Question = {
  /** Any JSON answers it. `value` is shown to whoever answers. */
  free(value: unknown): Question {
    return { kind: "free", json: toJson(value) };
  },

  /** As {@link Question.free}, with JSON text that is kept byte for byte. */
  freeJson(json: string): Question {
    return { kind: "free", json };
  },

  /** Tool calls that wait for a decision each. `mayLeavePending` is for runs that can go on with calls left undecided; default: false. */
  toolCalls(calls: readonly NewToolCall[], options: { mayLeavePending?: boolean } = {}): Question {
    checkNames("the options", options, CALLS_OPTIONS);
    return { kind: "toolCalls", calls: calls.map(toolCall), mayLeavePending: options.mayLeavePending ?? false };
  },

  /** Tool calls in the JSON form of Pydantic AI, which the broker reads. */
  toolCallsJson(requestsJson: string, options: { mayLeavePending?: boolean } = {}): Question {
    checkNames("the options", options, CALLS_OPTIONS);
    return { kind: "toolCallsJson", requestsJson, mayLeavePending: options.mayLeavePending ?? false };
  },

  /**
   * A question whose answer must fit a JSON Schema, draft 2020-12 unless its `$schema` names an older one. A schema that the broker cannot
   * check within bounds opens no wait. Nothing is required; without a schema any JSON fits.
   */
  form(form: { message?: string; payload?: unknown; schema?: unknown }): Question {
    checkNames("the form", form, FORM);
    return {
      kind: "form",
      message: form.message ?? "",
      ...defined({
        payloadJson: form.payload === undefined ? undefined : toJson(form.payload, "payload"),
        responseSchemaJson: form.schema === undefined ? undefined : toJson(form.schema, "schema"),
      }),
    };
  },
};

const CALL: Names<NewToolCall> = {
  toolCallId: true,
  toolName: true,
  kind: true,
  args: true,
  argsJson: true,
  metadataJson: true,
  description: true,
};
const CALLS_OPTIONS = { mayLeavePending: true } as const;
const FORM = { message: true, payload: true, schema: true } as const;

function toolCall(given: NewToolCall): ToolCall {
  checkNames("a tool call", given, CALL);
  const { args, argsJson, description, ...call } = given;
  if (!Object.hasOwn(TO_WIRE_KIND, call.kind)) {
    const of = `kind of tool call ${JSON.stringify(call.toolCallId)}`;
    throw new TypeError(`${of}: ${JSON.stringify(call.kind)} is not known; there are approval, external and question`);
  }
  return {
    ...call,
    argsJson: args === undefined ? (argsJson ?? "null") : toJson(args, "args"),
    description: description ?? "",
  };
}

const TO_WIRE_KIND: Readonly<Record<CallKind, WireKind>> = {
  approval: WireKind.APPROVAL,
  external: WireKind.EXTERNAL,
  question: WireKind.QUESTION,
  other: WireKind.UNSPECIFIED,
};

function kindFromWire(kind: WireKind): CallKind {
  switch (kind) {
    case WireKind.APPROVAL:
      return "approval";
    case WireKind.EXTERNAL:
      return "external";
    case WireKind.QUESTION:
      return "question";
    default:
      return "other";
  }
}

/** The wire's form of a question. */
export function questionToWire(question: Question): WireQuestion {
  switch (question.kind) {
    case "free":
      return create(QuestionSchema, { kind: { case: "freeJson", value: question.json } });
    case "toolCalls": {
      const calls = question.calls.map((call) => ({
        toolCallId: call.toolCallId,
        toolName: call.toolName,
        argsJson: call.argsJson,
        kind: TO_WIRE_KIND[call.kind],
        metadataJson: given(call.metadataJson),
        description: call.description,
      }));
      return create(QuestionSchema, {
        kind: { case: "deferred", value: { calls, mayLeavePending: question.mayLeavePending } },
      });
    }
    case "toolCallsJson": {
      const { requestsJson, mayLeavePending } = question;
      return create(QuestionSchema, { kind: { case: "deferredJson", value: { requestsJson, mayLeavePending } } });
    }
    case "form": {
      const value = {
        message: question.message,
        payloadJson: given(question.payloadJson),
        responseSchemaJson: given(question.responseSchemaJson),
      };
      return create(QuestionSchema, { kind: { case: "form", value } });
    }
    case "other":
      return create(QuestionSchema);
  }
}

/** A question from the wire. */
export function questionFromWire({ kind }: WireQuestion): Question {
  switch (kind.case) {
    case "freeJson":
      return { kind: "free", json: kind.value };
    case "deferred":
      return {
        kind: "toolCalls",
        calls: kind.value.calls.map(callFromWire),
        mayLeavePending: kind.value.mayLeavePending,
      };
    case "deferredJson":
      return {
        kind: "toolCallsJson",
        requestsJson: kind.value.requestsJson,
        mayLeavePending: kind.value.mayLeavePending,
      };
    case "form":
      return {
        kind: "form",
        message: kind.value.message,
        ...defined({
          payloadJson: filled(kind.value.payloadJson),
          responseSchemaJson: filled(kind.value.responseSchemaJson),
        }),
      };
    case undefined:
      return { kind: "other" };
  }
}

function callFromWire(call: WireCall): ToolCall {
  return {
    toolCallId: call.toolCallId,
    toolName: call.toolName,
    kind: kindFromWire(call.kind),
    argsJson: call.argsJson || "null",
    description: call.description,
    ...defined({ metadataJson: filled(call.metadataJson) }),
  };
}
