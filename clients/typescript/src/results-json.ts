import type { Approval, CallResult, DeferredToolResults } from "./results.js";

/** Decisions as an object whose JSON is their JSON form. Throws a `TypeError` where that would be another decision. */
export function resultsToJson(results: DeferredToolResults): Record<string, unknown> {
  return {
    calls: section("calls", results.calls, callResult),
    approvals: section("approvals", results.approvals, approval),
    metadata: section("metadataJson", results.metadataJson, parsed),
    answered_by: section("answeredBy", results.answeredBy, (who) => who),
  };
}

function section<T>(name: string, decisions: ReadonlyMap<string, T>, toJson: (it: T, place: string) => unknown) {
  // Not by assignment: a call may be named `__proto__`.
  return Object.fromEntries(
    Array.from(decisions, ([id, it]) => [id, toJson(it, `${name} of call ${JSON.stringify(id)}`)]),
  );
}

function approval(it: Approval, place: string): unknown {
  switch (it.kind) {
    case "approved":
      return it.overrideArgsJson === undefined
        ? { kind: "tool-approved" }
        : { kind: "tool-approved", override_args: parsed(it.overrideArgsJson, place) };
    case "denied":
      return it.message === undefined ? { kind: "tool-denied" } : { kind: "tool-denied", message: it.message };
    case "other":
      throw new TypeError(
        `${place}: a decision that this version does not know has no JSON form here; see resultsJson`,
      );
  }
}

function callResult(it: CallResult, place: string): unknown {
  const part = (json: string | undefined) => (json === undefined ? undefined : parsed(json, place));
  switch (it.kind) {
    case "value":
      return framed(parsed(it.json, place), place);
    case "return":
      // What is `undefined` here is left out of the text.
      return {
        kind: "tool-return",
        return_value: parsed(it.returnValueJson, place),
        content: part(it.contentJson),
        metadata: part(it.metadataJson),
        tools: it.tools.length === 0 ? undefined : it.tools,
        content_file_digests: part(it.contentFileDigestsJson),
      };
    case "failed":
      return { kind: "tool-failed", message: it.message };
    case "retry":
      return { kind: "model-retry", message: it.message };
    case "other":
      throw new TypeError(`${place}: a result that this version does not know has no JSON form here; see resultsJson`);
  }
}

const RESULTS = new Set<unknown>([
  "tool-return",
  "tool-failed",
  "model-retry",
  "retry-prompt",
  "tool-approved",
  "tool-denied",
]);
const FILES = new Set<unknown>(["image-url", "audio-url", "document-url", "video-url"]);

/** Data that looks like one of the other results gets a frame, as the broker gives it one, so that it stays data. */
function framed(value: unknown, place: string): unknown {
  if (!isObject(value) || !(Object.hasOwn(value, "kind") || Object.hasOwn(value, "part_kind"))) {
    return value;
  }
  // Binary data undoes a frame, and needs none unless it is within what looks like a result.
  if (holds(value, (it) => it.kind === "binary" && typeof it.data === "string")) {
    if (RESULTS.has(value.kind) || RESULTS.has(value.part_kind)) {
      throw new TypeError(`${place} is data that looks like another result in JSON; send it as results`);
    }
    return value;
  }
  const frame = { kind: "tool-return", return_value: value };
  return holds(value, (it) => FILES.has(it.kind)) ? { ...frame, content_file_digests: [] } : frame;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Whether a value is, or holds somewhere, an object that passes a test. */
function holds(value: unknown, test: (it: Readonly<Record<string, unknown>>) => boolean): boolean {
  return isObject(value) && (test(value) || Object.values(value).some((part) => holds(part, test)));
}

/** The value of JSON text, if `JSON.stringify` gives it back whole. */
function parsed(json: string, place: string): unknown {
  // Texts are skipped, and each number is looked at.
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)) {
    if (!token.startsWith('"') && !survives(token)) {
      throw new TypeError(
        `${place}: JSON.parse would change ${token}; take the exact text, resultsJson or payloadJson`,
      );
    }
  }
  try {
    return JSON.parse(json);
  } catch {
    throw new TypeError(`${place} is no JSON text; take the exact text, resultsJson or payloadJson`);
  }
}

/** Whether a number is the same after it was a double: the double's own text, or one of at most 15 digits within its range. */
function survives(token: string): boolean {
  const value = Number(token);
  const digits = token
    .replace(/[eE].*$/, "")
    .replace(/[-.]/g, "")
    .replace(/^0+/, "")
    .replace(/0+$/, "");
  const inRange = Number.isFinite(value) && (value === 0 ? digits === "" : Math.abs(value) >= 2.3e-308);
  return String(value) === token || (inRange && digits.length <= 15);
}
