/**
 * JSON text of a value, which says all of it: what JSON would silently leave out or turn into `null` or `{}` is a `TypeError` that names the
 * place. Arguments that lost a limit on the way would be other arguments.
 */
export function toJson(value: unknown, name = "value"): string {
  // Where each object is. `JSON.stringify` goes down into an object right after it was met.
  const places = new Map<unknown, string>();
  return JSON.stringify(value, function (this: Record<string, unknown>, key: string, met: unknown) {
    const place = () => {
      const holder = places.get(this);
      return holder === undefined ? name : `${holder}${step(this, key)}`;
    };
    const fault = faultOf(met, this[key]);
    if (fault !== undefined) {
      throw new TypeError(`${place()} is ${fault}`);
    }
    if (typeof met === "object" && met !== null) {
      places.set(met, place());
    }
    return met;
  });
}

function step(holder: object, key: string): string {
  if (Array.isArray(holder)) {
    return `[${key}]`;
  }
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

/** Why a value has no JSON form. `raw` is the same before its `toJSON` was called. */
function faultOf(met: unknown, raw: unknown): string | undefined {
  const value = met instanceof Number ? met.valueOf() : met;
  switch (typeof value) {
    case "undefined":
      return "undefined, which has no JSON form; null says that there is no value";
    case "number":
      return Number.isFinite(value) ? undefined : `${value}, which has no JSON form`;
    case "bigint":
      return "a bigint, which has no JSON form; give JSON text instead, as payloadJson, argsJson or overrideArgsJson";
    case "function":
    case "symbol":
      return `a ${typeof value}, which has no JSON form`;
    case "object": {
      if (value === null) {
        return raw instanceof Date ? "an invalid Date, which has no JSON form" : undefined;
      }
      const tag = Object.prototype.toString.call(value).slice("[object ".length, -1);
      // A Map, a Set, an Error or a promise keeps what it holds where JSON does not look.
      return ["Object", "Array", "String", "Boolean"].includes(tag)
        ? undefined
        : `of type ${tag}, which has no JSON form`;
    }
    default:
      return undefined;
  }
}

/**
 * JSON text for a field in which empty means none. An empty text is no JSON, and goes as one that the broker refuses: a tool that was
 * approved with it must not run with the model's arguments.
 */
export function given(json: string | undefined): string {
  return json === "" ? " " : (json ?? "");
}

/** `undefined` for the empty text, in which proto3 says "none". */
export function filled(text: string): string | undefined {
  return text === "" ? undefined : text;
}

/** Leaves out the properties that are `undefined`. */
export function defined<T extends object>(properties: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
