// The selected sample: text, image, label, and outputs beside targets.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { Link } from "../../graph/controls";
import { decodeBase64 } from "../../lib/host";
import { short } from "../../lib/formatting";
import type { SampleImage, SampleItem, TensorView } from "../../lib/wire";
import { selectRow } from "../choice";
import type { PanelProps } from "../panels/props";
import { Tokens } from "./tokens";

export function Sample(props: PanelProps & { tensor: TensorView }) {
  const { tensor } = props;
  const { sample, tokens, companions } = tensor;
  if (!sample && !tokens && !companions.length) return null;
  return (
    <section class="sample">
      <h3>sample {sample?.number ?? props.choice.sample ?? 0}{sample?.label && <b> · {sample.label}</b>}{sample?.id && <span class="quiet"> {sample.id}</span>}</h3>
      <div class="sample-body">
        {sample?.image && <SampleCanvas image={sample.image} />}
        <div class="sample-words">
          {tokens ? <Tokens {...props} tokens={tokens} /> : sample && <SampleText sample={sample} />}
          {sample && sample.others.length > 0 && (
            <dl class="fact-list">{sample.others.map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{text}</dd></div>)}</dl>
          )}
        </div>
      </div>
      {companions.length > 0 && <CompanionTable {...props} />}
    </section>
  );
}

function SampleText({ sample }: { sample: SampleItem }) {
  return sample.text ? <p class="sample-text">{sample.text}</p> : null;
}

/** `range` is what black and white mean, if not the range of the image itself. */
export function SampleCanvas({ image, most = 220, range }: { image: SampleImage; most?: number; range?: readonly [number, number] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const bytes = useMemo(() => decodeBase64(image.data), [image]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const { rows, columns, n_channels: n } = image;
    const pixels = context.createImageData(columns, rows);
    const [low, high] = range ?? [image.low, image.high];
    // Values beyond the range are clamped by the canvas.
    const level = (byte: number): number => (255 * (image.low + (byte / 255) * (image.high - image.low) - low)) / (high - low || 1);
    for (let i = 0; i < rows * columns; i++) {
      const channel = (c: number): number => level(bytes[i * n + (n < 3 ? 0 : c)]);
      pixels.data.set([channel(0), channel(1), channel(2), n === 4 ? bytes[i * n + 3] : 255], 4 * i);
    }
    context.putImageData(pixels, 0, 0);
  }, [bytes, image, range?.[0], range?.[1]]);
  const scale = Math.max(1, Math.min(6, Math.floor(140 / Math.max(image.rows, image.columns))));
  const size = { width: `${Math.min(most, image.columns * scale)}px` };
  return <canvas class="sample-image" ref={canvas} width={image.columns} height={image.rows} style={size} title={`${image.rows} × ${image.columns}, from ${short(image.low)} to ${short(image.high)}`} />;
}

/** Outputs and targets of the same sample, one below the other so that they compare. */
function CompanionTable({ run, tensor, act, state }: PanelProps & { tensor: TensorView }) {
  return (
    <dl class="companions">
      {tensor.companions.map(({ row, site, role, shape, text, verdict }) => {
        const own = run.rows[row];
        const go = (): void => act(selectRow(own, state));
        const round = own?.iteration ? ` in iteration ${own.iteration}` : "";
        return (
          <div key={row}>
            <dt>{role} {own && row !== tensor.row ? <Link onGo={go}>{site === "." ? "of the model" : site}</Link> : <b>{site === "." ? "of the model" : site}</b>}{round}{shape.length > 0 && <small class="quiet"> [{shape.join(", ")}]</small>}</dt>
            <dd><code>{text}</code>{verdict && <p class="verdict">{verdict}</p>}</dd>
          </div>
        );
      })}
    </dl>
  );
}
