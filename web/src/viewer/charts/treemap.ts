// Squarified treemap layout of nested modules.

export interface Area {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** One rectangle for each size, in the order given, that together fill an area; shapes near to squares. Sizes of 0 have no room. */
export function squarify(sizes: readonly number[], area: Area): Area[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const out: Area[] = sizes.map(() => ({ x: area.x, y: area.y, width: 0, height: 0 }));
  if (!(total > 0) || area.width <= 0 || area.height <= 0) return out;
  const perSize = (area.width * area.height) / total;
  const order = sizes.map((_, i) => i).filter((i) => sizes[i] > 0).sort((a, b) => sizes[b] - sizes[a]);
  let rest = area;
  let row: number[] = [];
  for (const next of order) {
    const side = Math.min(rest.width, rest.height);
    const grown = [...row, next];
    if (row.length && worst(grown, sizes, perSize, side) > worst(row, sizes, perSize, side)) {
      rest = lay(row, sizes, perSize, rest, out);
      row = [next];
    } else row = grown;
  }
  lay(row, sizes, perSize, rest, out);
  return out;
}

/** The worst aspect ratio of a row (Bruls, Huizing and van Wijk 2000). */
function worst(row: readonly number[], sizes: readonly number[], perSize: number, side: number): number {
  const areas = row.map((i) => sizes[i] * perSize);
  const sum = areas.reduce((a, b) => a + b, 0);
  const thick = sum / side;
  return Math.max(...areas.map((own) => Math.max(thick / (own / thick), own / thick / thick)));
}

/** Lay out a row along the shorter side; returns the remaining area. */
function lay(row: readonly number[], sizes: readonly number[], perSize: number, rest: Area, out: Area[]): Area {
  const sum = row.reduce((total, i) => total + sizes[i] * perSize, 0);
  const isDown = rest.width >= rest.height; // a column at the left
  const thick = sum / (isDown ? rest.height : rest.width);
  let at = isDown ? rest.y : rest.x;
  for (const i of row) {
    const long = (sizes[i] * perSize) / thick;
    out[i] = isDown ? { x: rest.x, y: at, width: thick, height: long } : { x: at, y: rest.y, width: long, height: thick };
    at += long;
  }
  return isDown ? { ...rest, x: rest.x + thick, width: rest.width - thick } : { ...rest, y: rest.y + thick, height: rest.height - thick };
}

export interface Tile extends Area {
  /** Index of the item that it represents. */
  readonly of: number;
  /** Nesting depth. */
  readonly depth: number;
  readonly isLeaf: boolean;
}

/** Height of the title of a tile with children. */
const TITLE = 17;
const GAP = 2;
/** Tiles smaller than this show no children. */
const LEAST = 34;

/** All tiles of a module, itself first. `inside` returns its children, `own` its own parameters. */
export function tiles(of: number, area: Area, { size, inside, depth = 0 }: { size(of: number): number; inside(of: number): readonly number[]; depth?: number }): Tile[] {
  const parts = inside(of).filter((part) => size(part) > 0);
  const isLeaf = !parts.length || area.width < LEAST || area.height < LEAST;
  const here: Tile = { ...area, of, depth, isLeaf };
  if (isLeaf) return [here];
  const room = { x: area.x + GAP, y: area.y + TITLE, width: area.width - 2 * GAP, height: area.height - TITLE - GAP };
  const own = size(of) - parts.reduce((sum, part) => sum + size(part), 0);
  // The module's own parameters are an area without a tile.
  const areas = squarify([...parts.map(size), Math.max(0, own)], room);
  return [here, ...parts.flatMap((part, i) => tiles(part, shrunk(areas[i]), { size, inside, depth: depth + 1 }))];
}

function shrunk({ x, y, width, height }: Area): Area {
  return { x: x + 1, y: y + 1, width: Math.max(0, width - 2), height: Math.max(0, height - 2) };
}
