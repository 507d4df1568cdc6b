// Parses which quantity of a tensor a row holds (`row.of`): value, gradient or update. docs/recording.md has the rules.

export interface Quantity {
  /** "value", "grad", "inner_grad", "update", or a further statistic. */
  readonly what: string;
  /** Occurrence within the step: 2 for "grad@2", the gradient that a second optimizer step read. */
  readonly number: number;
  /** "aux" for "grad/aux"; "" for the whole. */
  readonly loss: string;
}

export function quantity(of: string): Quantity {
  const [, what, number, loss] = /^([^/@]*)(?:@(\d+))?(?:\/(.*))?$/s.exec(of) ?? ["", of];
  return { what, number: Number(number ?? 1), loss: loss ?? "" };
}

export function isGradient(of: string): boolean {
  const { what } = quantity(of);
  return what === "grad" || what === "inner_grad";
}

const TITLES: Readonly<Record<string, string>> = { grad: "gradient", inner_grad: "inner gradient" };

/** "gradient of aux" for "grad/aux". */
export function quantityTitle(of: string): string {
  const { what, number, loss } = quantity(of);
  const title = TITLES[what] ?? what;
  // Old runs wrote "grad/2" for a second optimizer step, which is ambiguous with a loss named "2".
  if (loss) return /^\d+$/.test(loss) ? `${title} ${loss}` : `${title} of ${loss}`;
  return number > 1 ? `${title}, ${what === "inner_grad" ? "call" : "optimizer step"} ${number}` : title;
}

/** Short form within a list of quantities of one tensor: "of aux". */
export function quantityName(of: string): string {
  const title = quantityTitle(of);
  return of.startsWith("grad/") ? title.replace(/^gradient (?=of )/, "") : title;
}
