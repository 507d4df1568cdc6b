// Routes feedback edges of rolled-up pictures in lanes beside their frame, after everything else is placed.
// The same steps as in Python, `layout/feedback.py`; `tests/layout` compares the two.

import { append } from "../lib/collections";

/** Distance from the contents to the first lane, and from the last lane to the border. */
export const LANE_MARGIN = 16;
const LANE_PITCH = 12;
/** Occupied space is looked up in bands of this height; in higher ones if there would be too many. */
const BAND = 24, MAX_BANDS = 500;
/** Distance between edges that go around a neighbor. */
const DETOUR_PITCH = 4;

type Point = [number, number];

/** The box at an end of an edge, with its position in the frame that contains both ends. */
export interface End {
  readonly box: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** The extent of its row, where other boxes may be beside it; null if it is inside an inner frame. */
  readonly row: readonly [number, number] | null;
}

/** A feedback edge: from a box to an earlier one, or to itself. */
export interface FeedbackEdge {
  readonly upper: End;
  readonly lower: End;
  /** Width to keep free beside its end, for a label. */
  readonly room: number;
}

/** Start and end along the flow, and how far to the right it is occupied there. */
export type Span = readonly [number, number, number];

/** The points of each edge: out at the right, back in its lane, and in from the right. */
export function feedbackRoutes(edges: readonly FeedbackEdge[], members: readonly Span[], lines: readonly Span[]): [FeedbackEdge, Point[]][] {
  // Short edges come first and get the inner lanes.
  const sorted = [...edges].sort((one, other) => one.upper.y - one.lower.y - (other.upper.y - other.lower.y));
  const occupied = new Bands(BAND);
  for (const span of members) occupied.occupy(...span);
  const leaving = endPoints(sorted.map((edge) => edge.upper), occupied, true);
  const arriving = endPoints(sorted.map((edge) => edge.lower), occupied, false);
  const bands = new Bands(members.reduce((height, [, last]) => Math.max(height, last / MAX_BANDS), BAND));
  for (const span of members) bands.occupy(...span);
  for (const span of lines) bands.occupy(...span);
  return sorted.map((edge, number) => {
    const out = leaving[number], into = arriving[number], start = out[out.length - 1][1], end = into[0][1];
    const first = Math.min(start, end), last = Math.max(start, end);
    const free = Math.max(into[0][0] + edge.room, bands.reach(first, last)), x = free + LANE_MARGIN;
    bands.occupy(first, last, free + LANE_PITCH);
    return [edge, [...out, [x, start], [x, end], ...into]];
  });
}

/** How far to the right space is occupied, by bands of height. */
class Bands {
  private readonly reaches = new Map<number, number>();

  constructor(private readonly height: number) {}

  occupy(first: number, last: number, reach: number): void {
    for (let band = Math.floor(first / this.height), end = Math.floor(last / this.height); band <= end; band++) {
      this.reaches.set(band, Math.max(this.reaches.get(band) ?? 0, reach));
    }
  }

  reach(first: number, last: number): number {
    let furthest = 0;
    for (let band = Math.floor(first / this.height), end = Math.floor(last / this.height); band <= end; band++) {
      furthest = Math.max(furthest, this.reaches.get(band) ?? 0);
    }
    return furthest;
  }
}

/** The points between the boxes and the lanes. */
function endPoints(ends: readonly End[], occupied: Bands, isLeaving: boolean): Point[][] {
  const byBox = new Map<number, number[]>();
  ends.forEach(({ box }, number) => append(byBox, box, number));
  const points: Point[][] = ends.map(() => []);
  for (const numbers of byBox.values()) {
    numbers.forEach((number, i) => {
      const { x, y, width, height, row } = ends[number], share = (i + 1) / (numbers.length + 1) / 2;
      const at = y + height * (isLeaving ? 1 - share : share);
      points[number] = [[x + width, at]];
      if (row && occupied.reach(at, at) > x + width) {
        const aside = LANE_MARGIN / 2 + DETOUR_PITCH * i, along = x + width * (1 - share / 2);
        points[number] = isLeaving ? [[along, y + height], [along, row[1] + aside]] : [[along, row[0] - aside], [along, y]];
      }
    });
  }
  return points;
}
