// The chosen sample itself: its text, its picture, its label; what came out beside what should have.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Link, Menu } from "../../app/controls";
import { at, css, gradient, DIVERGING, RISING, RISING_DARK, type Rgb } from "../../lib/colours";
import { decoded } from "../../lib/host";
import { titleOf } from "../../lib/statistics";
import { exact, short } from "../../lib/units";
import type { SampleImage, SampleItem, TensorView, TokenValues } from "../../lib/wire";
import { nodeOf } from "../choice";
import type { PanelProps } from "../panels";

export function Sample(props: PanelProps & { tensor: TensorView }) {
  const { tensor, isDark } = props;
  const { sample, tokens, beside } = tensor;
  if (!sample && !tokens && !beside.length) return null;
  return (
    <section class="sample">
      {sample && <h3>sample {String(sample.number).padStart(2, "0")}{sample.label && <b> · {sample.label}</b>}{sample.id && <span class="quiet"> {sample.id}</span>}</h3>}
      <div class="sample-body">
        {sample?.image && <SampleCanvas image={sample.image} />}
        <div class="sample-words">
          {tokens ? <Tokens tokens={tokens} isDark={isDark} /> : sample && <SampleText sample={sample} />}
          {sample && sample.others.length > 0 && (
            <dl class="fact-list">{sample.others.map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{text}</dd></div>)}</dl>
          )}
        </div>
      </div>
      {beside.length > 0 && <BesideTable {...props} />}
    </section>
  );
}

function SampleText({ sample }: { sample: SampleItem }) {
  return sample.text ? <p class="sample-text">{sample.text}</p> : null;
}

/** Each token on the colour of what the tensor holds for it. */
function Tokens({ tokens: { tokens, measures, values }, isDark }: { tokens: TokenValues; isDark: boolean }) {
  const [name, setName] = useState("");
  const [over, setOver] = useState(-1);
  const place = Math.max(0, measures.indexOf(name));
  const numbers = values[place] ?? [];
  const finite = numbers.filter((value): value is number => value !== null && Number.isFinite(value));
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const isSigned = low < 0 && high > 0;
  const most = Math.max(-low, high);
  const ramp = isSigned ? DIVERGING : isDark ? RISING_DARK : RISING;
  const colour = (value: number): Rgb => at(ramp, isSigned ? 0.5 + value / (2 * most) : high > low ? (value - low) / (high - low) : 0.5);
  return (
    <figure class="tokens">
      <figcaption>
        <span>{over >= 0 ? `${JSON.stringify(tokens[over])} ${numbers[over] === null ? "–" : exact(numbers[over]!)}` : `${tokens.length} tokens, coloured by`}</span>
        {measures.length > 1 ? (
          <Menu name="Coloured by" value={measures[place]} onChoose={setName} choices={measures.map((one) => [one, titleOf(one)] as const)} />
        ) : <span>{titleOf(measures[0] ?? "")}</span>}
      </figcaption>
      <p onPointerLeave={() => setOver(-1)}>
        {tokens.map((token, i) => {
          const value = numbers[i];
          const shade = value === null || value === undefined || !Number.isFinite(value) ? null : colour(value);
          return (
            <span key={i} class="token" onPointerEnter={() => setOver(i)} title={value === null ? "no value" : exact(value ?? NaN)}
              style={shade ? { background: css(shade), color: isBright(shade) ? "#1d1f23" : "#ffffff" } : {}}>
              {token}
            </span>
          );
        })}
      </p>
      {finite.length > 0 && (
        <div class="pixels-scale">
          <span>{short(isSigned ? -most : low)}</span><i style={{ background: gradient(ramp) }} /><span>{short(isSigned ? most : high)}</span>
        </div>
      )}
    </figure>
  );
}

function isBright([red, green, blue]: Rgb): boolean {
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}

function SampleCanvas({ image }: { image: SampleImage }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const bytes = useMemo(() => decoded(image.data), [image]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const { rows, columns, n_channels: n } = image;
    const pixels = context.createImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
      const channel = (c: number): number => bytes[i * n + (n < 3 ? 0 : c)];
      pixels.data.set([channel(0), channel(1), channel(2), n === 4 ? bytes[i * n + 3] : 255], 4 * i);
    }
    context.putImageData(pixels, 0, 0);
  }, [bytes, image]);
  const scale = Math.max(1, Math.min(6, Math.floor(140 / Math.max(image.rows, image.columns))));
  const size = { width: `${Math.min(220, image.columns * scale)}px` };
  return <canvas class="sample-image" ref={canvas} width={image.columns} height={image.rows} style={size} title={`${image.rows} × ${image.columns}, from ${short(image.low)} to ${short(image.high)}`} />;
}

/** Outputs and targets of the same sample, one below the other so that they compare. */
function BesideTable({ run, tensor, act }: PanelProps & { tensor: TensorView }) {
  return (
    <dl class="beside">
      {tensor.beside.map(({ row, site, role, shape, text }) => {
        const own = run.rows[row];
        const go = (): void => act({ do: "tensor", node: nodeOf(own), part: own.part, of: own.of, iteration: own.iteration });
        return (
          <div key={row}>
            <dt>{role === "value" ? "output" : role} {own ? <Link onGo={go}>{site}</Link> : site}</dt>
            <dd><code>{text}</code>{shape.length > 0 && <small class="quiet"> [{shape.join(", ")}]</small>}</dd>
          </div>
        );
      })}
    </dl>
  );
}
