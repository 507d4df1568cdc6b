// The tokens of a sample, colored by the values of the tensor.

import { useState } from "preact/hooks";
import { Menu } from "../../graph/controls";
import { colorAt, css, gradient, DIVERGING, RISING, RISING_DARK, type Rgb } from "../../lib/colors";
import { attentionRow } from "../../lib/attention-row";
import { titleOf } from "../../lib/values/statistics";
import { exact, short } from "../../lib/formatting";
import type { TensorView, TokenValues } from "../../lib/wire";
import { valuesQuery } from "../data/api";
import type { PanelProps } from "../panels/props";
import { useQuery } from "../data/use-query";
import { paintOf } from "./paint";
import { MOST_EXACT } from "./picture";

type TokensProps = PanelProps & { readonly tensor: TensorView; readonly tokens: TokenValues };

export function Tokens(props: TokensProps) {
  const { tokens, isDark } = props;
  const [name, setName] = useState("");
  const [over, setOver] = useState(-1);
  const [chosen, setFrom] = useState(-1);
  const words = tokens.tokens;
  const from = chosen < words.length && hasAttention(props) ? chosen : -1;
  const place = Math.max(0, tokens.measures.indexOf(name));
  const looks = useAttentionRow(props, from);
  const numbers = from >= 0 ? looks ?? [] : tokens.values[place] ?? [];
  const finite = numbers.filter((value): value is number => value !== null && Number.isFinite(value));
  const scale = scaleOf(finite, isDark);
  const caption = over >= 0 ? `${JSON.stringify(words[over])} ${formatToken(numbers[over])}` : from >= 0 ? `attention from ${JSON.stringify(words[from])}` : `${words.length} tokens, colored by`;
  return (
    <figure class="tokens">
      <figcaption>
        <span aria-live="polite">{caption}</span>
        {from >= 0 ? <button type="button" class="toggle" onClick={() => setFrom(-1)}>all tokens</button>
          : tokens.measures.length > 1 ? (
            <Menu name="Colored by" value={tokens.measures[place]} onChoose={setName} choices={tokens.measures.map((one) => [one, titleOf(one)] as const)} />
          ) : <span>{tokens.is_square ? titleOf(tokens.measures[0]) : titleOf(tokens.measures[0] ?? "")}</span>}
      </figcaption>
      <p onPointerLeave={() => setOver(-1)}>
        {words.map((token, i) => {
          const value = numbers[i];
          const shade = value === null || value === undefined || !Number.isFinite(value) ? null : scale.color(value);
          const style = shade ? { background: css(shade), color: isBright(shade) ? "#1d1f23" : "#ffffff" } : {};
          const shared = { key: i, style, title: formatToken(value), onPointerEnter: () => setOver(i) };
          return hasAttention(props) ? (
            <button type="button" class={`token${i === from ? " from" : ""}`} aria-pressed={i === from} onFocus={() => setOver(i)} onBlur={() => setOver(-1)}
              onClick={() => setFrom(i === from ? -1 : i)} {...shared}>{token}</button>
          ) : <span class="token" {...shared}>{token}</span>;
        })}
      </p>
      {finite.length > 0 && (
        <div class="pixels-scale">
          <span>{short(scale.low)}</span><i style={{ background: gradient(scale.ramp) }} /><span>{short(scale.high)}</span>
          {hasAttention(props) && from < 0 && <span class="hide-narrow">click a token to see what it attends to</span>}
        </div>
      )}
    </figure>
  );
}

function formatToken(value: number | null | undefined): string {
  return value === null || value === undefined ? "no value" : exact(value);
}

/** Whether attention weights of each token are available. */
function hasAttention({ tensor, tokens }: TokensProps): boolean {
  return tokens.is_square && (tensor.picture?.shape ?? []).reduce((n, size) => n * size, 1) <= MOST_EXACT;
}

/** Attention weights of one token: of the selected head, else averaged over heads. */
function useAttentionRow({ run, client, tensor, tokens, state }: TokensProps, from: number): number[] | null {
  const query = from >= 0 ? valuesQuery(run.item.id, tensor.row, tensor.step, tensor.sample?.number ?? null) : null;
  const { value, isOld } = useQuery(client, query);
  if (from < 0 || !value || isOld) return null;
  return attentionRow(value, tensor.shape.slice(1), from, tokens.tokens.length, paintOf(state.kept).tile);
}

interface TokenScale {
  readonly low: number;
  readonly high: number;
  readonly ramp: readonly Rgb[];
  color(value: number): Rgb;
}

function scaleOf(finite: readonly number[], isDark: boolean): TokenScale {
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const isSigned = low < 0 && high > 0;
  const most = Math.max(-low, high);
  const ramp = isSigned ? DIVERGING : isDark ? RISING_DARK : RISING;
  const color = (value: number): Rgb => colorAt(ramp, isSigned ? 0.5 + value / (2 * most) : high > low ? (value - low) / (high - low) : 0.5);
  return isSigned ? { low: -most, high: most, ramp, color } : { low, high, ramp, color };
}

function isBright([red, green, blue]: Rgb): boolean {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}
