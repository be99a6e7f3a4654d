import { type DescMessage, type MessageShape, toBinary } from "@bufbuild/protobuf";

/** The bytes of a message. Throws a `TypeError` for text that UTF-8 cannot hold, which would arrive as another one. */
export function encode<T extends DescMessage>(schema: T, message: MessageShape<T>): Buffer {
  checkText(message, "");
  return Buffer.from(toBinary(schema, message));
}

function checkText(value: unknown, place: string): void {
  if (typeof value === "string") {
    if (!value.isWellFormed()) {
      throw new TypeError(`${place} holds half of a surrogate pair, which cannot be sent`);
    }
  } else if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) {
    for (const [name, part] of Object.entries(value)) {
      checkText(name, `a name in ${place}`);
      checkText(part, place === "" ? name : `${place}.${name}`);
    }
  }
}
