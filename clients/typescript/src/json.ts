/** JSON text of a value. What has none (`undefined`, a function) is an error: a missing value must not go as one. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) {
    throw new TypeError(`${typeof value} has no JSON form; null says that there is no value`);
  }
  return text;
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
