// Routes of back edges in rolled-up pictures: in lanes beside their frame, after everything else is placed.
// The same steps as in Python, `layout/feedback.py`; a test there holds the two together.

/** From what is there to the first lane, and from the last to the border. */
export const BESIDE = 16;
const LANE = 12;
/** What is there is looked up by bands of this height; of a larger one where there would be very many. */
const BAND = 24, MOST_BANDS = 500;
/** From one edge to the next where they go round a neighbor. */
const STEP = 4;

type Point = [number, number];

/** The box at an end, with its place in the frame that holds both ends. */
export interface End {
  readonly box: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** From where to where there may be something beside it; null if it is inside another frame. */
  readonly row: readonly [number, number] | null;
}

/** An edge that goes back. */
export interface Back {
  readonly upper: End;
  readonly lower: End;
  /** Width to keep free beside its end, for a label. */
  readonly room: number;
}

/** From, to, and how far to the right something there reaches. */
export type Span = readonly [number, number, number];

/** The ways of the edges: out at the right, back in a lane of their own, and in from the right. */
export function waysBack(backs: readonly Back[], members: readonly Span[], lines: readonly Span[]): [Back, Point[]][] {
  // The short ones first: they get the inner lanes.
  const sorted = [...backs].sort((one, other) => one.upper.y - one.lower.y - (other.upper.y - other.lower.y));
  const beside = new Bands(BAND);
  for (const span of members) beside.take(...span);
  const leaving = endsOf(sorted.map((back) => back.upper), beside, true);
  const arriving = endsOf(sorted.map((back) => back.lower), beside, false);
  const bands = new Bands(members.reduce((height, [, last]) => Math.max(height, last / MOST_BANDS), BAND));
  for (const span of members) bands.take(...span);
  for (const span of lines) bands.take(...span);
  return sorted.map((back, number) => {
    const out = leaving[number], into = arriving[number], start = out[out.length - 1][1], end = into[0][1];
    const first = Math.min(start, end), last = Math.max(start, end);
    const free = Math.max(into[0][0] + back.room, bands.reach(first, last)), x = free + BESIDE;
    bands.take(first, last, free + LANE);
    return [back, [...out, [x, start], [x, end], ...into]];
  });
}

/** How far to the right something reaches, by bands of the height. */
class Bands {
  private readonly taken = new Map<number, number>();

  constructor(private readonly height: number) {}

  take(first: number, last: number, reach: number): void {
    for (let band = Math.floor(first / this.height), end = Math.floor(last / this.height); band <= end; band++) {
      this.taken.set(band, Math.max(this.taken.get(band) ?? 0, reach));
    }
  }

  reach(first: number, last: number): number {
    let found = 0;
    for (let band = Math.floor(first / this.height), end = Math.floor(last / this.height); band <= end; band++) {
      found = Math.max(found, this.taken.get(band) ?? 0);
    }
    return found;
  }
}

/** The points at which edges meet their boxes, and those to get there. */
function endsOf(ends: readonly End[], beside: Bands, isLeaving: boolean): Point[][] {
  const byBox = new Map<number, number[]>();
  ends.forEach(({ box }, number) => {
    const known = byBox.get(box);
    if (known) known.push(number);
    else byBox.set(box, [number]);
  });
  const found: Point[][] = ends.map(() => []);
  for (const numbers of byBox.values()) {
    numbers.forEach((number, i) => {
      const { x, y, width, height, row } = ends[number], share = (i + 1) / (numbers.length + 1) / 2;
      const at = y + height * (isLeaving ? 1 - share : share);
      found[number] = [[x + width, at]];
      if (row && beside.reach(at, at) > x + width) {
        const aside = BESIDE / 2 + STEP * i, along = x + width * (1 - share / 2);
        found[number] = isLeaving ? [[along, y + height], [along, row[1] + aside]] : [[along, row[0] - aside], [along, y]];
      }
    });
  }
  return found;
}
