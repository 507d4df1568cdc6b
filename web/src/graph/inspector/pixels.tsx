// The values of a tensor as an image that zooms and shows the number behind each pixel.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { css, gradient, DIVERGING, RISING, RISING_DARK, palette, type Rgb } from "../../lib/colors";
import type { Reader } from "../../lib/values/pixel-values";
import { decodedPixels, kindsOf, placeOf, valueAt } from "../../lib/values/pixels";
import { exact, short } from "../../lib/formatting";
import type { Image } from "../../lib/wire";
import { IconButton } from "../controls";

/** Maximum height of an image before it scrolls, in CSS pixels. */
const HIGHEST = 260;
/** The same for a single tile. */
const HIGHEST_TILES = 340;
/** Maximum size of a pixel at zoom 1; for a single tile. */
const [LARGEST, LARGEST_ALONE] = [16, 30];
/** Minimum size of a pixel of an image, if there is room. */
const LEAST = 3;
/** Gray level of non-finite values, after those of numbers. */
const BROKEN = 255;

interface PixelsProps {
  readonly image: Image;
  readonly isDark: boolean;
  /** Reads exact elements, if they are loaded. */
  readonly read?: Reader | null;
  /** Further controls beside those that enlarge. */
  readonly children?: ComponentChildren;
  /** Label of an element, by its index. */
  readonly name?: (index: readonly number[]) => string;
  /** Unit after the numbers. */
  readonly unit?: string;
  /** One of several tiles was clicked: its number among those of the value. */
  readonly onTile?: (tile: number) => void;
}

export function Pixels({ image, isDark, read, children, name, unit = "", onTile }: PixelsProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(1);
  const [width, setWidth] = useState(360);
  const [over, setOver] = useState<{ row: number; column: number } | null>(null);
  const data = useMemo(() => decodedPixels(image), [image]);
  const { hasFinite, hasBroken } = useMemo(() => kindsOf(image, data), [image, data]);
  // If each tile has its own range, no color stands for zero.
  const [low, high] = image.ranges.length ? [0, 1] : [image.low, image.high];
  const { colors, isDiverging } = useMemo(() => palette(low, high, isDark), [low, high, isDark]);
  useLayoutEffect(() => {
    const element = frame.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const pixels = context.createImageData(image.columns, image.rows);
    const [shades, painted] = [new Uint32Array(colors.buffer), new Uint32Array(pixels.data.buffer)];
    for (let i = 0; i < data.length; i++) {
      // Pixels after the last tile are padding.
      if (data[i] !== BROKEN || placeOf(image, Math.floor(i / image.columns), i % image.columns)) painted[i] = shades[data[i]];
    }
    context.putImageData(pixels, 0, 0);
  }, [data, colors, image]);
  // Pixels are square as far as that fits; a long vector or a tall matrix is stretched to be seen at all.
  const hasTiles = image.kind === "tiles";
  const highest = hasTiles ? HIGHEST_TILES : HIGHEST;
  const wide = Math.min(width / image.columns, image.n_tiles_total > 1 && image.n_tiles === 1 ? LARGEST_ALONE : LARGEST);
  const along = Math.max(Math.min(wide, highest / image.rows), image.kind === "line" ? 22 / image.rows : 0);
  const isPicture = hasTiles || image.n_tiles_total > 0; // images keep their shape, one alone too
  const pixel = isPicture ? Math.min(wide, Math.max(along, LEAST)) : wide;
  const size = { width: `${pixel * image.columns * zoom}px`, height: `${Math.max((isPicture ? pixel : along) * image.rows, 8) * zoom}px` };
  const value = over ? valueAt(image, data, over.row, over.column) : null;
  const place = over && placeOf(image, over.row, over.column);
  const element = over && read ? read(over.row, over.column) : null;
  const about = element ? `${name?.(element.index) ?? ""}[${element.index.join(", ")}]: ${exact(element.value)}${unit}`
    : place && `${describePixel(image, place)}: ${value === null ? "not finite" : `≈ ${short(value)}${unit}`}`;
  const canPick = hasTiles && onTile !== undefined;
  return (
    <figure class="pixels">
      <figcaption>
        <span>{about ?? image.caption}</span>
        <span class="zoom">
          {children}
          <IconButton icon="minus" title="Zoom out" isOff={zoom === 1} onClick={() => setZoom(zoom / 2)} />
          <IconButton icon="plus" title="Zoom in" isOff={zoom >= 16} onClick={() => setZoom(zoom * 2)} />
        </span>
      </figcaption>
      <div class="pixels-frame" ref={frame} style={{ maxHeight: `${highest + 40}px` }}>
        <div class="pixels-sheet" style={size}>
          <canvas ref={canvas} class={canPick ? "pickable" : ""} width={image.columns} height={image.rows} onPointerLeave={() => setOver(null)}
            onClick={() => canPick && place && onTile(image.first[image.axes[0]] + place.tile)}
            onPointerMove={(event) => {
              const { left, top, width: across, height } = event.currentTarget.getBoundingClientRect();
              setOver({ row: at((event.clientY - top) / height, image.rows), column: at((event.clientX - left) / across, image.columns) });
            }} />
          {hasTiles && <Grid image={image} />}
        </div>
      </div>
      <div class="pixels-scale">
        {hasFinite && (
          <>
            <span>{image.ranges.length ? "lowest" : short(isDiverging ? -Math.max(-low, high) : low)}</span>
            <i style={{ background: gradient(isDiverging ? DIVERGING : isDark ? RISING_DARK : RISING) }} />
            <span>{image.ranges.length ? `highest of each ${image.tile_word}` : short(isDiverging ? Math.max(-low, high) : high)}</span>
          </>
        )}
        {hasBroken && <span class="pixels-broken"><b style={{ background: css([...colors.subarray(4 * BROKEN, 4 * BROKEN + 3)] as unknown as Rgb) }} />{hasFinite ? "NaN or Inf" : "only NaN or Inf"}</span>}
      </div>
    </figure>
  );
}

/** Index of the item at a position from 0 to 1 among `n` of equal size. */
function at(share: number, n: number): number {
  return Math.max(0, Math.min(n - 1, Math.floor(share * n)));
}

function describePixel(image: Image, { tile, row, column }: { tile: number; row: number; column: number }): string {
  const place = image.tile_rows === 1 ? `[${column}]` : `[${row}, ${column}]`;
  return image.kind === "tiles" ? `${image.tile_word} ${(image.first[image.axes[0]] ?? 0) + tile + 1} ${place}` : place;
}

/** Lines between the tiles. */
function Grid({ image }: { image: Image }) {
  const lines = (n: number, step: number): number[] => Array.from({ length: Math.round(n / step) - 1 }, (_, i) => (i + 1) * step);
  return (
    <svg class="tile-grid" viewBox={`0 0 ${image.columns} ${image.rows}`} preserveAspectRatio="none" aria-hidden="true">
      {lines(image.columns, image.tile_columns).map((x) => <line key={`x${x}`} x1={x} x2={x} y1={0} y2={image.rows} />)}
      {lines(image.rows, image.tile_rows).map((y) => <line key={`y${y}`} x1={0} x2={image.columns} y1={y} y2={y} />)}
    </svg>
  );
}
