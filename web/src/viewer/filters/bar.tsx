// The bar of filters on steps and samples: one chip each, a field to add one, and what is left.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon } from "../../graph/icons";
import type { RunView } from "../../lib/wire";
import { nearest, type Choice } from "../choice";
import { filterQuery } from "../data/api";
import type { Client } from "../data/client";
import type { Action, State } from "../state";
import { BAR, keepFilters } from "./address";
import { placesOf, type LeftByFilters } from "./use-filter";
import "../../style/viewer/filters.css";

interface Props {
  readonly run: RunView;
  readonly state: State;
  readonly choice: Choice;
  readonly client: Client;
  readonly act: (action: Action) => void;
  readonly left: LeftByFilters;
}

export function FilterBar(props: Props) {
  const { state, act, left: { filters, view, error } } = props;
  if (!filters.length && state.kept[BAR] !== "open") return null;
  const drop = (text: string): void => act(keepFilters(filters.filter((other) => other !== text)));
  const clear = (): void => {
    act(keepFilters([]));
    act({ do: "keep", name: BAR, text: "" });
  };
  const errors = (view?.terms ?? []).filter((term) => term.error && filters.includes(term.text));
  return (
    <div class="filter-bar" role="toolbar" aria-label="Filters on steps and samples">
      <div class="filter-line">
        <span class="quiet filter-lead">Only steps and samples with</span>
        {filters.map((text) => {
          const term = view?.terms.find((one) => one.text === text);
          return (
            <span class={`filter${term?.error ? " wrong" : ""}`} key={text} title={term?.error || (term ? `Keeps ${term.meaning}` : "")}>
              <code>{text}</code>
              <button type="button" title={`Remove ${text}`} aria-label={`Remove ${text}`} onClick={() => drop(text)}><Icon name="close" /></button>
            </span>
          );
        })}
        <AddFilter {...props} />
        <Left {...props} onClear={clear} />
      </div>
      {error !== null && <p class="filter-error" role="alert">{error}</p>}
      {errors.map((term) => <p class="filter-error" role="alert" key={term.text}>Left out: {term.error}</p>)}
    </div>
  );
}

/** What is left, and whether the shown step is part of it. */
function Left({ run, choice, act, left: { filters, view, left }, onClear }: Props & { onClear(): void }) {
  if (!filters.length || !view) return <span class="filter-left quiet">{filters.length ? "…" : <button type="button" class="link" onClick={onClear}>close</button>}</span>;
  const isOut = left !== null && choice.place >= 0 && !left.includes(choice.place);
  const go = (): void => act({ do: "step", step: run.steps[left![nearest(left!, (place) => place, choice.place)]] });
  return (
    <span class="filter-left quiet" aria-live="polite">
      {isOut && left!.length > 0 && <><button type="button" class="link" onClick={go}>step {choice.step.toLocaleString("en")} is left out: go to the nearest</button> · </>}
      <b>{view.steps.length.toLocaleString("en")}</b> of {view.n_steps.toLocaleString("en")} steps
      {view.n_all_samples > 0 && <> · <b>{view.n_samples.toLocaleString("en")}</b> of {view.n_all_samples.toLocaleString("en")} samples</>}
      {" · "}<button type="button" class="link" onClick={onClear}>clear</button>
    </span>
  );
}

/** A field for one more filter. It is checked by the server before it becomes a chip. */
function AddFilter({ run, client, choice, act, state, left: { filters, view } }: Props) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => {
    if (state.kept[BAR] === "open" && !filters.length) field.current?.focus();
  }, [state.kept[BAR]]);
  const add = async (): Promise<void> => {
    const wanted = text.trim();
    if (!wanted) return;
    const all = [...filters, wanted];
    try {
      const found = await client.load(filterQuery(run.item.id, all));
      const { error } = found.terms[found.terms.length - 1];
      setWrong(error);
      if (error) return;
      setText("");
      act(keepFilters(all));
      const places = placesOf(run, found);
      // The shown step may be left out: the nearest one that is left takes its place.
      if (places.length && !places.includes(choice.place)) act({ do: "step", step: run.steps[places[nearest(places, (place) => place, choice.place)]] });
    } catch (failed) {
      setWrong(failed instanceof Error ? failed.message : String(failed));
    }
  };
  const key = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key === "Enter") void add();
    else if (event.key === "Escape") {
      setText("");
      setWrong("");
      field.current?.blur();
      if (!filters.length) act({ do: "keep", name: BAR, text: "" });
    } else if (event.key === "Backspace" && !text && filters.length) act(keepFilters(filters.slice(0, -1)));
  };
  return (
    <span class={`filter add${wrong ? " wrong" : ""}`}>
      <Icon name="plus" />
      <input type="text" ref={field} list={id} value={text} placeholder="scalar, note, value, label, token" aria-label="Add a filter" aria-invalid={wrong !== ""} size={26}
        spellcheck={false} autocomplete="off" onInput={(event) => { setText(event.currentTarget.value); setWrong(""); }} onKeyDown={key} />
      <datalist id={id}>{(view?.names ?? []).map((name) => <option key={name} value={`${name} = `} />)}</datalist>
      {wrong && <span class="filter-wrong" role="alert">{wrong}</span>}
    </span>
  );
}

/** Opens the bar, or says how many steps are left; stands in the label of the slider. */
export function FilterButton({ act, left: { filters, view } }: Pick<Props, "act" | "left">) {
  if (filters.length) return <em class="filter-count"><b>{view ? view.steps.length.toLocaleString("en") : "…"}</b> left by the filters</em>;
  return <button type="button" class="link filter-open" title="Filter steps and samples (F)" onClick={() => act({ do: "keep", name: BAR, text: "open" })}>filter</button>;
}
