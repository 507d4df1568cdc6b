// The values themselves: how they are spread, and the picture that suits their shape.

import { useMemo, useState } from "preact/hooks";
import { Segments } from "../../app/controls";
import { Histogram } from "../../app/inspector/histogram";
import { Pixels } from "../../app/inspector/pixels";
import { exactReader } from "../../lib/exact";
import { short } from "../../lib/units";
import type { TensorView } from "../../lib/wire";
import { valuesAsk } from "../asks";
import type { PanelProps } from "../panels";
import { useAsked } from "../use-asked";
import { Quantiles } from "./cards";

/** Up to so many values are fetched to tell exact numbers; of more a pixel tells them nearly. */
const MOST_EXACT = 262_144;

export function Spread({ tensor }: { tensor: TensorView }) {
  const own = tensor.sample ? tensor.picture?.histogram ?? null : null;
  const isOfSample = own !== null;
  const histogram = own ?? tensor.histogram ?? tensor.picture?.histogram ?? null;
  const isWhole = !isOfSample && tensor.histogram !== null;
  const hasBatch = !["parameter", "buffer"].includes(tensor.role) && tensor.of !== "update";
  return (
    <>
      {histogram && (
        <Histogram histogram={histogram} areShares={isWhole}
          title={isOfSample ? "distribution in this sample" : isWhole ? (hasBatch ? "distribution over the batch" : "distribution") : "distribution of the kept values"} />
      )}
      {!isOfSample && <Quantiles statistics={tensor.statistics} />}
    </>
  );
}

export function Picture({ run, client, isDark, act, tensor }: PanelProps & { tensor: TensorView }) {
  const [isOver, setOver] = useState(false);
  const { picture, shape } = tensor;
  const image = picture?.image ?? null;
  const n = shape.reduce((product, size) => product * size, 1);
  const isExact = isOver && image !== null && n <= MOST_EXACT;
  const { value: values, isOld } = useAsked(client, isExact ? valuesAsk(run.item.id, tensor.row, tensor.step, tensor.is_normalised) : null);
  const sample = tensor.sample?.number ?? null;
  const read = useMemo(() => (image && values && !isOld ? exactReader(image, shape, values, sample) : null), [image, values, isOld, shape, sample]);
  if (!picture) return tensor.why_missing ? <p class="note why-missing">{tensor.why_missing}</p> : null;
  const isOne = picture.text !== "" && shape.every((size) => size === 1);
  return (
    <div class="value-picture" onPointerEnter={() => setOver(true)}>
      {tensor.sample && <SampleNumbers tensor={tensor} />}
      {image && (
        <Pixels image={image} isDark={isDark} read={read}>
          {tensor.n_samples > 1 && (
            <Segments name="Values" value={tensor.is_normalised} onChoose={(is: boolean) => act({ do: "keep", name: "inspect.normal", text: is ? "1" : "" })}
              choices={[
                { value: false, text: "raw", title: "The values as they are" },
                { value: true, text: "vs. batch", title: "Deviations from the mean over the batch, in standard deviations" },
              ]} />
          )}
        </Pixels>
      )}
      {picture.text && <pre class={isOne ? "value-text one" : "value-text"}>{picture.text}</pre>}
    </div>
  );
}

/** What the chosen sample alone amounts to. */
function SampleNumbers({ tensor }: { tensor: TensorView }) {
  const said = (tensor.picture?.statistics ?? []).filter(([, value]) => value !== null);
  if (!said.length) return null;
  return <p class="quiet sample-numbers">this sample: {said.slice(0, 5).map(([name, value]) => `${name} ${short(value!)}`).join(" · ")}</p>;
}
