// The tokens of one text in the colors of one channel, with hover, keyboard and selection.

import { Component } from "preact";
import { shortNumber } from "./numbers";
import { tokenStyle } from "./colors";
import { visibleToken } from "./tokens";
import { cellAfterKey } from "./grid-keys";
import type { Text } from "./wire";

export interface TokenTextProps {
  readonly text: Text;
  readonly values: readonly (number | null)[];
  /** The style of each token, where it does not follow from its number. */
  readonly styles?: readonly (Readonly<Record<string, string>> | undefined)[];
  /** The channel that is shown; -1 for none. */
  readonly channel: number;
  readonly name: string;
  readonly isNamed: boolean;
  readonly most: number;
  readonly isSigned: boolean;
  readonly isShare: boolean;
  readonly isDark: boolean;
  readonly isNumbered: boolean;
  /** Whether tokens choose channels, here or in a text beside this one: then those without a number are faint. */
  readonly isChoice: boolean;
  /** The token at the cursor; -1 for none. */
  readonly at: number;
  onAt(token: number, element: HTMLElement | null): void;
  onChoose(token: number): void;
}

/** Rerendered only when it changes: thousands of tokens must not be on every pointer move. */
export class TokenText extends Component<TokenTextProps> {
  shouldComponentUpdate(next: TokenTextProps): boolean {
    return (Object.keys(next) as (keyof TokenTextProps)[]).some((name) => name !== "onAt" && name !== "onChoose" && next[name] !== this.props[name]);
  }

  private readonly over = (event: PointerEvent): void => {
    const element = tokenOf(event);
    if (element) this.props.onAt(Number(element.dataset.token), element);
  };

  private readonly click = (event: MouseEvent): void => {
    const element = tokenOf(event);
    if (element) this.props.onChoose(Number(element.dataset.token));
  };

  private readonly key = (event: KeyboardEvent): void => {
    const { at, text } = this.props;
    if (event.key === "Enter" && at >= 0) this.props.onChoose(at);
    else if (!this.walk(event, at, text.tokens.length)) return;
    event.preventDefault();
    event.stopPropagation();
  };

  private walk(event: KeyboardEvent, at: number, n: number): boolean {
    const next = cellAfterKey(event.key, at < 0 ? null : [0, at], 1, n);
    if (!next && !(event.key === "Escape" && at >= 0)) return false;
    const element = next ? (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-token="${next[1]}"]`) : null;
    element?.scrollIntoView({ block: "nearest" });
    this.props.onAt(next ? next[1] : -1, element);
    return true;
  }

  render({ text, values, styles, name, isNamed, most, isSigned, isShare, isDark, isNumbered, isChoice }: TokenTextProps) {
    return (
      <>
        {isNamed && <div class="colored-channel">{name}</div>}
        <div class={`tokens${isNumbered ? " numbered" : ""}${isChoice ? " choosing" : ""}`} role="group" tabIndex={0}
          aria-label={`${text.title || "Text"}, colored by ${name}${text.chooses.length ? "; Enter selects the token at the cursor" : ""}`}
          onPointerOver={this.over} onClick={this.click} onKeyDown={this.key} onBlur={() => this.props.onAt(-1, null)}>
          {text.tokens.map((token, place) => (
            <span key={place} data-token={place} class={this.classOf(place)}
              style={(styles ? styles[place] : tokenStyle(values[place], most, isSigned, isDark)) ?? undefined}>
              {visibleToken(token)}
              {isNumbered && <small>{shortNumber(values[place], isShare)}</small>}
            </span>
          ))}
        </div>
      </>
    );
  }

  private classOf(place: number): string {
    const { text, values, channel, isChoice, at } = this.props;
    const chosen = text.chooses[place] ?? -1;
    const isChosen = chosen >= 0 && chosen === channel;
    const names = ["tok", chosen >= 0 ? "choice" : !isChoice && text.marks.includes(place) && "marked", isChosen && "chosen",
      isChoice && !isChosen && values[place] === null && "unseen", place === at && "at"];
    return names.filter(Boolean).join(" ");
  }
}

function tokenOf(event: Event): HTMLElement | null {
  return (event.target as Element).closest<HTMLElement>("[data-token]");
}
