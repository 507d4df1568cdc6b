// Whether the window is narrow. The style sheet uses the same width.

import { useEffect, useState } from "preact/hooks";

const NARROW = 700;

export function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => innerWidth <= NARROW);
  useEffect(() => {
    const look = (): void => setNarrow(innerWidth <= NARROW);
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, []);
  return isNarrow;
}
