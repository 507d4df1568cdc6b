// Sources of op details that are not in the view: the HTML file itself or the notebook kernel.

import type { OpDetails } from "./wire";

export interface Host {
  /** Details of an op, by its row in the trace; null if they are not stored with the picture. */
  detail(row: number): Promise<OpDetails | null>;
  /** What to say where that takes long. */
  readonly delay?: string;
}

/** What anywidget hands to the front end, as far as it is used here. */
export interface Model {
  get(name: string): unknown;
  on(name: string, callback: (...args: never[]) => void): void;
  off(name: string, callback?: (...args: never[]) => void): void;
  send(message: unknown): void;
}

/** Rows per chunk of details in a file (server/page.py). */
export const CHUNK = 64;

/** The details that lie in the file, in chunks that are decoded when first looked into. `find` gives a chunk's text. */
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

/** Details asked of the kernel, each once; again only where it has not answered for long, being busy or gone. */
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

/** How long a kernel may be busy before it is asked again, should somebody come back to the op. */
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

/** The text behind zlib-compressed bytes. */
export async function inflate(bytes: BufferSource): Promise<string> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** The bytes behind base64, without a call for each of millions of characters. */
export function decodeBase64(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
