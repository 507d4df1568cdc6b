// Small controls that the toolbars share: menu, segmented control, icon button, link.

import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icons";

/** A control with its name above it. */
export function Labeled({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="labeled">
      <span class="label">{name}</span>
      {children}
    </div>
  );
}

export interface Choice<T> {
  readonly value: T;
  readonly text: ComponentChildren;
  readonly title: string;
}

const BY: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** A segmented control: one Tab stop, arrow keys move the selection. */
export function Segments<T extends string | boolean>(props: {
  name: string;
  value: T;
  choices: readonly Choice<T>[];
  onChoose(value: T): void;
}) {
  const { choices } = props;
  const chosen = choices.findIndex(({ value }) => value === props.value);
  const walk = (event: KeyboardEvent): void => {
    const by = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey ? undefined : BY[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=radio]")];
    const next = (buttons.indexOf(event.target as HTMLElement) + by + choices.length) % choices.length;
    buttons[next].focus();
    props.onChoose(choices[next].value);
  };
  return (
    <div class="segments" role="radiogroup" aria-label={props.name} onKeyDown={walk}>
      {choices.map(({ value, text, title }, i) => (
        <button type="button" role="radio" aria-checked={value === props.value} title={title} key={String(value)} tabIndex={i === Math.max(0, chosen) ? 0 : -1}
          class={value === props.value ? "on" : ""} onClick={() => props.onChoose(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A drop-down menu. */
export function Menu(props: {
  class?: string;
  name: string;
  value: string;
  choices: readonly (readonly [string, string])[];
  onChoose(value: string): void;
}) {
  return (
    <span class="menu">
      <select class={props.class} aria-label={props.name} title={props.name} value={props.value}
        onChange={(event) => props.onChoose(event.currentTarget.value)}>
        {props.choices.map(([value, text]) => <option value={value} key={value}>{text}</option>)}
      </select>
      <Icon name="down" />
    </span>
  );
}

export function IconButton(props: { icon: IconName; title: string; isOn?: boolean; isOff?: boolean; onClick(): void }) {
  return (
    <button type="button" class={`icon-button${props.isOn ? " on" : ""}`} title={props.title} aria-label={props.title}
      disabled={props.isOff} onClick={props.onClick}>
      <Icon name={props.icon} />
    </button>
  );
}

/** A link to a box. */
export function Link({ onGo, title, children }: { onGo(): void; title?: string; children: ComponentChildren }) {
  return <button type="button" class="link" title={title} onClick={onGo}>{children}</button>;
}
