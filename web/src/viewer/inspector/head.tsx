// Head of the tensor inspector: path, badges, outliers, copy and download buttons.

import { useState } from "preact/hooks";
import { Icon } from "../../graph/icons";
import { quantityTitle } from "../../lib/values/quantity";
import { elementsOf, nestedList, snippet } from "../../lib/snippet";
import { remark, compareWithSibling, plainContents } from "../../lib/values/statistics";
import { counted } from "../../lib/formatting";
import type { RowView, TensorView } from "../../lib/wire";
import { csvQuery, valuesLink } from "../data/api";
import { describePass, selectRow, siteOf } from "../choice";
import { copyText } from "../../lib/clipboard";
import { StateSign } from "../graph/color-legend";
import type { PanelProps } from "../panels/props";

/** Maximum number of values to copy as text. */
const MOST_COPIED = 20_000;

export function Head({ run, choice, act, state, row, tensor }: PanelProps & { row: RowView; tensor: TensorView | undefined }) {
  const { path, name } = row.title ? { path: [], name: row.title } : splitSite(row.site);
  const count = tensor?.statistics.find((one) => one.name === "count")?.value;
  const badges = [
    tensor ? describeShape(tensor, count) : "", tensor?.dtype ?? "", row.role,
    row.of === "value" ? "" : quantityTitle(row.of), row.part, describePass(run, row), row.n_passes > 1 ? `up to ${row.n_passes} passes per step` : "",
  ];
  const { text: remarkText, about } = tensor ? remark(tensor) : { text: "", about: "" };
  const training = tensor?.training ?? null;
  const holds = tensor ? plainContents(tensor.contents) : "";
  const odd = compareWithSibling(tensor?.sibling ?? null, quantityTitle(row.of));
  const toSibling = (): void => {
    const other = run.rows[tensor?.sibling?.row ?? -1];
    if (other) act(selectRow(other, state));
  };
  return (
    <header class="tensor-head">
      {path.length > 0 && <div class="path">{path.map((part, place) => <span key={place}>{part} › </span>)}</div>}
      <h2>{name}{choice.step >= 0 && <span class="at-step"> at step {choice.step.toLocaleString("en")}</span>}</h2>
      <div class="badges">
        {badges.filter(Boolean).map((text) => <span class="badge" key={text}>{text}</span>)}
        {holds && <span class="badge">{holds}</span>}
        {training && <span class="badge state" title={training.about}><StateSign state={training.state} />{training.text}</span>}
        {remarkText && <span class="badge bad" title={about}>{remarkText}</span>}
        {odd && tensor?.sibling && <button type="button" class="badge bad" title={`Go to ${tensor.sibling.site}`} onClick={toSibling}>{odd}</button>}
      </div>
      {about && <p class="unusual-about">{about} <span class="help" title={tensor!.unusual_help} aria-label={tensor!.unusual_help}>?</span></p>}
      {training && <p class="unusual-about">{training.about}</p>}
      {row.title && <div class="quiet">{row.site}</div>}
      {row.names.length > 0 && <div class="quiet">also {row.names.slice(0, 4).map((one) => (one === "." ? "the model's output" : one)).join(", ")}{row.names.length > 4 && ` and ${row.names.length - 4} more`}</div>}
    </header>
  );
}

/** The shape; where only some samples were kept, it says so. */
function describeShape({ dtype, shape }: TensorView, count: number | null | undefined): string {
  if (!dtype) return count ? counted(count, "element") : "";
  if (!shape.length) return "scalar";
  const isPart = count && count !== shape.reduce((product, size) => product * size, 1);
  return isPart ? `kept [${shape.join(", ")}] of ${counted(count, "element")}` : `[${shape.join(", ")}]`;
}

function splitSite(site: string): { path: string[]; name: string } {
  const [address, ...op] = site.split("/");
  const parts = address.split(".").filter(Boolean);
  if (op.length) return { path: parts, name: op.join("/") };
  // An index alone, such as `3`, is not a useful name.
  const n = parts.findLastIndex((part) => !/^\d+$/.test(part));
  return n < 0 ? { path: [], name: site } : { path: parts.slice(0, n), name: parts.slice(n).join(".") };
}

/** Copy and export. */
export function ExportBar({ run, choice, row, tensor, client }: PanelProps & { row: RowView; tensor: TensorView }) {
  const { id } = run.item;
  const hasValue = tensor.dtype !== "";
  const site = siteOf(run, row);
  const python = snippet({ ...row, site }, choice.step, choice.sample);
  // With a selected sample, only its values are copied and downloaded.
  const sample = tensor.n_samples > 0 ? choice.sample : null;
  const shape = sample === null ? tensor.shape : tensor.shape.slice(1);
  const n = shape.reduce((product, size) => product * size, 1);
  const whose = sample === null ? "the kept values" : `the values of sample ${sample}`;
  const value = async (): Promise<string> => nestedList(elementsOf(await client.load(csvQuery(id, row.row, choice.step, sample)), shape), shape);
  const numbers = (): string => tensor.statistics.map(({ name, value: own, non_finite }) => `${name}\t${own ?? non_finite}`).join("\n");
  return (
    <div class="take-along">
      <CopyButton text="site" title={`Copy ${site}`} make={() => site} />
      <CopyButton text="Python" title={python} make={() => python} />
      {tensor.statistics.length > 0 && <CopyButton text="statistics" title="Copy all statistics in full precision" make={numbers} />}
      {hasValue && n <= MOST_COPIED && <CopyButton text="values" title={`Copy ${whose} as nested lists`} make={value} />}
      {hasValue && (["csv", "npy"] as const).map((format) => (
        <a key={format} class="take" href={valuesLink(id, row.row, choice.step, format, sample)} download title={`Download ${whose} as ${format === "csv" ? "CSV" : "NPY, for numpy.load"}`}>
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
      setState((await copyText(await make())) ? "done" : "failed");
    } catch {
      setState("failed");
    }
    setTimeout(() => setState(""), 1400);
  };
  return (
    <button type="button" class={`take ${state}`} title={title} onClick={() => void copy()}>
      <Icon name="copy" />{state === "done" ? "copied" : state === "failed" ? "copy failed" : text}
    </button>
  );
}
