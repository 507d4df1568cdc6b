// What is looked at: where it is in the model, what it is, what stands out in it, and the ways to take it along.

import { useState } from "preact/hooks";
import { Icon } from "../../app/icons";
import { listed, snippet } from "../../lib/snippet";
import { remark } from "../../lib/statistics";
import { counted } from "../../lib/units";
import type { RowView, TensorView } from "../../lib/wire";
import { valuesAsk, valuesLink } from "../asks";
import { nodeOf, rowsOfNode } from "../choice";
import type { PanelProps } from "../panels";

/** Values of at most so many numbers are copied as text. */
const MOST_COPIED = 20_000;

export function Head({ run, choice, row, tensor }: PanelProps & { row: RowView; tensor: TensorView | undefined }) {
  const { path, name } = named(row.site);
  const calls = rowsOfNode(run, nodeOf(row)).filter(({ of, part }) => of === row.of && part === row.part);
  const count = tensor?.statistics.find((one) => one.name === "count")?.value;
  const badges = [
    tensor?.dtype ? `[${tensor.shape.join(", ")}]` : count ? counted(count, "element") : "", tensor?.dtype ?? "", row.role,
    ofWords(row.of), row.part, row.iteration > 0 ? `iteration ${row.iteration}` : "", calls.length > 1 ? `called ${calls.length}×` : "",
  ];
  const said = tensor ? remark(tensor.statistics) : "";
  return (
    <header class="tensor-head">
      {path.length > 0 && <div class="path">{path.map((part, place) => <span key={place}>{part} › </span>)}</div>}
      <h2>{name}{choice.step >= 0 && <span class="at-step"> at step {choice.step.toLocaleString("en")}</span>}</h2>
      <div class="badges">
        {badges.filter(Boolean).map((text) => <span class="badge" key={text}>{text}</span>)}
        {said && <span class="badge bad">{said}</span>}
      </div>
      {row.names.length > 0 && <div class="quiet">also {row.names.slice(0, 4).join(", ")}{row.names.length > 4 && ` and ${row.names.length - 4} more`}</div>}
    </header>
  );
}

/** "gradient of aux" for "grad/aux". */
export function ofWords(of: string): string {
  if (of === "value") return "";
  const [what, loss] = of.split(/\/(.*)/s);
  return `${what === "grad" ? "gradient" : what}${loss ? (/^\d+$/.test(loss) ? ` ${loss}` : ` of ${loss}`) : ""}`;
}

function named(site: string): { path: string[]; name: string } {
  const [address, ...op] = site.split("/");
  const parts = address.split(".").filter(Boolean);
  if (op.length) return { path: parts, name: op.join("/") };
  // A number alone is no name.
  const n = parts.findLastIndex((part) => !/^\d+$/.test(part));
  return n < 0 ? { path: [], name: site } : { path: parts.slice(0, n), name: parts.slice(n).join(".") };
}

/** Copy and export. */
export function TakeAlong({ run, choice, row, tensor, client }: PanelProps & { row: RowView; tensor: TensorView }) {
  const { id } = run.item;
  const n = tensor.shape.reduce((product, size) => product * size, 1);
  const hasValue = tensor.dtype !== "";
  const value = async (): Promise<string> => listed(await client.load(valuesAsk(id, row.row, choice.step)), tensor.shape);
  return (
    <div class="take-along">
      <CopyButton text="site" title={`Copy ${row.site}`} make={() => row.site} />
      <CopyButton text="Python" title={snippet(row, choice.step, choice.sample)} make={() => snippet(row, choice.step, choice.sample)} />
      {hasValue && n <= MOST_COPIED && <CopyButton text="values" title="Copy the kept values as lists" make={value} />}
      {hasValue && (["csv", "npy"] as const).map((format) => (
        <a key={format} class="take" href={valuesLink(id, row.row, choice.step, format)} download title={`The kept values as a file (${format})`}>
          <Icon name="toDown" />{format.toUpperCase()}
        </a>
      ))}
    </div>
  );
}

function CopyButton({ text, title, make }: { text: string; title: string; make(): string | Promise<string> }) {
  const [state, setState] = useState<"" | "done" | "failed">("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(await make());
      setState("done");
    } catch {
      setState("failed");
    }
    setTimeout(() => setState(""), 1400);
  };
  return (
    <button type="button" class={`take ${state}`} title={title} onClick={() => void copy()}>
      <Icon name="copy" />{state === "done" ? "copied" : state === "failed" ? "not copied" : text}
    </button>
  );
}
