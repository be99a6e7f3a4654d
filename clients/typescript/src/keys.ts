/** The names that an object may have. Of a type's own, so that none is forgotten. */
export type Names<T> = Readonly<Record<keyof T, true>>;

/** Throws a `TypeError` for what is no object, and for a name that is not known: a timeout that was ignored would be another wait. */
export function checkNames(what: string, given: object, known: Readonly<Record<string, true>>): void {
  if (typeof given !== "object" || given === null) {
    throw new TypeError(`${what} must be an object, and is ${given === null ? "null" : `a ${typeof given}`}`);
  }
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) {
    return;
  }
  const names = Object.keys(known);
  const probable = names.find((name) => mayMean(plain(unknown), plain(name)));
  const hint = probable === undefined ? `there are ${names.join(", ")}` : `${probable} was probably meant`;
  throw new TypeError(`${what}: ${JSON.stringify(unknown)} is not known; ${hint}`);
}

/** A name without what the spelling of other languages changes, and without a unit. */
function plain(name: string): string {
  return name
    .replace(/[_-]/g, "")
    .toLowerCase()
    .replace(/(ms|millis|milliseconds|secs?|seconds)$/, "");
}

/** Whether two names are equal but for one letter that is wrong, missing, too much, or changed places with the next. */
function mayMean(a: string, b: string): boolean {
  let same = 0;
  while (same < a.length && a[same] === b[same]) {
    same += 1;
  }
  const [restOfA, restOfB] = [a.slice(same), b.slice(same)];
  const swapped = `${restOfA[1] ?? ""}${restOfA[0] ?? ""}${restOfA.slice(2)}`;
  return (
    a === b ||
    restOfA.slice(1) === restOfB ||
    restOfA === restOfB.slice(1) ||
    restOfA.slice(1) === restOfB.slice(1) ||
    swapped === restOfB
  );
}
