// Name-value pairs, laid out by the length of their text.

import type { ComponentChildren } from "preact";
import type { Facts } from "./wire";

/** Letters that fit into one column of facts, and into two. */
const [ONE, TWO] = [13, 29];

/** How much room a fact takes, so that its longest word is not broken. */
export function roomOf(value: string): string {
  const longest = Math.max(...value.split(/\s+/).map((word) => word.length));
  return longest <= ONE ? "" : longest <= TWO ? "long" : "longest";
}

/** A path may be broken where it has a slash. */
function breakable(value: string): ComponentChildren {
  return value.split(/(?<=[/\\])/).map((part, i) => (i ? [<wbr key={i} />, part] : part));
}

export function FactsBlock({ block }: { block: Facts }) {
  return (
    <dl class="block-facts">
      {block.items.map(({ name, value, remark }, i) => (
        <div key={i} class={roomOf(value)}>
          <dt>{name}</dt>
          <dd>{breakable(value)}{remark && <small>{remark}</small>}</dd>
        </div>
      ))}
    </dl>
  );
}
