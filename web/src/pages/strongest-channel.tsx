// Channels that compete for tokens, as factors do: a sparkline for each, and each token in the color of its strongest channel.

import { Swatch } from "./legend";
import { seriesColor } from "./colors";
import type { ColoredText, Text } from "./wire";

export const STRONGEST = "strongest";
const WIDTH = 150;
const HEIGHT = 26;

/** The channel that is largest at a token; -1 where none has a number but zero. */
export function strongestAt(text: Text, token: number): number {
  let best = -1;
  let most = 0;
  text.values.forEach((row, channel) => {
    const size = Math.abs(row[token] ?? 0);
    if (size > most) [best, most] = [channel, size];
  });
  return best;
}

export interface StrongestChannel {
  readonly values: readonly (number | null)[];
  readonly styles: readonly (Readonly<Record<string, string>> | undefined)[];
}

/** The numbers and colors of the tokens: of one channel, or of the strongest at each. */
export function strongestChannel(block: ColoredText, text: Text, chosen: string): StrongestChannel {
  const at = text.tokens.map((_, token) => (chosen === STRONGEST ? strongestAt(text, token) : Number(chosen)));
  const values = at.map((channel, token) => (channel < 0 ? null : text.values[channel][token]));
  const styles = values.map((value, token) => {
    const full = block.most[at[token]]; // its own: one that is far larger at one token would leave all others pale
    if (value === null || !value || !(full > 0)) return undefined;
    // Limited, so that text in the default color stays readable.
    const share = Math.round(8 + 47 * Math.min(1, Math.abs(value) / full));
    const color = seriesColor(at[token]);
    return { background: `linear-gradient(${color}, ${color}) bottom / 100% 2px no-repeat, color-mix(in srgb, ${color} ${share}%, transparent)` };
  });
  return { values, styles };
}

interface Props {
  readonly block: ColoredText;
  readonly chosen: string;
  onChoose(value: string): void;
  onPreview(value: string | null): void;
}

/** One sparkline per channel over all tokens. Hover previews its colors, a click selects it. */
export function ChannelList({ block, chosen, onChoose, onPreview }: Props) {
  const { channels, texts } = block;
  const choices = [STRONGEST, ...channels.keys()].map(String);
  const walk = (event: KeyboardEvent): void => {
    const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=radio]")];
    const next = (buttons.indexOf(event.target as HTMLElement) + by + buttons.length) % buttons.length;
    buttons[next].focus();
    onChoose(choices[next]);
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="contenders" role="radiogroup" aria-label="Colored by" onKeyDown={walk} onPointerLeave={() => onPreview(null)}>
      {choices.map((value) => (
        <button type="button" role="radio" aria-checked={value === chosen} class={value === chosen ? "on" : ""} tabIndex={value === chosen ? 0 : -1} key={value}
          onClick={() => onChoose(value)} onPointerEnter={() => onPreview(value)}>
          {value === STRONGEST ? <span class="contender-name">the strongest</span> : (
            <>
              <span class="contender-name"><Swatch place={Number(value)} />{channels[Number(value)]}</span>
              <Spark rows={texts.map((text) => text.values[Number(value)])} place={Number(value)} />
            </>
          )}
        </button>
      ))}
    </div>
  );
}

function Spark({ rows, place }: { rows: readonly (readonly (number | null)[])[]; place: number }) {
  const all = rows.flat();
  const numbers = all.filter((value): value is number => value !== null);
  const [low, high] = [Math.min(0, ...numbers), Math.max(0, ...numbers)];
  const x = (i: number): string => ((i / Math.max(1, all.length - 1)) * (WIDTH - 2) + 1).toFixed(1);
  const y = (value: number): string => (HEIGHT - 2 - ((value - low) / (high - low || 1)) * (HEIGHT - 4)).toFixed(1);
  let way = "";
  let i = 0;
  for (const row of rows) {
    row.forEach((value, at) => {
      if (value !== null) way += `${at && row[at - 1] !== null ? "L" : "M"}${x(i)} ${y(value)}`;
      i += 1;
    });
  }
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" preserveAspectRatio="none">
      <line x1={0} x2={WIDTH} y1={y(0)} y2={y(0)} />
      <path d={way} style={{ stroke: seriesColor(place) }} />
    </svg>
  );
}
