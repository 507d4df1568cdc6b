// The values of a tensor as an image that suits its shape.

import { useMemo, useState } from "preact/hooks";
import { IconButton, Link, Segments } from "../../graph/controls";
import { Pixels } from "../../graph/inspector/pixels";
import { exactReader } from "../../lib/values/pixel-values";
import { short } from "../../lib/formatting";
import type { Image, TensorView } from "../../lib/wire";
import { valuesQuery, type Paint } from "../data/api";
import type { PanelProps } from "../panels/props";
import { useQuery } from "../data/use-query";
import { keepScale, keepTile, paintOf } from "./paint";

/** Maximum number of values fetched for exact readouts; beyond it pixels give approximate values. */
export const MOST_EXACT = 262_144;

export function Picture({ run, client, isDark, act, state, tensor }: PanelProps & { tensor: TensorView }) {
  const [isOver, setOver] = useState(false);
  const { picture, shape } = tensor;
  const image = picture?.image ?? null;
  const sample = tensor.n_samples > 0 ? tensor.sample?.number ?? null : null;
  const n = (picture?.shape ?? []).reduce((product, size) => product * size, 1);
  const isExact = isOver && image !== null && n <= MOST_EXACT;
  const { value: values, isOld } = useQuery(client, isExact ? valuesQuery(run.item.id, tensor.row, tensor.step, sample, tensor.is_normalized) : null);
  const read = useMemo(() => (image && values && !isOld ? exactReader(image, shape, values, sample) : null), [image, values, isOld, shape, sample]);
  if (!picture) return tensor.why_missing ? <p class="note why-missing">{tensor.why_missing}</p> : null;
  const isOne = picture.text !== "" && shape.every((size) => size === 1);
  const { scale } = paintOf(state.kept);
  return (
    <div class="value-picture" onPointerEnter={() => setOver(true)}>
      {tensor.sample && <SampleNumbers tensor={tensor} />}
      {image && (
        <>
          <div class="picture-bar">
            <Scales scale={scale} hasBatch={tensor.n_samples > 1} image={image} onChoose={(is) => act(keepScale(is))} />
            {image.n_tiles_total > 1 && <Tiles image={image} onChoose={(tile) => act(keepTile(tile))} />}
          </div>
          <Pixels image={image} isDark={isDark} read={read} unit={tensor.is_normalized ? " σ from the batch mean" : ""} name={tensor.tokens?.is_square ? (index) => attentionPair(tensor.tokens!.tokens, index) : undefined} onTile={(tile) => act(keepTile(tile))} />
        </>
      )}
      {picture.text && <pre class={isOne ? "value-text one" : "value-text"}>{picture.text}</pre>}
    </div>
  );
}

/** Query and key token of an attention weight. */
function attentionPair(tokens: readonly string[], index: readonly number[]): string {
  const [from, to] = index.slice(-2);
  return from < tokens.length && to < tokens.length ? `${tokens[from]} → ${tokens[to]} ` : "";
}

/** By what the colors are normalized. */
function Scales({ scale, hasBatch, image, onChoose }: { scale: Paint["scale"]; hasBatch: boolean; image: Image; onChoose(scale: Paint["scale"]): void }) {
  const choices = [
    { value: "raw", text: "raw", title: "Raw values on one color scale" },
    ...(hasBatch ? [{ value: "batch", text: "vs. batch", title: "Deviation from the batch mean, in standard deviations" }] : []),
    ...(image.n_tiles_total > 1 ? [{ value: "each", text: `each ${image.tile_word}`, title: `Separate color scale for each ${image.tile_word}` }] : []),
  ] as const;
  if (choices.length < 2) return null;
  const value = choices.some((one) => one.value === scale) ? scale : "raw";
  return <Segments<string> name="Values" value={value} onChoose={(is) => onChoose(is as Paint["scale"])} choices={choices} />;
}

/** Show all channels or heads, or step through them. */
function Tiles({ image, onChoose }: { image: Image; onChoose(tile: number | null): void }) {
  const { tile_word: word, n_tiles_total: n } = image;
  if (image.n_tiles > 1) return <span class="quiet hide-narrow">click a {word} to see it alone</span>;
  const at = image.first[image.axes[0]] ?? 0;
  const go = (by: number): void => onChoose((at + by + n) % n);
  return (
    <span class="tile-choice" role="group" aria-label={`Select ${word}`}>
      <IconButton icon="left" title={`Previous ${word}`} onClick={() => go(-1)} />
      <label>{word} <input type="number" min={1} max={n} value={at + 1} aria-label={word}
        onChange={(event) => onChoose(Math.max(1, Math.min(n, Math.round(Number(event.currentTarget.value)) || 1)) - 1)} /> of {n.toLocaleString("en")}</label>
      <IconButton icon="right" title={`Next ${word}`} onClick={() => go(1)} />
      <Link onGo={() => onChoose(null)}>all {n.toLocaleString("en")}</Link>
    </span>
  );
}

/** Statistics of the selected sample. */
function SampleNumbers({ tensor }: { tensor: TensorView }) {
  const statistics = (tensor.picture?.statistics ?? []).filter(([, value]) => value !== null);
  if (!statistics.length) return null;
  return <p class="quiet sample-numbers">this sample: {statistics.slice(0, 5).map(([name, value]) => `${name} ${short(value!)}`).join(" · ")}</p>;
}
