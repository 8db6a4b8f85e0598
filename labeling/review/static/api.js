// What the page asks the server for.

const TOKEN = document.querySelector('meta[name="token"]').content;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function asked(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Is spectrabox review still running?");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.error || said.detail || `The server says ${answer.status}`);
}

const at = (video) => `/api/videos/${encodeURIComponent(video)}`;
const json = async (path, options) => (await asked(path, options)).json();

export const getStore = () => json("/api/store");
export const getVersion = async () => (await json("/api/version")).version;
export const getVideo = (video) => json(at(video));

export function post(what, version, edit) {
  const headers = { "content-type": "application/json", "x-spectrabox-token": TOKEN };
  const body = JSON.stringify(edit ? { version, edit } : { version });
  return json(`/api/${what}`, { method: "POST", headers, body });
}

// The boxes of a stretch of frames: where those of each frame begin, the track of each, its edges.
export async function getBoxes(video, stretch, signal) {
  const answer = await asked(`${at(video)}/boxes/${stretch}`, { signal });
  const data = await answer.arrayBuffer();
  const [frames, count] = new Uint32Array(data, 0, 2);
  const begin = new Uint32Array(data, 8, frames + 1);
  const track = new Uint32Array(data, 8 + 4 * (frames + 1), count);
  const edges = new Float32Array(data, 8 + 4 * (frames + 1) + 4 * count, 4 * count);
  return { version: answer.headers.get("x-version"), begin, track, edges };
}

// Frames `begin` to before `end`, handed to `take(number, picture)` as they come in.
export async function getFrames(video, begin, end, side, signal, take) {
  const answer = await asked(`${at(video)}/frames?begin=${begin}&end=${end}&side=${side}`, { signal });
  const reader = answer.body.getReader();
  let held = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const joined = new Uint8Array(held.length + value.length);
    joined.set(held);
    joined.set(value, held.length);
    held = joined;
    while (held.length >= 8) {
      const view = new DataView(held.buffer, held.byteOffset);
      const length = view.getUint32(4, true);
      if (held.length < 8 + length) break;
      await take(view.getUint32(0, true), new Blob([held.slice(8, 8 + length)]));
      held = held.slice(8 + length);
    }
  }
}
