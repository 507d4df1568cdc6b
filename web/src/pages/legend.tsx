// A legend whose entries toggle their series.

import { seriesColor } from "./colors";

interface Props {
  readonly names: readonly string[];
  readonly dashes?: readonly boolean[];
  readonly hidden: ReadonlySet<number>;
  onToggle(place: number): void;
}

export function Key({ names, dashes, hidden, onToggle }: Props) {
  if (names.length < 2) return null;
  return (
    <div class="block-key">
      {names.map((name, place) => (
        <button type="button" key={place} aria-pressed={!hidden.has(place)} title={hidden.has(place) ? "Show" : "Hide"} onClick={() => onToggle(place)}>
          <Swatch place={place} isDashed={dashes?.[place]} />{name}
        </button>
      ))}
    </div>
  );
}

export function Swatch({ place, isDashed = false }: { place: number; isDashed?: boolean }) {
  return (
    <svg class="swatch" viewBox="0 0 18 8" aria-hidden="true">
      <line x1={1} x2={17} y1={4} y2={4} style={{ stroke: seriesColor(place) }} stroke-dasharray={isDashed ? "5 3" : undefined} />
    </svg>
  );
}
