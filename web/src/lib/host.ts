// Sources of op details that are not in the view: the HTML file itself or the notebook kernel.

import type { OpDetails } from "./wire";

export interface Host {
  /** Details of an op, by its row in the trace; null if they are not stored with the picture. */
  detail(row: number): Promise<OpDetails | null>;
  /** Message if loading takes long. */
  readonly delay?: string;
}

/** The part of anywidget's model that is used here. */
export interface Model {
  get(name: string): unknown;
  on(name: string, callback: (...args: never[]) => void): void;
  off(name: string, callback?: (...args: never[]) => void): void;
  send(message: unknown): void;
}

/** Rows per chunk of details in a file (server/page.py). */
export const CHUNK = 64;

/** Details stored in the file, in chunks that are decoded on first use. `find` returns the text of a chunk. */
export function embeddedHost(find: (chunk: number) => string | null): Host {
  const chunks = new Map<number, Promise<Record<number, OpDetails>>>();
  return {
    async detail(row) {
      const number = Math.floor(row / CHUNK);
      let chunk = chunks.get(number);
      if (!chunk) {
        const text = find(number);
        chunk = text === null ? Promise.resolve({}) : inflate(decodeBase64(text)).then((json) => JSON.parse(json));
        chunks.set(number, chunk);
      }
      return (await chunk)[row] ?? null;
    },
  };
}

/** Details from the kernel. Each is requested once, and again only if the kernel has not answered for a while. */
export function kernelHost(model: Model, view: number): Host {
  const asked = new Map<number, Promise<OpDetails | null>>();
  return {
    delay: "The kernel is busy or not running. Details appear as soon as it responds.",
    detail(row) {
      let answer = asked.get(row);
      if (!answer) {
        answer = requestDetail(model, view, row);
        const own = answer;
        const forget = setTimeout(() => asked.get(row) === own && asked.delete(row), PATIENCE);
        void answer.then(() => clearTimeout(forget));
        asked.set(row, answer);
      }
      return answer;
    },
  };
}

/** Time after which a request is repeated when the user selects the op again. */
const PATIENCE = 20_000;
let lastId = 0;

function requestDetail(model: Model, view: number, row: number): Promise<OpDetails | null> {
  const id = ++lastId;
  return new Promise((resolve) => {
    const answered = (message: { id?: number; detail?: OpDetails | null }) => {
      if (message?.id !== id) return;
      model.off("msg:custom", answered);
      resolve(message.detail ?? null);
    };
    model.on("msg:custom", answered);
    model.send({ id, view, row });
  });
}

/** Decompress zlib data to text. */
export async function inflate(bytes: BufferSource): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Decode base64. An indexed loop: `Uint8Array.from` would call a function for each of millions of characters. */
export function decodeBase64(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
