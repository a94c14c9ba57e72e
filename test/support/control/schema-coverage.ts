/** Which fields of a JSON schema a value has, as paths such as `builds[].buildID`. */

import { z } from "../../../src/common/schema.ts";

interface Node {
  readonly properties?: Readonly<Record<string, Node>> | undefined;
  readonly additionalProperties?: Node | boolean | undefined;
  readonly items?: Node | undefined;
  readonly anyOf?: readonly Node[] | undefined;
}

/** The parts of a JSON schema that say which fields there are. */
export const nodeSchema: z.ZodType<Node> = z.lazy(() =>
  z.object({
    properties: z.record(z.string(), nodeSchema).optional(),
    additionalProperties: z.union([nodeSchema, z.boolean()]).optional(),
    items: nodeSchema.optional(),
    anyOf: z.array(nodeSchema).optional(),
  }),
);

/** Every field of a schema. */
export function fieldsOf(node: Node, path = ""): string[] {
  return [
    ...Object.entries(node.properties ?? {}).flatMap(([name, child]) => [
      `${path}.${name}`,
      ...fieldsOf(child, `${path}.${name}`),
    ]),
    ...(typeof node.additionalProperties === "object"
      ? [`${path}.*`, ...fieldsOf(node.additionalProperties, `${path}.*`)]
      : []),
    ...(node.items === undefined ? [] : fieldsOf(node.items, `${path}[]`)),
    ...(node.anyOf ?? []).flatMap((variant) => fieldsOf(variant, path)),
  ];
}

/** Every field of a value, by the names of the schema; those that it does not know, too. */
export function fieldsIn(value: unknown, node: Node, path = ""): string[] {
  if (Array.isArray(value)) {
    const { items = {} } = node;
    return value.flatMap((item) => fieldsIn(item, items, `${path}[]`));
  }
  if (typeof value !== "object" || value === null) return [];
  const variant = node.anyOf?.find(({ properties, additionalProperties }) =>
    Boolean(properties ?? additionalProperties),
  );
  const { properties = {}, additionalProperties } = variant ?? node;
  return Object.entries(value).flatMap(([name, child]) => {
    const known = properties[name];
    const isAny = known === undefined && typeof additionalProperties === "object";
    const at = `${path}.${isAny ? "*" : name}`;
    const below = known ?? (isAny ? additionalProperties : {});
    // What a schema leaves open is one field, whatever is in it.
    const isOpen = Object.keys(below).length === 0 && (known !== undefined || isAny);
    return [at, ...(isOpen ? [] : fieldsIn(child, below, at))];
  });
}
