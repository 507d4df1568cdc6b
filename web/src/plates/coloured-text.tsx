// Texts coloured by a channel: which one, what each token's numbers are, and what the colours mean.

import { Component } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Menu, Segments } from "../app/controls";
import { gradient } from "../lib/colours";
import { Contenders, contested, STRONGEST, strongestAt } from "./contest";
import { full, said } from "./numbers";
import { rampOf, tokenTint } from "./tints";
import { shownAtFirst, written } from "./tokens";
import { after } from "./walking";
import type { ColouredText, Text } from "./wire";

/** So many channels are all to be seen; more are behind a menu. */
const FEW = 5;
const MOST_LETTERS = 70;
/** So many channels are read out at a token. */
const MOST_READ = 8;
const ALL = "all";

interface At {
  readonly text: number;
  readonly token: number;
  readonly channel: number;
  /** Where its token is, within the plate. */
  readonly left: number;
  readonly top: number;
  readonly isRight: boolean;
}

export function ColouredTextPlate({ plate, isDark }: { plate: ColouredText; isDark: boolean }) {
  const { channels, texts } = plate;
  const [kept, setChosen] = useState(plate.is_contest ? STRONGEST : "0");
  const [preview, setPreview] = useState<string | null>(null);
  const chosen = preview ?? kept;
  const [isNumbered, setNumbered] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const [at, setAt] = useState<At | null>(null);
  const own = useMemo(() => (plate.is_contest ? texts.map((text) => contested(plate, text, chosen)) : []), [plate, chosen]);
  if (!texts.length || !channels.length) return <p class="quiet">No text.</p>;
  const shown = chosen === ALL ? [...channels.keys()] : [chosen === STRONGEST ? -1 : Number(chosen)];
  const n = isWhole ? texts.length : shownAtFirst(texts.map(({ tokens }) => tokens.length * shown.length));
  return (
    <div class={`coloured${plate.is_contest ? " contest" : ""}`} onPointerLeave={() => setAt(null)}>
      <div class="coloured-bar">
        {channels.length > 1 && !plate.is_contest && <Channels channels={channels} chosen={chosen} onChoose={setChosen} />}
        <button type="button" class="toggle" aria-pressed={isNumbered} title="The number of each token below it" onClick={() => setNumbered(!isNumbered)}>numbers</button>
        {chosen !== ALL && !plate.is_contest && <Ramp most={plate.most[Number(chosen)]} isSigned={plate.is_signed} isDark={isDark} />}
      </div>
      {plate.is_contest && <Contenders plate={plate} chosen={kept} onChoose={setChosen} onPreview={setPreview} />}
      {texts.slice(0, n).map((text, place) => (
        <div class="coloured-text" key={place}>
          {text.title && <div class="coloured-title">{text.title}</div>}
          {shown.map((channel) => (
            <Words key={channel} text={text} name={channels[channel] ?? "the strongest"} isNamed={chosen === ALL} most={plate.most[channel] ?? 0} isSigned={plate.is_signed}
              values={own[place]?.values ?? text.values[channel]} tints={own[place]?.tints}
              isDark={isDark} isNumbered={isNumbered} at={at?.text === place && at.channel === channel ? at.token : -1}
              onAt={(token, element) => setAt(token < 0 || !element ? null : { text: place, token, channel, ...placeOf(element) })} />
          ))}
        </div>
      ))}
      {n < texts.length && <button type="button" class="button" onClick={() => setWhole(true)}>Show all {texts.length} texts</button>}
      <div class={`plate-tip${at ? "" : " gone"}`} aria-live="polite"
        style={at ? { top: `${at.top}px`, ...(at.isRight ? { right: `${at.left}px` } : { left: `${at.left}px` }) } : {}}>
        {at && <Reading plate={plate} text={texts[at.text]} token={at.token} channel={at.channel} />}
      </div>
    </div>
  );
}

function Channels({ channels, chosen, onChoose }: { channels: readonly string[]; chosen: string; onChoose(value: string): void }) {
  const isFew = channels.length <= FEW && channels.join("").length <= MOST_LETTERS;
  const own = channels.map((name, place) => [String(place), name] as const);
  if (!isFew) return <Menu name="Coloured by" value={chosen} choices={channels.length <= 12 ? [...own, [ALL, "all, one below the other"]] : own} onChoose={onChoose} />;
  const choices = own.map(([value, name]) => ({ value, text: name, title: `Colour by ${name}` }));
  return <Segments name="Coloured by" value={chosen} choices={[...choices, { value: ALL, text: "all", title: "One below the other" }]} onChoose={onChoose} />;
}

function Ramp({ most, isSigned, isDark }: { most: number; isSigned: boolean; isDark: boolean }) {
  if (!most) return <span class="plate-ramp">zero everywhere</span>;
  return <span class="plate-ramp">{isSigned ? said(-most) : "0"}<i style={{ background: gradient(rampOf(isSigned, isDark)) }} />{said(most)}</span>;
}

function Reading({ plate, text, token, channel }: { plate: ColouredText; text: Text; token: number; channel: number }) {
  const first = channel < 0 ? strongestAt(text, token) : channel;
  const others = [...plate.channels.keys()].filter((place) => place !== first).slice(0, MOST_READ - 1);
  return (
    <>
      <div class="tip-head"><q>{written(text.tokens[token])}</q> {token + 1} of {text.tokens.length}</div>
      {[...(first < 0 ? [] : [first]), ...others].map((place) => (
        <div class={`tip-line${place === first ? " on" : ""}`} key={place}><span>{plate.channels[place]}</span><b>{full(text.values[place][token])}</b></div>
      ))}
    </>
  );
}

interface WordsProps {
  readonly text: Text;
  readonly values: readonly (number | null)[];
  /** The style of each token, where it does not follow from its number. */
  readonly tints?: readonly (Readonly<Record<string, string>> | undefined)[];
  readonly name: string;
  readonly isNamed: boolean;
  readonly most: number;
  readonly isSigned: boolean;
  readonly isDark: boolean;
  readonly isNumbered: boolean;
  /** The token that is looked at; -1 for none. */
  readonly at: number;
  onAt(token: number, element: HTMLElement | null): void;
}

/** Made anew only where it looks otherwise: thousands of tokens must not be, at every move of the pointer. */
class Words extends Component<WordsProps> {
  shouldComponentUpdate(next: WordsProps): boolean {
    return (Object.keys(next) as (keyof WordsProps)[]).some((name) => name !== "onAt" && next[name] !== this.props[name]);
  }

  private readonly over = (event: PointerEvent): void => {
    const element = (event.target as Element).closest<HTMLElement>("[data-token]");
    if (element) this.props.onAt(Number(element.dataset.token), element);
  };

  private readonly key = (event: KeyboardEvent): void => {
    const { at, text } = this.props;
    const next = event.key === "Escape" && at >= 0 ? null : after(event.key, at < 0 ? null : [0, at], 1, text.tokens.length);
    if (!next && event.key !== "Escape") return;
    const element = next ? (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-token="${next[1]}"]`) : null;
    element?.scrollIntoView({ block: "nearest" });
    this.props.onAt(next ? next[1] : -1, element);
    event.preventDefault();
    event.stopPropagation();
  };

  render({ text, values, tints, name, isNamed, most, isSigned, isDark, isNumbered, at }: WordsProps) {
    const marked = new Set(text.marks);
    return (
      <>
        {isNamed && <div class="coloured-channel">{name}</div>}
        <div class={`tokens${isNumbered ? " numbered" : ""}`} role="group" tabIndex={0} aria-label={`${text.title || "Text"}, coloured by ${name}`}
          onPointerOver={this.over} onKeyDown={this.key} onBlur={() => this.props.onAt(-1, null)}>
          {text.tokens.map((token, place) => (
            <span key={place} data-token={place} class={`tok${marked.has(place) ? " marked" : ""}${place === at ? " at" : ""}`}
              style={(tints ? tints[place] : tokenTint(values[place], most, isSigned, isDark)) ?? undefined}>
              {written(token)}
              {isNumbered && <small>{said(values[place])}</small>}
            </span>
          ))}
        </div>
      </>
    );
  }
}

/** Below a token, on the side where there is room. */
function placeOf(element: HTMLElement): { left: number; top: number; isRight: boolean } {
  const around = element.closest<HTMLElement>(".coloured")!.getBoundingClientRect();
  const own = element.getBoundingClientRect();
  const isRight = own.left - around.left > around.width * 0.6;
  return { left: isRight ? around.right - own.right : own.left - around.left, top: own.bottom - around.top + 5, isRight };
}
