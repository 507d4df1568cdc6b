// Building blocks that the inspectors share.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { crumb } from "../breadcrumbs";
import { IconButton, Link } from "../controls";
import { usePage } from "../context";

/** A collapsible section of the panel. */
interface CardProps {
  readonly title: string;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly isClosed?: boolean;
}

export function Card({ title, aside, children, isClosed: isShut = false }: CardProps) {
  return (
    <details class="card" open={!isShut}>
      <summary><span>{title}</span>{aside !== undefined && <span class="aside">{aside}</span>}</summary>
      {children}
    </details>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [string, string])[] }) {
  return (
    <dl class="fact-list">
      {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

/** A text with a copy button. */
export function CopyableText({ text }: { text: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1200);
    } catch {
      // Without clipboard permission, the text can still be selected by hand.
    }
  };
  return (
    <div class="copied">
      <code>{text}</code>
      <IconButton icon="copy" title={isDone ? "Copied" : "Copy"} isOn={isDone} onClick={() => void copy()} />
    </div>
  );
}

/** The modules around a node or group, as links. */
export function Path({ groups }: { groups: readonly number[] }) {
  const { view, go } = usePage();
  // The root has the name of the whole.
  const own = groups.filter((group) => view.groups.label[group] !== ".");
  return (
    <div class="path">
      {view.title}
      {own.map((group, place) => (
        <span key={group}>
          {" › "}
          <Link title={view.groups.class_name[group]} onGo={() => go(`g${group}`)}>{crumb(view, own, place)}</Link>
        </span>
      ))}
    </div>
  );
}

/** Nodes as links, a few at first. */
export function NodeLinks({ nodes, about }: { nodes: readonly number[]; about?(node: number): string }) {
  const { view, go } = usePage();
  const [isWhole, setWhole] = useState(false);
  const FEW = 8;
  const more = isWhole ? 0 : nodes.length - FEW;
  const shown = isWhole ? nodes : nodes.slice(0, FEW);
  return (
    <ul class="node-links">
      {shown.map((node) => (
        <li key={node}>
          <Link title={view.nodes.site[node]} onGo={() => go(`n${node}`)}>
            <i class={`dot kind-${view.nodes.kind[node]}`} />{view.nodes.label[node]}
          </Link>
          <span class="quiet">{about?.(node) || view.nodes.lines[node][0]}</span>
        </li>
      ))}
      {more > 0 && <li><Link onGo={() => setWhole(true)}>and {more.toLocaleString("en")} more</Link></li>}
    </ul>
  );
}
